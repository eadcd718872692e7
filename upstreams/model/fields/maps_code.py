"""Generates a Python function from a field map, and the types for the map's decoder.

A list response has up to hundreds of records with dozens of fields, so a record is built by one straight function
without loops over readers. Contract: `compiled(reader, shape)` asks the reader for an expression (`Emits.emit`), adds
every member that the expression reads to `shape`, and returns the function. `struct_of(shape)` is then the type that
the map's decoder creates, with only these members. There are two forms of the function:

- for decoded objects, members are attributes, and the decoder has already checked the types of texts;
- for plain JSON (`from_json=True`), members are keys, and the function checks each type itself.

Both forms return the same record. The code is generated twice: the first pass only learns which members are read, and
how, because the code for a member depends on all of its readers. A member that an `either` reads as several kinds, such
as a text or an object, arrives as plain JSON in both forms.

For example, this map

    record_map(repo, id=text("id"), owner=text("owner.login"), stars=count("stars"), tags=texts("tags"))

becomes for decoded objects (`c0` is a bound function, `n0` an object whose members are all None):

    def read(o):
        v1 = (o.id or None)
        v2 = o.owner or n0
        v3 = (v2.login or None)
        v4 = (v if type(v := o.stars) is int and 0 <= v <= 9223372036854775807 else None if v is None else c0(v))
        v5 = (v if (v := o.tags) is None or "" not in v else [e for e in v if e])
        return {'id': v1, 'owner': v3, 'stars': v4, 'tags': v5}

Generated code tests `type(v) is int`: it takes fewer instructions than `isinstance`, which would also accept a boolean
as an `int`. Objects and lists are tested by `v.__class__`, because tests record the members that are read with objects
of other types, whose `__class__` is `dict` or `list`.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from upstreams.model.errors import DeclarationError

Kind = Literal["value", "object", "list"]
Only = Literal["", "text", "texts"]


@dataclass(slots=True)
class Shape:
    """An object whose members a map reads, or one such member. It determines the type that the decoder creates."""

    kind: Kind = "object"
    members: dict[str, Shape] = field(default_factory=dict)
    only: Only = ""
    """The form of the value, if all readers read it in the same form. The decoder then creates this form and rejects
    others."""
    takes_given: bool = False
    """Whether the generated function also receives the values of the request."""
    inner: dict[str, Shape] = field(default_factory=dict)
    """Members that replace this object if they are present. They are objects with the same members."""
    type: type[msgspec.Struct] | None = None
    """The type that the decoder creates for this object; None until it is defined."""
    other_kind: Kind | None = None
    """A second kind as which a reader reads the member; None if there is none. It is a fault unless `mixed` is set."""
    mixed: bool = False
    """Whether an `either` reads the member as several kinds."""
    plain: bool = False
    """Whether the object arrives as plain JSON instead of as the decoder's type. `settle` decides this."""

    def member(self, name: str, kind: Kind, only: Only = "") -> Shape:
        """Return the member with this name, creating it if necessary.

        Raises:
            DeclarationError: The name is empty.
        """
        if not name:
            raise DeclarationError("the path of a member has an empty name")
        found = self.members.setdefault(name, Shape(kind, only=only))
        if found.kind != kind:
            found.other_kind = kind
        return found

    def in_place(self, name: str) -> Shape:
        """Return the member with this name that replaces the object if it is present.

        It has the same members as the object.
        """
        return self.inner.setdefault(name, Shape(members=self.members))

    def settle(self, *, plain: bool = False, path: str = "") -> None:
        """Decide which objects arrive as plain JSON, after all readers are known. `path` leads to this object.

        Raises:
            DeclarationError: A member is read in ways that exclude each other.
        """
        self.plain = plain
        for name, one in self.members.items():
            at = f"{path}.{name}" if path else name
            if one.mixed:
                one.only = ""
            elif one.other_kind is not None:
                kinds = f"{_KINDS[one.kind]} and as {_KINDS[one.other_kind]}"
                raise DeclarationError(
                    f"member `{at}` is read as {kinds}; read a member that can be both with `either`"
                )
            if name in self.inner:
                raise DeclarationError(f"member `{at}` is read both as `{at}` and as `{at}{OR_SELF}`; use one of them")
            one.settle(plain=plain or one.mixed, path=at)
        for one in self.inner.values():
            one.plain = plain


