"""Field maps: tables that state where each field of a record is read from. They are compiled when first used.

    byline_of = record_map(byline, id=ident("id"), username=text("login"), url=text("html_url"))
    post_of = record_map(
        post,
        id=ident("number"),
        text=of(joined, text("title"), html("body")),
        author=byline_of.at("user"),
        media_urls=each("images", text("fullsize")),
        ext={"state": text("state")},
    )

A reader names members of the upstream's object; a dot leads into a nested object: `count("reactions.total_count")`. If
a reader has several names, the first one with a value is used.

A map is compiled to one function without loops over readers, and to a decoder that creates only the members that are
read. If the decoder rejects a body, because a member has an unexpected type, the same readers read the body from its
full JSON. The result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, Final

import msgspec

from upstreams.model import fields
from upstreams.model.archetypes.shape import Make, Record
from upstreams.model.checking import declaring, unknown_names
from upstreams.model.errors import DeclarationError, UnexpectedBody
from upstreams.model.fields.maps_code import Emitter, Kind, Shape, attribute, compiled, struct_of
from upstreams.model.fields.readers import NEVER, Either, Reader

_NONE_GIVEN: Final[Mapping[str, Any]] = {}
UNDECODED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions with which a decoder rejects a body. The body is then read from its full JSON."""


@dataclass(frozen=True)
class _NestedRecord(Reader):
    """Reads a record that is nested in another record."""

    map: RecordMap
    path: str
    unless: Reader | None = None

    def emit(self, to: Emitter) -> str:
        found = (self.map.inside(self.path) if self.path else self.map).emit_or_none(to)
        return found if self.unless is None else f"(None if {to.once(self.unless)} else {found})"

    def inside(self, path: str) -> Reader:
        unless = None if self.unless is None else self.unless.inside(path)
        return replace(self, path=f"{path}.{self.path}" if self.path else path, unless=unless)


@dataclass(frozen=True, eq=False)
class RecordMap:
    """A table that maps each argument of a record's constructor to the reader of its value in the upstream's object."""

    make: Make
    readers: Mapping[str, Reader]
    ext: Mapping[str, Reader]

    def __call__(self, value: fields.Json, given: Mapping[str, Any] = _NONE_GIVEN) -> Record:
        """Return the record of an object that was parsed as plain JSON. `given` contains the values of the request."""
        build, takes_given = self._from_json
        record: Record = build(value, given) if takes_given else build(value)
        return record

    def at(self, path: str, *, unless: Reader | None = None) -> Reader:
        """Return a reader that builds this map's record from the object under `path`.

        It returns None if all values of the record are None, or if `unless`, a reader of the containing object, returns
        true.
        """
        return _NestedRecord(self, path, unless)

    def here(self, *, unless: Reader | None = None) -> Reader:
        """Return a reader that builds this map's record from members of the containing object itself.

        It returns None in the same cases as the reader that `at` returns.
        """
        return _NestedRecord(self, "", unless)

    def inside(self, path: str) -> RecordMap:
        """Return the same map for objects in which `path` leads to the object that this map reads."""
        readers = {name: reader.inside(path) for name, reader in self.readers.items()}
        return replace(self, readers=readers, ext={name: reader.inside(path) for name, reader in self.ext.items()})

    def with_fields(
        self, make: Make | None = None, *, ext: Mapping[str, Reader] | None = None, **readers: Reader
    ) -> RecordMap:
        """Return a copy of the map with fields added or replaced. `make` replaces the constructor of the record."""
        ext = {**self.ext, **(ext or {})}
        return record_map(make or self.make, ext=ext, **{**self.readers, **readers})

    @cached_property
    def unfilled(self) -> frozenset[str]:
        """The fields that the records never fill, with dots for nested fields.

        It does not cover members of lists or of `ext`.
        """
        return frozenset(_unfilled(self.make(**{name: _Filled(name) for name in self.readers}), self.readers))

    def emit(self, to: Emitter) -> str:
        """Return a Python expression that builds the record."""
        return self._display(_emitted(self.readers, to), to)

    def emit_or_none(self, to: Emitter) -> str:
        """Return a Python expression that builds the record, or evaluates to None if all its fields are None."""
        found = _emitted(self.readers, to)
        nothing = " and ".join(f"{one} is None" for one in found.values())
        return f"(None if {nothing} else {self._display(found, to)})"

    def _display(self, found: Mapping[str, str], to: Emitter) -> str:
        """Return source code of the record, with these expressions as the arguments of its constructor."""
        ext = {name: _Expression(expression) for name, expression in _emitted(self.ext, to).items()}
        written = {name: _Expression(expression) for name, expression in found.items()}
        blank = self.make(**dict.fromkeys(found))
        return _literal(self.make(**written, **({"ext": ext} if ext else {})), blank)

    def decode(self, raw: bytes) -> Any:
        """Decode a body that consists of one object. Raises one of `UNDECODED`."""
        return self._compiled[0](raw)

    def read(self, body: Any, given: Mapping[str, Any] = _NONE_GIVEN) -> Record:
        """Return the record in a body, which is decoded or plain JSON.

        Raises UnexpectedBody if the body is not an object.
        """
        if isinstance(body, msgspec.Struct):
            _, build, takes_given = self._compiled
            record: Record = build(body, given) if takes_given else build(body)
            return record
        return self(fields.obj(body), given)

    def compile(self) -> None:
        """Compile the map now instead of when it is first used.

        Raises:
            DeclarationError: A reader is faulty, or a member is read in ways that exclude each other.
        """
        _ = self._from_json, self._compiled

    @property
    def name(self) -> str:
        """The name of the map in errors, which is the name of the record's constructor."""
        return f"map of `{getattr(self.make, '__name__', 'a record')}`"

    @cached_property
    def _from_json(self) -> tuple[Callable[..., Any], bool]:
        shape = Shape()
        with declaring(self.name):
            return compiled(self, shape, from_json=True), shape.takes_given

    @cached_property
    def _compiled(self) -> tuple[Callable[[bytes], Any], Callable[..., Any], bool]:
        shape = Shape()
        with declaring(self.name):
            build = compiled(self, shape)
            return msgspec.json.Decoder(struct_of(shape)).decode, build, shape.takes_given


