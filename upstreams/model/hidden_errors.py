"""Errors that arrive with a success status, which only the body shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

IsError = Callable[[bytes], bool]
"""Returns whether the body of an answer with a success status is an error. Called for every such answer, so it must be
fast if there is none."""


def if_present(member: str) -> IsError:
    """Return a test for bodies that are an object with this member."""
    return partial(_is_present, f'"{member}"'.encode(), member)


def _is_present(written: bytes, member: str, body: bytes) -> bool:
    return written in body and member in _members(body)


def if_false(member: str) -> IsError:
    """Return a test for bodies that are an object in which this member is false."""
    return partial(_is_false, re.compile(rb'"%b"\s*:\s*false\b' % re.escape(member.encode())).search, member)


def _is_false(search: Callable[[bytes], object], member: str, body: bytes) -> bool:
    # An object inside the body may have the same member, so a match is confirmed.
    return search(body) is not None and _members(body).get(member) is False


def _members(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
