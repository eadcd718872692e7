"""Readers for field maps. Each one reads one field of a record as a plain value or None (decisions 3).

A dot in a name leads into a nested object: `count("reactions.total_count")`. If a reader has several names, the first
one with a value is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from upstreams.model import fields
from upstreams.model.fields import values
from upstreams.model.fields.maps_code import Emitter


class Reader:
    """Reads the value of one field of a record."""

    def emit(self, to: Emitter) -> str:
        """Return a Python expression that reads the value."""
        raise NotImplementedError

    def inside(self, path: str) -> Reader:
        """Return a reader of the same value for objects in which `path` leads to the object that this reader reads."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Value(Reader):
    """Reads the first value among `names` that `template` does not convert to None."""

    names: tuple[str, ...]
    template: str
    function: Callable[[Any], Any]
    usual: Callable[[Any], Any] | None = None
    """A faster function, used if the value has its usual form."""

    def emit(self, to: Emitter) -> str:
        function, usual = to.bind(self.function), to.bind(self.usual)
        found = [self.template.format(x=to.value(name), f=function, g=usual) for name in self.names]
        expression = found.pop()
        while found:
            expression = f"(v if (v := {found.pop()}) is not None else {expression})"
        return expression

    def inside(self, path: str) -> Reader:
        return replace(self, names=tuple(f"{path}.{name}" for name in self.names))


_IDENT = (
    "(v if type(v := {x}) is str and v else None if v is None"
    f" else str(v) if type(v) is int and 0 <= v <= {values.INTEGER_MAX} else {{f}}(v))"
)
_WITHIN = f"(v if type(v := {{x}}) is int and %d <= v <= {values.INTEGER_MAX} else None if v is None else {{f}}(v))"
_FLAG = "(v if (v := {x}) is True or v is False else None)"
_INSTANT = (
    "(None if (v := {x}) is None else"
    f" {{g}}(v) if type(v) is str and len(v) <= {values.INSTANT_TEXT_MAX} else {{f}}(v))"
)
_HTML = "({f}(v) if (v := {x}) and type(v) is str else None)"
_OTHER = "(None if (v := {x}) is None else {f}(v))"
"""Code that converts values in their usual form without a function call. The results are the same as those of `values`.
"""


@dataclass(frozen=True)
class _Text(Reader):
    names: tuple[str, ...]

    def emit(self, to: Emitter) -> str:
        *others, expression = (to.only(name, "text") for name in self.names)
        for one in reversed(others):
            expression = f"({one} or {expression})"
        return expression

    def inside(self, path: str) -> Reader:
        return replace(self, names=tuple(f"{path}.{name}" for name in self.names))


@dataclass(frozen=True)
class _Texts(Reader):
    name: str

    def emit(self, to: Emitter) -> str:
        return to.only(self.name, "texts")

    def inside(self, path: str) -> Reader:
        return replace(self, name=f"{path}.{self.name}")


def text(*names: str) -> Reader:
    """Return a reader for a non-empty string."""
    return _Text(names)


def html(*names: str) -> Reader:
    """Return a reader that converts HTML to plain text (decisions 3)."""
    return _Value(names, _HTML, fields.plain)


def ident(*names: str) -> Reader:
    """Return a reader for an id, which it returns as a string. The upstream may send a number or a text."""
    return _Value(names, _IDENT, values.ident)


def number(*names: str) -> Reader:
    """Return a reader for a whole number."""
    return _Value(names, _WITHIN % -values.INTEGER_MAX, values.number)


def count(*names: str) -> Reader:
    """Return a reader for a number that can be a count."""
    return _Value(names, _WITHIN % 0, values.count)


def fraction(*names: str) -> Reader:
    """Return a reader for a number that may have a fraction."""
    return _Value(names, _OTHER, values.fraction)


def flag(*names: str) -> Reader:
    """Return a reader for True or False."""
    return _Value(names, _FLAG, values.flag)


def instant(*names: str) -> Reader:
    """Return a reader for a time, which it returns as ISO 8601 UTC. The upstream may send Unix seconds or ISO text."""
    return _Value(names, _INSTANT, values.instant, values.instant_of_text)


def texts(name: str) -> Reader:
    """Return a reader for the non-empty strings in a list."""
    return _Texts(name)


@dataclass(frozen=True)
class _Of(Reader):
    function: Callable[..., Any]
    arguments: tuple[Reader | str, ...]

    def emit(self, to: Emitter) -> str:
        given = [to.once(one) if isinstance(one, Reader) else to.value(one) for one in self.arguments]
        return f"{to.bind(self.function)}({', '.join(given)})"

    def inside(self, path: str) -> Reader:
        inner = (one.inside(path) if isinstance(one, Reader) else f"{path}.{one}" for one in self.arguments)
        return replace(self, arguments=tuple(inner))


def of(function: Callable[..., Any], *arguments: Reader | str) -> Reader:
    """Return a reader that calls a function.

    Its arguments are the results of other readers, or the plain JSON under a name.
    """
    return _Of(function, arguments)


