"""Compares an upstream's bodies with its stand-in's bodies, to find needed members that the upstream has removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def members_gone(invented: Sequence[Any], sent: Sequence[Any]) -> list[str]:
    """Return the members (dotted names) that occur in the stand-in's bodies but nowhere in the upstream's bodies.

    If the upstream leaves a member empty, nothing can be compared below it. Some platforms omit members without a
    value, so a returned member may only be empty.
    """
    found = (
        name for ours, theirs in zip(invented, sent, strict=False) for name in _missing_members([ours], [theirs], "")
    )
    return list(dict.fromkeys(found))


def _missing_members(ours: list[Any], theirs: list[Any], path: str) -> Iterator[str]:
    """Yield the missing members. `ours` and `theirs` are all values found at one path."""
    known, sent = _objects(_entries(ours)), _entries(theirs)
    come = _objects(sent)
    if not come:
        if known and any(one is not None for one in sent):
            yield path
        return
    for name in dict.fromkeys(name for one in known for name in one):
        here = f"{path}.{name}" if path else name
        values = [one[name] for one in come if name in one]
        if values:
            yield from _missing_members([one[name] for one in known if name in one], values, here)
        else:
            yield here


def _entries(values: list[Any]) -> list[Any]:
    """Return these values, with each list replaced by its items."""
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]


def _objects(values: list[Any]) -> list[dict[str, Any]]:
    return [entry for entry in values if isinstance(entry, dict)]
