"""Partial or reformatted responses: `fields`, and `format=csv|ndjson` for lists (decisions 16).

Neither affects caching, storage or billing: the complete response is always produced first, and the requested part is
then extracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, Literal

import orjson
import trio

from gateway.http.errors import InvalidParam
from gateway.http.request import Reply, Request, prefers
from gateway.server.http1.fields import fields_of, joined
from scheduler.monitors.history.export import csv_cell
from upstreams.model.archetypes import Archetype
from upstreams.model.archetypes.shape import Field, Make, computed
from upstreams.model.archetypes.shape import fields_of as fields_of_record
from upstreams.model.params import Value

Form = Literal["json", "csv", "ndjson"]
Tree = Mapping[str, Any]
"""The field names to keep, each with the names to keep below it. An empty mapping keeps everything."""
Paths = dict[tuple[str, ...], bool]
"""Paths, each with a flag that allows any path below it."""
TYPES: Final[Mapping[str, bytes]] = {
    "csv": b"text/csv; charset=utf-8; header=present",
    "ndjson": b"application/x-ndjson",
}
USUAL: Final = frozenset((b"*/*", b"application/json"))
"""Common values of `Accept` that select JSON."""
_ASIDE_BYTES: Final = 65_536
"""Responses longer than this are cut in a worker thread."""
_DEPTH_MAX: Final = 8
_ALWAYS: Final = "_warnings"


@dataclass(frozen=True, slots=True)
class Projection:
    """The part of a response that the client requested, and its format."""

    tree: Tree | None = None
    form: Form = "json"


def projection_of(archetype: Archetype, values: Mapping[str, Value]) -> Projection | None:
    """Return the projection that a query requests, or None for the whole response as JSON.

    Raises:
        InvalidParam: a path does not exist, or does not exist in the requested format.
    """
    if "fields" not in values and "format" not in values:
        return None
    tree = _tree(archetype, str(values["fields"])) if "fields" in values else None
    form: Form = "csv" if values.get("format") == "csv" else "ndjson" if values.get("format") == "ndjson" else "json"
    return None if tree is None and form == "json" else _in_form(form, tree)


def negotiated(request: Request, accept: bytes, wanted: Projection | None, *, named: bool) -> Projection | None:
    """Return the projection with the format that `Accept` prefers, unless the query names a format (`named`).

    Raises:
        InvalidParam: an event stream cannot be written as rows, or no requested field is in the rows.
    """
    if named:
        if request.stream is not None and wanted is not None and wanted.form != "json":
            problem = "cannot be combined with Accept: text/event-stream"
            how = "Send only one of the two."
            raise InvalidParam("format", problem, suggestion=how, reason="conflicting_params")
        return wanted
    if prefers(accept, b"text/csv", b"application/json"):
        return _in_form("csv", None if wanted is None else wanted.tree)
    if prefers(accept, b"application/x-ndjson", b"application/json"):
        return _in_form("ndjson", None if wanted is None else wanted.tree)
    return wanted


def _in_form(form: Form, tree: Tree | None) -> Projection:
    if form != "json" and tree is not None and "items" not in tree:
        raise InvalidParam("fields", f"selects no field of the rows, and {form} contains only rows", meant="items")
    return Projection(tree, form)


async def cut(stored: bytes, tree: Tree) -> bytes:
    """Return the stored fragment of an envelope, with `data` and the warnings reduced to the fields in the tree."""
    if len(stored) <= _ASIDE_BYTES:
        return _cut(stored, tree)
    return await trio.to_thread.run_sync(_cut, stored, tree)


async def written(reply: Reply, archetype: Archetype, stored: bytes, projection: Projection) -> Reply:
    """Return the rows of a fragment in the projection's format, with the headers of `reply`.

    The next page's cursor is in `X-Next-Cursor`.
    """
    make = _csv if projection.form == "csv" else _ndjson
    if len(stored) <= _ASIDE_BYTES:
        body, cursor = make(stored, archetype, projection.tree)
    else:
        body, cursor = await trio.to_thread.run_sync(make, stored, archetype, projection.tree)
    more = fields_of([(b"x-next-cursor", cursor.encode())]) if cursor else fields_of([])
    headers = joined(joined(reply.headers, more), fields_of([(b"x-content-type-options", b"nosniff")]))
    return replace(reply, body=body, pieces=None, headers=headers, content_type=TYPES[projection.form])


def _cut(stored: bytes, tree: Tree) -> bytes:
    envelope = orjson.loads(b"{%b}" % stored)
    data = envelope["data"]
    kept = {_ALWAYS: data[_ALWAYS]} if _ALWAYS in data else {}
    envelope["data"] = {**_part(data, tree), **kept}
    return orjson.dumps(envelope)[1:-1]


def _part(value: Any, tree: Tree) -> Any:
    if not tree:
        return value
    if isinstance(value, dict):
        return {name: _part(value[name], below) for name, below in tree.items() if name in value}
    return [_part(one, tree) for one in value] if isinstance(value, list) else value


def _ndjson(stored: bytes, _archetype: Archetype, tree: Tree | None) -> tuple[bytes, str | None]:
    rows, cursor = _rows(stored)
    chosen = rows if tree is None else [_part(row, tree.get("items", {})) for row in rows]
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chosen), cursor


def _csv(stored: bytes, archetype: Archetype, tree: Tree | None) -> tuple[bytes, str | None]:
    rows, cursor = _rows(stored)
    columns = csv_columns(archetype)
    if tree and tree.get("items"):
        columns = [path for path in columns if _has(tree["items"], path)]
    lines = [",".join(".".join(path) for path in columns)]
    lines += (",".join(_cell(_value_at(row, path)) for path in columns) for row in rows)
    return "".join(f"{line}\r\n" for line in lines).encode(), cursor


def _rows(stored: bytes) -> tuple[list[Any], str | None]:
    envelope = orjson.loads(b"{%b}" % stored)
    return envelope["data"]["items"], envelope["pagination"]["next_cursor"]


def csv_columns(archetype: Archetype) -> list[tuple[str, ...]]:
    """Return the columns of a list, each named by its path in a row.

    Every field that is not an object is a column. Lists become JSON text in their cell.
    """
    found = list(_leaves((archetype.key,) if archetype.key else (), archetype.make))
    return [*found, *_leaves(("computed",), computed)] if archetype.computed else found


def _leaves(above: tuple[str, ...], make: Make) -> Iterator[tuple[str, ...]]:
    return _leaves_of(above, fields_of_record(make))


def _leaves_of(above: tuple[str, ...], fields: Iterable[Field]) -> Iterator[tuple[str, ...]]:
    for one in fields:
        if one.kind == "object" and (one.members or one.make is not None):
            below = one.members or fields_of_record(one.make or computed)
            yield from _leaves_of((*above, one.name), below)
        else:
            yield (*above, one.name)


def _has(tree: Tree, path: Sequence[str]) -> bool:
    """Return whether a tree keeps a path, or part of the value at that path."""
    for name in path:
        if not tree:
            return True
        if name not in tree:
            return False
        tree = tree[name]
    return True


def _value_at(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return csv_cell(value if isinstance(value, str) else orjson.dumps(value).decode())


def _tree(archetype: Archetype, text: str) -> Tree:
    """Return the tree for a list of paths. `items[].post.id` and `items.post.id` mean the same."""
    tree: dict[str, Any] = {}
    whole: set[tuple[str, ...]] = set()
    for sent in filter(None, (part.strip() for part in text.split(","))):
        path = tuple(sent.replace("[]", "").split("."))
        _check(archetype, sent, path)
        whole.add(path)
    for path in whole:
        if any(path[:length] in whole for length in range(1, len(path))):
            continue  # A parent of this path is already kept completely.
        below = tree
        for name in path:
            below = below.setdefault(name, {})
    if not tree:
        raise InvalidParam("fields", "contains no path", suggestion="Omit fields to get all of them.")
    return tree


def _check(archetype: Archetype, sent: str, path: tuple[str, ...]) -> None:
    known = _paths(archetype)
    if path in known or any(path[:length] in known and known[path[:length]] for length in range(1, len(path))):
        return
    text = ".".join(path)[:200]
    names = [".".join(one) for one in known]
    ends = [name for name in names if name.endswith(f".{text}")]
    near = ends or get_close_matches(text, names, n=1, cutoff=0.6)
    problem = f"names a path that does not exist in `data`: {sent[:200]}"
    raise InvalidParam("fields", problem, meant=near[0] if near else None)


@cache
def _paths(archetype: Archetype) -> Paths:
    """Return every path into an archetype's `data`, each with a flag that allows any path below it."""
    row = _row_paths(archetype)
    found: Paths = {("items", *path): is_open for path, is_open in row.items()} if archetype.many else row
    top: Paths = {("items",): False, ("total",): False} if archetype.many else {}
    for make in archetype.makes_beside:
        top |= _paths_of((), make, 0)
    return {**top, (_ALWAYS,): False, **found}


def _row_paths(archetype: Archetype) -> Paths:
    above: tuple[str, ...] = (archetype.key,) if archetype.key else ()
    found: Paths = {above: False} if above else {}
    found |= _paths_of(above, archetype.make, 0)
    if archetype.computed is not None:
        found |= {("computed",): False, **_paths_of(("computed",), computed, 0)}
    return found


def _paths_of(above: tuple[str, ...], make: Make, depth: int) -> Paths:
    return _paths_below(above, fields_of_record(make), depth)


def _paths_below(above: tuple[str, ...], fields: Iterable[Field], depth: int) -> Paths:
    """Return the paths of fields. A record that contains its own kind allows any path below the second level."""
    found: Paths = {}
    for one in fields:
        path = (*above, one.name)
        is_deep = depth >= _DEPTH_MAX or above.count(one.name) > 0
        found[path] = one.is_open or is_deep
        if not is_deep and one.members:
            found |= _paths_below(path, one.members, depth + 1)
        elif not is_deep and one.make is not None:
            found |= _paths_of(path, one.make, depth + 1)
    return found
