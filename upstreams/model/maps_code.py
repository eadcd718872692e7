"""Writes the functions that a field map is compiled to, and the types that its decoder makes."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Kind = Literal["value", "object", "list"]


@dataclass(slots=True)
class Shape:
    """The members of an object that are read, and how."""

    kind: Kind = "object"
    members: dict[str, Shape] = field(default_factory=dict)
    takes_given: bool = False
    """Whether the function of it takes the request's values too."""

    def member(self, name: str, kind: Kind) -> Shape:
        """The member of this name, which is read as this kind.

        Raises:
            TypeError: it is read as another kind too.
        """
        found = self.members.setdefault(name, Shape(kind))
        if found.kind != kind:
            raise TypeError(f"{name} is read as {found.kind} and as {kind}")
        return found


class _Nothing:
    """An object that is not there: every member of it is None."""

    def __getattr__(self, name: str) -> None:
        return None


_NOTHING = _Nothing()
_EMPTY: dict[str, Any] = {}
_GIVEN = "\0"
"""Stands in a function's code behind its first argument: nothing, or the request's values where a reader reads them."""


Write = Callable[["Emitter"], tuple[list[str], str]]
"""Writes a function of one object: lines, and the expression of its result."""


@dataclass(slots=True)
class _Program:
    """The functions of one map while they are written, and the objects that they name."""

    from_json: bool
    names: dict[str, Any] = field(default_factory=lambda: {"NOTHING": _NOTHING, "EMPTY": _EMPTY})
    lines: list[str] = field(default_factory=list)
    functions: int = 0
    takes_given: bool = False

    def bind(self, value: Any) -> str:
        """Return a name for an object."""
        if value is None:
            return "None"
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, shape: Shape, write: Write) -> str:
        """Add the function of one object that `write` writes, and return its name."""
        to = Emitter(self, shape)
        lines, result = write(to)
        self.functions += 1
        name = f"f{self.functions}"
        self.lines += [
            f"def {name}(o0{_GIVEN}):",
            *(f"    {line}" for line in (*to.body, *lines)),
            f"    return {result}",
        ]
        return name


class Emitter:
    """Writes a function that reads one object: `body` comes before the lines that use it."""

    def __init__(self, program: _Program, shape: Shape) -> None:
        self._program = program
        self._objects: dict[tuple[str, ...], tuple[str, Shape]] = {(): ("o0", shape)}
        self.body: list[str] = []

    def bind(self, value: Any) -> str:
        """Return a name for an object that the function uses."""
        return self._program.bind(value)

    def value(self, name: str) -> str:
        """Return the expression of the plain JSON under a name."""
        *path, last = name.split(".")
        holder, shape = self._holder(tuple(path))
        shape.member(last, "value")
        return self._get(holder, last)

    def given(self, name: str) -> str:
        """Return the expression of a value of the request."""
        self._program.takes_given = True
        return f"given.get({name!r})"

    def each(self, name: str, write: Write) -> tuple[str, str]:
        """Return the call of what `write` writes of each object `e` of a list, and the expression of these objects."""
        *path, last = name.split(".")
        holder, shape = self._holder(tuple(path))
        function = self._program.function(shape.member(last, "list"), write)
        found = self._get(holder, last)
        return (
            f"{function}(e{_GIVEN})",
            f"{self.bind(_objects)}({found})" if self._program.from_json else f"{found} or ()",
        )

    def below(self, name: str, write: Write) -> str:
        """Return the expression of what `write` writes of the object under a name."""
        holder, shape = self._holder(tuple(name.split(".")) if name else ())
        return f"{self._program.function(shape, write)}({holder}{_GIVEN})"

    def _holder(self, path: tuple[str, ...]) -> tuple[str, Shape]:
        """The variable of the object at a path, which is nothing where it is none, and its shape."""
        if path not in self._objects:
            holder, shape = self._holder(path[:-1])
            variable = f"o{len(self._objects)}"
            found = self._get(holder, path[-1])
            if self._program.from_json:
                self.body += [
                    f"{variable} = {found}",
                    f"if {variable}.__class__ is not dict:",
                    f"    {variable} = EMPTY",
                ]
            else:
                self.body.append(f"{variable} = {found} or NOTHING")
            self._objects[path] = variable, shape.member(path[-1], "object")
        return self._objects[path]

    def _get(self, holder: str, name: str) -> str:
        return f"{holder}.get({name!r})" if self._program.from_json else f"{holder}.{attribute(name)}"


def _objects(found: Any) -> list[Any]:
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def attribute(name: str) -> str:
    """The attribute that holds a member: its own name where that can be one."""
    is_plain = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("_")
    return name if is_plain else f"x_{name.encode().hex()}"


def compiled(write: Write, shape: Shape, *, from_json: bool = False) -> Callable[..., Any]:
    """Compile a function of one object, decoded as `struct_of(shape)` or plain JSON; `shape` gets what it reads.

    Where `shape.takes_given`, its second argument are the request's values.
    """
    program = _Program(from_json)
    main = program.function(shape, write)
    shape.takes_given = program.takes_given
    code = "\n".join(program.lines).replace(_GIVEN, ", given" if program.takes_given else "")
    exec(code, program.names)  # noqa: S102 - written above, from names that a platform declares
    function: Callable[..., Any] = program.names[main]
    return function


def struct_of(shape: Shape) -> type[msgspec.Struct]:
    """The type of an object of which only these members are made."""
    members: list[tuple[str, Any, Any]] = []
    for name, one in shape.members.items():
        kind: Any = Any
        if one.kind == "object":
            kind = struct_of(one) | None
        elif one.kind == "list":
            kind = list[struct_of(one)] | None  # type: ignore[misc]
        members.append((attribute(name), kind, None))
    rename = {attribute(name): name for name in shape.members}
    return msgspec.defstruct("Read", members, rename=rename, gc=False)
