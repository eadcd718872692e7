"""The time window that a read requests with `from` and `to`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.instants import unix
from gateway.http.errors import InvalidParam
from scheduler.monitors.history.lists import SlotSpan
from upstreams.model.params import Param, Value

WINDOW: Final = (
    Param("from", "Only entries scheduled at this time or later, ISO 8601.", "2026-01-31T12:00:00Z", length_max=40),
    Param("to", "Only entries scheduled before this time, ISO 8601.", "2026-02-28T12:00:00Z", length_max=40),
)
_FIELDS: Final = (("from", "since"), ("to", "until"))


def window_of(values: Mapping[str, Value]) -> SlotSpan:
    """Return the window.

    A bound that was not sent stays open.

    Raises:
        InvalidParam: a bound is invalid, or the window ends before it starts. The 400 names the parameter.
    """
    ends = {name: _instant(name, str(values[name])) for name in ("from", "to") if name in values}
    window = SlotSpan()._replace(**{field: ends[name] for name, field in _FIELDS if name in ends})
    if window.since >= window.until:
        raise InvalidParam("to", "must be after from")
    return window


def _instant(name: str, text: str) -> float:
    try:
        return unix(text)
    except (ValueError, OverflowError) as exc:
        suggestion = "Send a time such as 2026-01-31T12:00:00Z. In a query, write + as %2B."
        raise InvalidParam(name, "must be an ISO 8601 time", suggestion=suggestion) from exc