def _emitted(readers: Mapping[str, Reader], to: Emitter) -> dict[str, str]:
    """Return the variable that contains the value of each field."""
    found = {}
    for name, reader in readers.items():
        with declaring(f"field `{name}`"):
            found[name] = to.once(reader)
    return found


class _Filled(str):
    """A placeholder in a record, which names the argument that fills its position."""

    __slots__ = ()


def _unfilled(record: Record, readers: Mapping[str, Reader]) -> Iterator[str]:
    for name, value in record.items():
        reader = readers[value] if isinstance(value, _Filled) else None
        if isinstance(value, dict):
            yield from (f"{name}.{below}" for below in _unfilled(value, readers))
        elif nested := _nested(reader):
            yield from (f"{name}.{below}" for below in frozenset.intersection(*(one.unfilled for one in nested)))
        elif reader is None or reader is NEVER:
            yield name


def _nested(reader: Reader | None) -> list[RecordMap]:
    """Return the maps of the nested records that a reader returns. The list is empty if it returns other values too."""
    if isinstance(reader, _NestedRecord):
        return [reader.map]
    found = [_nested(one) for one in reader.readers] if isinstance(reader, Either) else []
    return [one for maps in found for one in maps] if all(found) else []


class _Expression(str):
    """Source code that stands for a value in a record."""

    __slots__ = ()


def _literal(value: Any, blank: Any) -> str:
    """Return source code of a record whose values are source code. `blank` is the same record without values."""
    if isinstance(value, _Expression):
        return f"({value} or [])" if blank == [] else str(value)
    if isinstance(value, dict):
        below = blank if isinstance(blank, dict) else {}
        return "{" + ", ".join(f"{name!r}: {_literal(one, below.get(name))}" for name, one in value.items()) + "}"
    return repr(value)


