"""Instants as events and run records write them: ISO 8601 UTC with `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Unix seconds as text, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
