"""Schemathesis hooks: select the generated queries that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import schemathesis


@schemathesis.hook
def filter_query(_context: Any, query: Mapping[str, Any] | None) -> bool:
    """Skip values that are invalid only in Python.

    For example, a list of blanks is sent as an empty parameter, which means that the parameter is absent.
    """
    return not any(is_sent_as_none(value) for value in (query or {}).values())


def is_sent_as_none(value: Any) -> bool:
    """Return whether a value is neither "" nor null, but is sent as blank or absent."""
    if isinstance(value, str):
        return value != "" and not value.strip()
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return all(part is None or part == "" or is_sent_as_none(part) for part in parts)
    return False
