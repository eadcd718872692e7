"""Timestamps in events, run records and envelopes: ISO 8601 UTC with `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Return Unix seconds as text, with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(at: float | None) -> str | None:
    """Like `iso`, but None stays None."""
    return None if at is None else iso(at)


def no_instant(text: str) -> str:
    """Return the error message for `text`, which is not a valid timestamp."""
    return f"{text} is not an ISO 8601 time such as 2030-01-31T12:00:00Z"


def unix(text: str) -> float:
    """Return ISO 8601 text as Unix seconds. Text without an offset is read as UTC.

    Raises:
        ValueError: the text is invalid.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
