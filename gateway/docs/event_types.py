"""The page of event types, made from the registry: when each is written, and what its data holds (spec 2.8, 6.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from events.log.kinds import FAMILIES, KINDS

_WORDS: Mapping[object, str] = {int: "integer", str: "string", bool: "boolean", float: "number", NoneType: "null"}
_INTRODUCTION = (
    "`GET /v1/events` gives an account's events in order. Each has `id`, `type`, `api_version`, `created_at`, "
    "`cursor`, `subject{kind, id, name?}`, `data` (counts and ids only) and `links`. `types=` selects by type, family "
    f"({', '.join(f'`{family}`' for family in FAMILIES)}) or all of them (`*`). Events marked with * belong to the "
    "account: each of its keys sees them; any other is seen by the key that made the object."
)


def markdown() -> str:
    """The page as Markdown."""
    shapes = "\n".join(f"## {_title(shape)}\n\n{_said(shape)}\n\n{_fields_table(shape)}" for shape in _shapes())
    return f"# Events\n\n{_INTRODUCTION}\n\n{types_table()}\n{shapes}"


def types_table() -> str:
    """Every type as a row of a Markdown table."""
    rows = (
        f"| `{kind.name}`{' *' if kind.account_wide else ''} | {kind.when} | {_title(kind.data)} |\n"
        for kind in KINDS.values()
    )
    return "| Type | Written when | Data |\n|---|---|---|\n" + "".join(rows)


def html() -> str:
    """The page as HTML, with an anchor for each type."""
    types = "".join(
        f'<tr id="{kind.name}"><td><code>{kind.name}</code>{" *" if kind.account_wide else ""}<td>{_marked(kind.when)}'
        f'<td><a href="#{kind.data.__name__}">{_title(kind.data)}</a>'
        for kind in KINDS.values()
    )
    shapes = "".join(
        f'<h2 id="{shape.__name__}">{_title(shape)}</h2><p>{_marked(_said(shape))}<table>'
        + "".join(f"<tr><td><code>{path}</code><td>{_marked(words)}" for path, words in _fields(shape))
        + "</table>"
        for shape in _shapes()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Sluice: events</title><h1>Events</h1>"
        f"<p>{_marked(_INTRODUCTION)}<table><tr><th>Type<th>Written when<th>Data{types}</table>{shapes}"
    )


def _shapes() -> list[type[Struct]]:
    return list(dict.fromkeys(kind.data for kind in KINDS.values()))


def _title(shape: type[Struct]) -> str:
    """A shape's name in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", shape.__name__).capitalize()


def _said(shape: type[Struct]) -> str:
    """Its docstring, without the place in the specification."""
    return re.sub(r" \(spec [^)]*\)", "", " ".join((shape.__doc__ or "").split()))


def _fields_table(shape: type[Struct]) -> str:
    rows = (f"| `{path}` | {words} |\n" for path, words in _fields(shape))
    return "| Field of `data` | Type |\n|---|---|\n" + "".join(rows)


def _fields(shape: type[Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The paths of a shape's leaves, with the words for what stands there."""
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


def _marked(text: str) -> str:
    """Text with its code marked up."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
