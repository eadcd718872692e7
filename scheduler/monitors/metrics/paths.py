"""Paths to numbers: how they are written, what stands at one, and which one was probably meant (spec 4.5)."""

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
"""Names that people write around a path and that do not say which field is meant."""


class Meant(NamedTuple):
    """The path that was probably meant; `misplaced`: its last name is right, the way to it was not."""

    path: str
    misplaced: bool


def is_path(text: str) -> bool:
    """Whether a text is written as a path: `author.followers`, or `items[].post.id` for one of each row."""
    return len(text) <= PATH_MAX and _PATH.fullmatch(text) is not None


def names_of(path: str) -> tuple[str, ...]:
    """The names that lead to the value, within the row where it is a path of rows."""
    return tuple(path.removeprefix(ROW).split("."))


def value_at(record: object, names: Iterable[str]) -> object:
    """Return the value at the end of the names; None when the way breaks off. Arrays are never walked into."""
    for name in names:
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record


def meant_by(path: str, known: Iterable[str]) -> Meant | None:
    """Return the known path that was meant by an unknown one: the same field elsewhere, or one spelt much alike."""
    by_length = sorted((candidate for candidate in known if _words(candidate)), key=len)
    wanted = _words(path)
    if not wanted:
        return None
    elsewhere = _first(_ends_with, by_length, wanted) or _first(_passes_through, by_length, wanted)
    if elsewhere is not None:
        return Meant(elsewhere, misplaced=True)
    misspelt = nearest(path, by_length, cutoff=0.8)
    if misspelt is not None:
        return Meant(misspelt, misplaced=False)
    elsewhere = _first(_ends_alike, by_length, wanted)
    if elsewhere is not None:
        return Meant(elsewhere, misplaced=True)
    misspelt = _by_last_name(wanted[-1], by_length)
    return None if misspelt is None else Meant(misspelt, misplaced=False)


def numbers_in(shape: ArchetypeShape, below: str = "") -> Iterator[str]:
    """The paths of the shape's numbers, those that begin with `below`."""
    return (path for path, kind in shape.kinds.items() if kind == "number" and path.startswith(below))


def _words(path: str) -> list[str]:
    return [word for word in _APART.split(path[:PATH_MAX]) if word not in _AROUND and not word.isdigit()]


def _first(is_same: Callable[[list[str], list[str]], bool], candidates: list[str], wanted: list[str]) -> str | None:
    return next((candidate for candidate in candidates if is_same(_words(candidate), wanted)), None)


def _ends_with(words: list[str], wanted: list[str]) -> bool:
    return words[-len(wanted) :] == wanted


def _passes_through(words: list[str], wanted: list[str]) -> bool:
    """Whether one leads to the same name with steps of the other left out."""
    shorter, longer = sorted((words, wanted), key=len)
    remaining = iter(longer)
    return words[-1] == wanted[-1] and all(word in remaining for word in shorter)


def _ends_alike(words: list[str], wanted: list[str]) -> bool:
    return words[-1] == wanted[-1]


def _by_last_name(name: str, candidates: list[str]) -> str | None:
    last_names = {_words(candidate)[-1]: candidate for candidate in reversed(candidates)}
    near = nearest(name, last_names, cutoff=0.7)
    return None if near is None else last_names[near]