class Rows:
    """Decodes a list of objects to records. `at` is the path of the list in the body; by default, the body is the list.

    `also` names other body members to decode, such as a cursor or a total. Their names may contain dots. If `row` is a
    function instead of a map, it receives each whole object, and the body must be plain JSON.
    """

    def __init__(
        self, row: RecordMap | Callable[[fields.Json], Record], at: str = "", also: Sequence[str] = ()
    ) -> None:
        if also and not at:
            raise DeclarationError(f"the body is the list of rows, so it has no member `{also[0]}`; set `at`")
        self._row = row
        self._at = names_in(at)
        self._also = {name: names_in(name) for name in also}

    def compile(self) -> None:
        """Compile the decoder and the row's map now instead of when they are first used. Raises DeclarationError."""
        if isinstance(self._row, RecordMap):
            _ = self._row._from_json, self._compiled

    @cached_property
    def _compiled(self) -> tuple[Callable[[bytes], Any], Callable[..., Any], bool]:
        if not isinstance(self._row, RecordMap):
            raise DeclarationError(
                "only the rows of a map are decoded; a call whose rows a function reads accepts `json`"
            )
        shape = Shape()
        row_shape = _shape_at(shape, self._at, "list") if self._at else shape
        with declaring(self._row.name):
            build = compiled(self._row, row_shape)
            for path in self._also.values():
                _shape_at(shape, path, "value")
            shape.settle()
            body_type: Any = struct_of(shape) if self._at else list[struct_of(shape)]  # type: ignore[misc]
            return msgspec.json.Decoder(body_type).decode, build, row_shape.takes_given

    def decode(self, raw: bytes) -> Any:
        """Decode a body. Raises one of `UNDECODED`."""
        return self._compiled[0](raw)

    def records(
        self, body: Any, start: int = 0, stop: int | None = None, given: Mapping[str, Any] = _NONE_GIVEN
    ) -> list[Record]:
        """Return the records in a body, which is decoded or plain JSON.

        `start` and `stop` select a slice of a long list.

        Raises:
            UnexpectedBody: The list is missing, or is longer than any page of a platform.
        """
        found = _value_at(body, self._at)
        most = fields.ROWS_MAX if stop is None else fields.WHOLE_MAX
        if not isinstance(found, list) or not found or not isinstance(found[0], msgspec.Struct):
            objects = fields.rows(found, most)[start:stop]
            row = self._row
            return [row(one, given) for one in objects] if isinstance(row, RecordMap) else [row(one) for one in objects]
        if len(found) > most:
            raise UnexpectedBody(f"expected a list of at most {most} entries, got {len(found)}")
        _, build, takes_given = self._compiled
        part = found if stop is None else found[start:stop]
        return [build(row, given) for row in part] if takes_given else [build(row) for row in part]

    def members(self, body: Any) -> fields.Json:
        """Return the values of the body members in `also`."""
        if isinstance(body, list):
            return {}
        return {name: _value_at(body, path) for name, path in self._also.items()}


def names_in(path: str) -> tuple[str, ...]:
    """Return the names of the members that lead to a place in a body.

    Raises:
        DeclarationError: A name is empty or contains an index.
    """
    names = tuple(path.split(".")) if path else ()
    if "" in names or any("[" in name for name in names):
        raise DeclarationError(f"`{path}` must be names of members, separated by dots, such as `data.items`")
    return names


def _shape_at(shape: Shape, path: Sequence[str], kind: Kind) -> Shape:
    for name in path[:-1]:
        shape = shape.member(name, "object")
    return shape.member(path[-1], kind)


def _value_at(body: Any, path: Sequence[str]) -> Any:
    """Return the value at a path in a body, which is decoded or plain JSON. None if there is no value."""
    found = body if path == () or isinstance(body, msgspec.Struct) else fields.obj(body)
    for name in path:
        if isinstance(found, msgspec.Struct):
            found = getattr(found, attribute(name))
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def record_map(make: Make, *, ext: Mapping[str, Reader] | None = None, **readers: Reader) -> RecordMap:
    """Return the map for records that `make` constructs, with a reader for each of its arguments.

    Raises:
        DeclarationError: The constructor has no such argument, a required argument has no reader, or an argument is not
            a reader.
    """
    for name, reader in (*readers.items(), *(ext or {}).items()):
        if not isinstance(reader, Reader):
            raise DeclarationError(f"field `{name}` needs a reader, such as `text(...)`, but it is `{reader!r}`")
    try:
        make(**dict.fromkeys(readers))
    except TypeError as exc:
        raise DeclarationError("\n".join(_faults_of_fields(make, readers)) or str(exc)) from exc
    return RecordMap(make, readers, ext or {})


def _faults_of_fields(make: Make, readers: Mapping[str, Reader]) -> Iterator[str]:
    """Yield a fault for each field that the constructor lacks, and for each required one that has no reader."""
    known = signature(make).parameters
    yield from unknown_names(f"field of `{make.__name__}`", readers, known)
    for one in known.values():
        if one.default is Parameter.empty and one.name not in readers:
            yield f"`{make.__name__}` needs a reader for its field `{one.name}`"
