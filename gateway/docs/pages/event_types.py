"""Tables of event types, built from the registry: when each type of event is written, and its data (spec 2.8, 6.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from events.log.kinds import KINDS

_WORDS: Mapping[object, str] = {int: "integer", str: "string", bool: "boolean", float: "number", NoneType: "null"}


def shapes_markdown() -> str:
    """Return the shapes of the events' data as Markdown, each under a heading."""
    shapes = "\n".join(f"### {_title(shape)}\n\n{_description(shape)}\n\n{_fields_table(shape)}" for shape in _shapes())
    return f"## The data of each type\n\n{shapes}"


def types_table() -> str:
    """Return all types as a Markdown table."""
    rows = (
        f"| `{kind.name}`{' *' if kind.account_wide else ''} | {kind.when} | {_title(kind.data)} |\n"
        for kind in KINDS.values()
    )
    return "| Type | Written when | Data |\n|---|---|---|\n" + "".join(rows)


def _shapes() -> list[type[Struct]]:
    return list(dict.fromkeys(kind.data for kind in KINDS.values()))


def _title(shape: type[Struct]) -> str:
    """Return the name of a shape in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", shape.__name__).capitalize()


def _description(shape: type[Struct]) -> str:
    """Return the docstring of a shape, without its reference to the specification."""
    return re.sub(r" \(spec [^)]*\)", "", " ".join((shape.__doc__ or "").split()))


def _fields_table(shape: type[Struct]) -> str:
    rows = (f"| `{path}` | {words} |\n" for path, words in _fields(shape))
    return "| Field of `data` | Type |\n|---|---|\n" + "".join(rows)


def _fields(shape: type[Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type (in words) of each field that has no nested fields."""
    for name, hint in get_type_hints(shape).items():
        if isinstance(hint, type) and issubclass(hint, Struct):
            yield from _fields(hint, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _in_words(hint)


def _in_words(hint: object) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_in_words(one) for one in get_args(hint))
    return _WORDS[hint]
