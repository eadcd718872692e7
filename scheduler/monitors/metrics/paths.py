"""Paths to numbers: their syntax, their values, and suggestions for unknown ones (spec 4.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from scheduler.json_input import nearest
from scheduler.monitors.metrics.shapes import ROW, ArchetypeShape

PATH_MAX = 200
_PATH = re.compile(r"(?:items\[\]\.)?[^.\[\]\x00-\x1f]+(?:\.[^.\[\]\x00-\x1f]+)*")
_APART = re.compile(r"[.\[\]/]+")
_AROUND = {"", "*", "$", "data", "items", "result"}
"""Names that people write around a path but that do not identify the field."""


class Suggestion(NamedTuple):
    """The suggested path. `misplaced` means that the last name was right, but not the path to it."""

    path: str
    misplaced: bool


def is_path(text: str) -> bool:
    """Return whether a text is a path: `author.followers`, or `items[].post.id` for a value in each row."""
    return len(text) <= PATH_MAX and _PATH.fullmatch(text) is not None


def names_of(path: str) -> tuple[str, ...]:
    """Return the names that lead to the value, relative to the row if the path leads into rows."""
    return tuple(path.removeprefix(ROW).split("."))


def value_at(record: object, names: Iterable[str]) -> object:
    """Return the value at the path of these names, or None if a name is missing. Arrays are never entered."""
    for name in names:
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record


def suggest(path: str, known: Iterable[str]) -> Suggestion | None:
    """Return a suggestion for an unknown path: the same field elsewhere, or a similarly spelled path."""
    by_length = sorted((candidate for candidate in known if _words(candidate)), key=len)
    wanted = _words(path)
    if not wanted:
        return None
    elsewhere = _first(_ends_with, by_length, wanted) or _first(_passes_through, by_length, wanted)
    if elsewhere is not None:
        return Suggestion(elsewhere, misplaced=True)
    misspelled = nearest(path, by_length, cutoff=0.8)
    if misspelled is not None:
        return Suggestion(misspelled, misplaced=False)
    elsewhere = _first(_ends_alike, by_length, wanted)
    if elsewhere is not None:
        return Suggestion(elsewhere, misplaced=True)
    misspelled = _by_last_name(wanted[-1], by_length)
    return None if misspelled is None else Suggestion(misspelled, misplaced=False)


def numbers_in(shape: ArchetypeShape, below: str = "") -> Iterator[str]:
    """Yield the paths of the shape's numbers that begin with `below`."""
    return (path for path, kind in shape.kinds.items() if kind == "number" and path.startswith(below))


def _words(path: str) -> list[str]:
    return [word for word in _APART.split(path[:PATH_MAX]) if word not in _AROUND and not word.isdigit()]


def _first(is_same: Callable[[list[str], list[str]], bool], candidates: list[str], wanted: list[str]) -> str | None:
    return next((candidate for candidate in candidates if is_same(_words(candidate), wanted)), None)


def _ends_with(words: list[str], wanted: list[str]) -> bool:
    return words[-len(wanted) :] == wanted


def _passes_through(words: list[str], wanted: list[str]) -> bool:
    """Return whether both paths end in the same name and one is the other with some names left out."""
    shorter, longer = sorted((words, wanted), key=len)
    remaining = iter(longer)
    return words[-1] == wanted[-1] and all(word in remaining for word in shorter)


def _ends_alike(words: list[str], wanted: list[str]) -> bool:
    return words[-1] == wanted[-1]


def _by_last_name(name: str, candidates: list[str]) -> str | None:
    last_names = {_words(candidate)[-1]: candidate for candidate in reversed(candidates)}
    near = nearest(name, last_names, cutoff=0.7)
    return None if near is None else last_names[near]