@dataclass(frozen=True)
class _Gathered(Reader):
    readers: tuple[Reader, ...]

    def emit(self, to: Emitter) -> str:
        into = to.put("[]")
        for one in self.readers:
            if isinstance(one, _Each):
                to.each(one.name, one.reader, into=into)
            else:
                found = to.once(one)
                to.body.append(f"if {found}: {into}.append({found})")
        return into

    def inside(self, path: str) -> Reader:
        return replace(self, readers=tuple(one.inside(path) for one in self.readers))


def gathered(*readers: Reader) -> Reader:
    """Return a reader that collects the results of all these readers in one list. A result is a list or a text."""
    return _Gathered(readers)


def choice(name: str, choices: Mapping[str, Any]) -> Reader:
    """Return a reader that translates a text with the table `choices`; None if the table does not contain the text."""
    return of(dict(choices).get, text(name))


@dataclass(frozen=True)
class _Each(Reader):
    name: str
    reader: Reader
    first: bool = False

    def emit(self, to: Emitter) -> str:
        return to.each(self.name, self.reader, first=self.first)

    def inside(self, path: str) -> Reader:
        return replace(self, name=f"{path}.{self.name}")


def each(name: str, reader: Reader) -> Reader:
    """Return a reader that applies `reader` to each object in a list and collects the results that are not None."""
    return _Each(name, reader)


@dataclass(frozen=True)
class _Made(Reader):
    """Reads an expression that combines the results of other readers."""

    expression: str
    readers: tuple[Reader, ...]

    def emit(self, to: Emitter) -> str:
        return "(" + self.expression.format(*map(to.once, self.readers)) + ")"

    def inside(self, path: str) -> Reader:
        return replace(self, readers=tuple(one.inside(path) for one in self.readers))


def written(expression: str, *readers: Reader) -> Reader:
    """Return a reader that evaluates a Python expression in which `{0}`, `{1}` and so on are results of other readers.

    It is faster than `of` with the same readers, because it calls no function.
    """
    return _Made(expression, readers)


def first(name: str, reader: Reader | None = None) -> Reader:
    """Return a reader for the first result of `reader` in a list of objects.

    Without `reader`, it reads the first string.
    """
    return _Made("{0}[0] if {0} else None", (texts(name),)) if reader is None else _Each(name, reader, first=True)


@dataclass(frozen=True)
class Either(Reader):
    """Reads the first result of `readers` that is not None. They may read the same member as different kinds."""

    readers: tuple[Reader, ...]

    def emit(self, to: Emitter) -> str:
        """See `Reader`."""
        to.mix(self.readers)
        *others, last = map(to.once, self.readers)
        return f"({' '.join((*(f'{one} if {one} is not None else' for one in others), last))})"

    def inside(self, path: str) -> Reader:
        """See `Reader`."""
        return replace(self, readers=tuple(one.inside(path) for one in self.readers))


def either(*readers: Reader) -> Reader:
    """Return a reader for the first result that is not None.

    It also reads a member that can be a text or an object, or one of other kinds:

        author=either(byline_of_name.here(), byline_of.at("author"))

    Here `byline_of_name` is `record_map(byline, id=always(None), username=text("author"))`. Only an `either` may read a
    member as several kinds. Each reader returns None for the kinds that it does not read.
    """
    return Either(readers)


def unless(mark: Reader, reader: Reader) -> Reader:
    """Return a reader that returns None if `mark` is true, and otherwise the result of `reader`."""
    return _Made("None if {0} else {1}", (mark, reader))


def address(template: str, *readers: Reader) -> Reader:
    """Return a reader that inserts the results of readers at the `{}` of a text; None if a result is None."""
    placeholders = [f"{{{place}}}" for place in range(len(readers))]
    nothing = " or ".join(f"{one} is None" for one in placeholders)
    written = repr(template.format(*("{{" + one + "}}" for one in placeholders)))
    return _Made(f"None if {nothing} else f{written}", readers)


def total(one: Reader, other: Reader) -> Reader:
    """Return a reader for the sum of two counts.

    A missing count is ignored. The result is None if it exceeds 64 bits.
    """
    both = f"{{0}} + {{1}} if {{0}} + {{1}} <= {values.INTEGER_MAX} else None"
    return _Made(f"{{1}} if {{0}} is None else {{0}} if {{1}} is None else {both}", (one, other))


@dataclass(frozen=True, eq=False)
class _Constant(Reader):
    value: Any

    def emit(self, to: Emitter) -> str:
        return to.bind(self.value)

    def inside(self, path: str) -> Reader:  # noqa: ARG002 - the value is the same everywhere
        return self


NEVER: Final = _Constant(None)
"""A reader that returns None for every record."""


def always(value: Any) -> Reader:
    """Return a reader that returns the same value for every record. Callers must not modify the value."""
    return NEVER if value is None else _Constant(value)


@dataclass(frozen=True)
class _Given(Reader):
    name: str

    def emit(self, to: Emitter) -> str:
        return to.given(self.name)

    def inside(self, path: str) -> Reader:  # noqa: ARG002 - the value is the same everywhere
        return self


def given(name: str) -> Reader:
    """Return a reader for a value of the request, such as its host; None if the request does not contain the value."""
    return _Given(name)