_KINDS: dict[Kind, str] = {"value": "a value", "object": "an object", "list": "a list of objects"}

OR_SELF = "?"
"""A suffix for a name in a path. It selects the object under that name or, if there is none, the containing object."""
_READ: dict[tuple[Only, bool], str] = {
    ("text", True): "({x} or None)",
    ("text", False): "(v if (v := {x}) and type(v) is str else None)",
    ("texts", True): '(v if (v := {x}) is None or "" not in v else [e for e in v if e])',
    ("texts", False): "([e for e in v if type(e) is str and e] if (v := {x}).__class__ is list else None)",
}
"""Code that reads a value, by its form. The second key is true if the decoder already created that form, and false if
the value may have any type."""
_EMPTY: dict[str, Any] = {}


class Emits(Protocol):
    """Generates the code that reads one value."""

    def emit(self, to: Emitter) -> str:
        """Return an expression for the value. Statements that must run before it are added to `to`."""


@dataclass(slots=True)
class _Program:
    """The function of one map while it is generated, and the objects that it refers to."""

    learned: list[tuple[Shape, Kind]] | None = None
    """The members that were read so far, in the pass that learns them; None in the other pass."""
    names: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, Shape] = field(default_factory=dict)
    """The empty objects that replace missing ones: their names and their shapes."""
    variables: int = 0
    takes_given: bool = False

    def bind(self, value: Any) -> str:
        """Return the name by which the generated code refers to an object."""
        if value is None:
            return "None"
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """Return an unused variable name."""
        self.variables += 1
        return f"v{self.variables}"

    def nothing(self, shape: Shape) -> str:
        """Return the name of an object whose members are all None."""
        if shape.plain:
            return self.bind(_EMPTY)
        name = f"n{len(self.absent)}"
        self.absent[name] = shape
        return name

    def member(self, shape: Shape, name: str, kind: Kind, only: Only = "") -> Shape:
        """Return a member of an object, like `Shape.member`."""
        own = shape.member(name, kind, only)
        if self.learned is not None:
            self.learned.append((own, kind))
        return own

    def code(self, lines: Iterable[str]) -> str:
        """Return the lines as the source code of one function."""
        head = "def read(o, given):" if self.takes_given else "def read(o):"
        return "\n    ".join((head, *lines))


class Emitter:
    """Generates the lines that read one object. Each value is read only once, even if several fields use it."""

    def __init__(self, program: _Program, variable: str, shape: Shape) -> None:
        self._program = program
        self._objects: dict[tuple[str, ...], tuple[str, Shape]] = {(): (variable, shape)}
        self._known: dict[Emits, str] = {}
        self.body: list[str] = []

    def bind(self, value: Any) -> str:
        """Return the name by which the generated code refers to an object."""
        return self._program.bind(value)

    def once(self, reader: Emits) -> str:
        """Return the variable that contains the result of `reader`."""
        if reader not in self._known:
            self._known[reader] = self.put(reader.emit(self))
        return self._known[reader]

    def put(self, expression: str) -> str:
        """Assign an expression to a new variable, and return the variable."""
        variable = self._program.variable()
        self.body.append(f"{variable} = {expression}")
        return variable

    def mix(self, readers: Iterable[Emits]) -> None:
        """Allow these readers to read the same members as different kinds."""
        learned = self._program.learned
        if learned is None:
            return
        start = len(learned)
        for reader in readers:
            reader.emit(Emitter(self._program, *self._objects[()]))  # a new one, because `once` reads nothing again
        kinds: dict[int, Kind] = {}
        for own, kind in learned[start:]:
            own.mixed |= kinds.setdefault(id(own), kind) != kind

    def value(self, name: str) -> str:
        """Return an expression for the plain JSON under a name."""
        *path, last = name.split(".")
        holder, shape = self._holder(tuple(path))
        self._program.member(shape, last, "value").only = ""
        return _get(holder, shape, last)

    def only(self, name: str, form: Only) -> str:
        """Return an expression for the non-empty text under a name, or for the non-empty texts of the list under it."""
        *path, last = name.split(".")
        holder, shape = self._holder(tuple(path))
        own = self._program.member(shape, last, "value", form)
        if own.only != form:
            own.only = ""
        is_made_so = own.only == form and not shape.plain
        return _READ[form, is_made_so].format(x=_get(holder, shape, last))

    def given(self, name: str) -> str:
        """Return an expression for a value of the request."""
        self._program.takes_given = True
        return f"given.get({name!r})"

    def each(self, name: str, reader: Emits, *, first: bool = False, into: str = "") -> str:
        """Return the variable for the results of `reader` over the objects in a list.

        These are all results that are not None, or only the first one. If `into` names an existing list, they are
        appended to it.
        """
        *path, last = name.split(".")
        holder, shape = self._holder(tuple(path))
        own = self._program.member(shape, last, "list")
        found, entry = _get(holder, shape, last), self._program.variable()
        into = into or self.put("None" if first else "[]")
        below = Emitter(self._program, entry, own)
        value = below.put(reader.emit(below))
        store = (f"{into} = {value}", "break") if first else (f"{into}.append({value})",)
        self.body += [
            f"for {entry} in {f'{self.bind(_objects)}({found})' if own.plain else f'{found} or ()'}:",
            *(f"    {line}" for line in below.body),
            f"    if {value} is not None:",
            *(f"        {line}" for line in store),
        ]
        return into

    def _holder(self, path: tuple[str, ...]) -> tuple[str, Shape]:
        """Return the variable and the shape of the object at a path.

        If the object is missing, all its members are None.
        """
        if path not in self._objects:
            holder, shape = self._holder(path[:-1])
            name = path[-1].removesuffix(OR_SELF)
            takes_place = name != path[-1]
            own = shape.in_place(name) if takes_place else self._program.member(shape, name, "object")
            instead = holder if takes_place else self._program.nothing(own)
            found = _get(holder, shape, name)
            variable = self.put(found if own.plain else f"{found} or {instead}")
            if own.plain:
                self.body += [f"if {variable}.__class__ is not dict:", f"    {variable} = {instead}"]
            self._objects[path] = variable, shape if takes_place else own
        return self._objects[path]


