"""Reads the objects of a monitor as a caller sent them: which fields they have, and what a misspelt one meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from scheduler.errors import MonitorInvalid

_TEXT_MAX = 200
"""Characters of a sent text that are compared or repeated: a longer one is no misspelling."""


def nearest(text: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that a text probably meant."""
    return next(iter(get_close_matches(text[:_TEXT_MAX], list(known), n=1, cutoff=cutoff)), None)


def quoted(text: str) -> str:
    """Return a sent text in quotes, shortened, as a message may hold it."""
    return repr(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}...")


def kind_of(value: object) -> str:
    """Return the kind of a JSON value in the words of messages."""
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (list, "an array"), (dict, "an object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def object_at(param: str, sent: object, fields: Sequence[str], *, refuse: type[MonitorInvalid]) -> Mapping[str, object]:
    """An object that has none but these fields; the ones that are null count as not sent.

    Raises:
        `refuse`: it is no object, or has another field.
    """
    listed = ", ".join(fields)
    if not isinstance(sent, dict):
        raise refuse(param, f"must be an object, not {kind_of(sent)}", f"Send an object with {listed}.")
    for name in sent:
        if name not in fields:
            raise refuse(
                f"{param}.{name[:_TEXT_MAX]}",
                "is no field of it",
                f"Its fields are {listed}.",
                did_you_mean=nearest(name, fields),
            )
    return {name: value for name, value in sent.items() if value is not None}
