"""Reads objects in monitor requests: checks their fields, and suggests corrections for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from scheduler.errors import MonitorInvalid

_TEXT_MAX = 200
"""The maximum number of characters of a sent text that are compared or quoted. A longer text is not a misspelling."""


def nearest(text: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the most similar known word, or None."""
    return next(iter(get_close_matches(text[:_TEXT_MAX], list(known), n=1, cutoff=cutoff)), None)


def quoted(text: str) -> str:
    """Return a client's text in quotes, shortened for use in a message."""
    return repr(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}...")


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, as named in messages."""
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (list, "an array"), (dict, "an object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def object_at(param: str, sent: object, fields: Sequence[str], *, refuse: type[MonitorInvalid]) -> Mapping[str, object]:
    """Return an object that has no fields other than `fields`. Null fields count as missing.

    Raises:
        `refuse`: the value is not an object, or has another field.
    """
    listed = ", ".join(fields)
    if not isinstance(sent, dict):
        raise refuse(param, f"must be an object, not {kind_of(sent)}", f"Send an object with {listed}.")
    for name in sent:
        if name not in fields:
            raise refuse(
                f"{param}.{name[:_TEXT_MAX]}",
                "is an unknown field",
                f"The allowed fields are {listed}.",
                did_you_mean=nearest(name, fields),
            )
    return {name: value for name, value in sent.items() if value is not None}