def _get(holder: str, shape: Shape, name: str) -> str:
    return f"{holder}.get({name!r})" if shape.plain else f"{holder}.{attribute(name)}"


def _objects(found: Any) -> list[Any]:
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def attribute(name: str) -> str:
    """Return the attribute that stores a member: the member's own name, if it is a valid attribute name."""
    is_plain = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("_")
    return name if is_plain else f"x_{name.encode().hex()}"


def compiled(reader: Emits, shape: Shape, *, from_json: bool = False) -> Callable[..., Any]:
    """Compile a function that reads one object, decoded as `struct_of(shape)` or parsed as plain JSON.

    The members that it reads are added to `shape`. If it sets `shape.takes_given`, the function expects the values of
    the request as its second argument.

    Raises:
        DeclarationError: A member is read in ways that exclude each other.
    """
    code, names = generated(reader, shape, from_json=from_json)
    exec(code, names)  # noqa: S102 - generated from names that a platform declares
    function: Callable[..., Any] = names["read"]
    return function


def generated(reader: Emits, shape: Shape, *, from_json: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the source of the function `read` as `compiled` compiles it, and the objects that it refers to."""
    reader.emit(Emitter(_Program(learned=[]), "o", shape))
    shape.settle(plain=from_json)
    program = _Program()
    to = Emitter(program, "o", shape)
    result = reader.emit(to)
    shape.takes_given = program.takes_given
    names = program.names | {name: struct_of(one)() for name, one in program.absent.items()}
    return program.code((*to.body, f"return {result}")), names


_TYPES: dict[Only, Any] = {"": Any, "text": str | None, "texts": list[str] | None}


def struct_of(shape: Shape) -> type[msgspec.Struct]:
    """Return the type for this shape. It is created only once, after all members are known."""
    if shape.type is None:
        members: dict[str, Any] = {}
        for name, one in (shape.members | shape.inner).items():
            if one.kind == "value" or one.mixed:
                members[name] = _TYPES[one.only]
            elif one.kind == "list":
                members[name] = list[struct_of(one)] | None  # type: ignore[misc]
            else:
                members[name] = struct_of(one) | None
        typed = [(attribute(name), kind, None) for name, kind in members.items()]
        shape.type = msgspec.defstruct("Read", typed, rename={attribute(name): name for name in members}, gc=False)
    return shape.type
