"""Readers of one field each: from the members that a field map names to the plain value, or None (decisions 3).

A dot in a name leads into an object below: `count("reactions.total_count")`. Of several names the first that tells
something counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from upstreams.model import fields, values
from upstreams.model.maps_code import Emitter


class Reader:
    """Reads one field of a record."""

    def emit(self, to: Emitter) -> str:
        """Return the expression of its value."""
        raise NotImplementedError

    def inside(self, path: str) -> Reader:
        """The same reader for an object that holds its own under `path`."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Value(Reader):
    """The first of the values under `names` that `template` makes something of."""

    names: tuple[str, ...]
    template: str
    function: Callable[[Any], Any]

    def emit(self, to: Emitter) -> str:
        function = to.bind(self.function)
        found = [self.template.format(x=to.value(name), f=function) for name in self.names]
        expression = found.pop()
        while found:
            expression = f"(v if (v := {found.pop()}) is not None else {expression})"
        return expression

    def inside(self, path: str) -> Reader:
        return replace(self, names=tuple(f"{path}.{name}" for name in self.names))


_TEXT = "(v if (v := {x}).__class__ is str and v else None)"
_IDENT = "(v if (v := {x}).__class__ is str and v else None if v is None else {f}(v))"
_COUNT = f"(v if (v := {{x}}).__class__ is int and 0 <= v <= {values.INTEGER_MAX} else None if v is None else {{f}}(v))"
_FLAG = "(v if (v := {x}) is True or v is False else None)"
_OTHER = "(None if (v := {x}) is None else {f}(v))"


def text(*names: str) -> Reader:
    """A non-empty string."""
    return _Value(names, _TEXT, values.text)


def html(*names: str) -> Reader:
    """The text of HTML (decisions 3)."""
    return _Value(names, _OTHER, _plain)


def ident(*names: str) -> Reader:
    """An id as a string, whether it comes as a number or as text."""
    return _Value(names, _IDENT, values.ident)


def number(*names: str) -> Reader:
    """A whole number."""
    return _Value(names, _OTHER, values.number)


def count(*names: str) -> Reader:
    """A number that can say how many there are."""
    return _Value(names, _COUNT, values.count)


def fraction(*names: str) -> Reader:
    """A number that may have a fraction."""
    return _Value(names, _OTHER, values.fraction)


def flag(name: str) -> Reader:
    """True or False as it comes."""
    return _Value((name,), _FLAG, values.flag)


def instant(*names: str) -> Reader:
    """A time as ISO 8601 UTC, from Unix seconds or from ISO text."""
    return _Value(names, _OTHER, values.instant)


def texts(name: str) -> Reader:
    """The non-empty strings of a list."""
    return _Value((name,), _OTHER, values.texts)


def _plain(found: Any) -> str | None:
    return fields.plain(values.text(found))


@dataclass(frozen=True)
class _Of(Reader):
    function: Callable[..., Any]
    arguments: tuple[Reader | str, ...]

    def emit(self, to: Emitter) -> str:
        given = [one.emit(to) if isinstance(one, Reader) else to.value(one) for one in self.arguments]
        return f"{to.bind(self.function)}({', '.join(given)})"

    def inside(self, path: str) -> Reader:
        inner = (one.inside(path) if isinstance(one, Reader) else f"{path}.{one}" for one in self.arguments)
        return replace(self, arguments=tuple(inner))


def of(function: Callable[..., Any], *arguments: Reader | str) -> Reader:
    """The result of a function of what readers read, or of the plain JSON under a name."""
    return _Of(function, arguments)


@dataclass(frozen=True)
class _Each(Reader):
    name: str
    reader: Reader

    def emit(self, to: Emitter) -> str:
        made, found = to.each(self.name, lambda below: ([], self.reader.emit(below)))
        return f"[v for e in {found} if (v := {made}) is not None]"

    def inside(self, path: str) -> Reader:
        return replace(self, name=f"{path}.{self.name}")


def each(name: str, reader: Reader) -> Reader:
    """A list of what `reader` reads in each object of a list; where it reads nothing, there is no entry."""
    return _Each(name, reader)


@dataclass(frozen=True)
class _Constant(Reader):
    value: Any

    def emit(self, to: Emitter) -> str:
        return to.bind(self.value)

    def inside(self, path: str) -> Reader:  # noqa: ARG002 - it is the same everywhere
        return self


def always(value: Any) -> Reader:
    """The same value in every record, which nobody changes."""
    return _Constant(value)


NEVER: Final = always(None)
"""Null in every record."""


@dataclass(frozen=True)
class _Given(Reader):
    name: str

    def emit(self, to: Emitter) -> str:
        return to.given(self.name)

    def inside(self, path: str) -> Reader:  # noqa: ARG002 - it is the same everywhere
        return self


def given(name: str) -> Reader:
    """A value of the request that the record is for, such as the host that it names; None where it was not sent."""
    return _Given(name)
