"""Compares what an upstream sends with what its stand-in sends: members that readers touch and that are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def members_gone(invented: Sequence[Any], sent: Sequence[Any]) -> list[str]:
    """The members of a read's bodies, with dots, that the stand-in's have and that the upstream's lack everywhere.

    Below what the upstream leaves empty nothing can be told. Some platforms leave a member out where it says nothing.
    """
    found = (name for ours, theirs in zip(invented, sent, strict=False) for name in _gone([ours], [theirs], ""))
    return list(dict.fromkeys(found))


def _gone(ours: list[Any], theirs: list[Any], path: str) -> Iterator[str]:
    """`ours` and `theirs` are all values at a path."""
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
            yield from _gone([one[name] for one in known if name in one], values, here)
        else:
            yield here


def _entries(values: list[Any]) -> list[Any]:
    """These values, those of lists in place of the lists."""
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]


def _objects(values: list[Any]) -> list[dict[str, Any]]:
    return [entry for entry in values if isinstance(entry, dict)]
