"""What Schemathesis asks this file for: which of the queries that it makes are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import schemathesis


@schemathesis.hook
def filter_query(_context: Any, query: Mapping[str, Any] | None) -> bool:
    """Leave out what is wrong in Python alone: a list of blanks is sent as an empty parameter, and so as none."""
    return not any(is_sent_as_none(value) for value in (query or {}).values())


def is_sent_as_none(value: Any) -> bool:
    """Whether a value is another one than "" or null, but is sent as blanks or as nothing."""
    if isinstance(value, str):
        return value != "" and not value.strip()
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        return all(part is None or part == "" or is_sent_as_none(part) for part in parts)
    return False
