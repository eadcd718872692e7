"""Instants as events, run records and envelopes write them: ISO 8601 UTC with `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Unix seconds as text, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(at: float | None) -> str | None:
    """As `iso`, where there may be no instant."""
    return None if at is None else iso(at)


def no_instant(text: str) -> str:
    """The problem with `text`, which was sent for an instant."""
    return f"{text} is no ISO 8601 instant, such as 2030-01-31T12:00:00Z"


def unix(text: str) -> float:
    """ISO 8601 text as Unix seconds; without an offset it is UTC.

    Raises:
        ValueError: it is no such text.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
