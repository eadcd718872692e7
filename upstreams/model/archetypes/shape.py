"""How a record's fields are declared: by its constructor's annotations, from which schemas and monitors' paths come.

    @nests(flags="Marks that the platform set.")
    def release(
        *,
        id: Annotated[str | None, "The release's own number."],
        author: Annotated[Record | None, Of(byline), "Its author."] = None,
        pinned: Annotated[bool | None, "Whether it is pinned."] = None,
        published_at: Annotated[Instant, "The time of its publication."] = None,
    ) -> Record:

What the upstream did not send is None, where the constructor does not make an empty list or object of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from upstreams.model.computed import Computed

Record = dict[str, Any]
Make = Callable[..., Record]
Kind = Literal["text", "integer", "number", "boolean", "array", "object"]
M = TypeVar("M", bound=Make)
_KINDS: dict[Any, Kind] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


class Format(NamedTuple):
    """The format of a text, as JSON Schema names it."""

    name: str


class Of(NamedTuple):
    """The constructor of the record that a field holds, or of those in the list that it holds."""

    make: Make


Instant = Annotated[str | None, Format("date-time")]
"""A time as ISO 8601 UTC with `Z`."""
Url = Annotated[str | None, Format("uri")]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: what it holds, and whether it may be null."""

    name: str
    kind: Kind
    description: str
    nullable: bool = False
    format: str = ""
    make: Make | None = None
    """The constructor of the record that it holds, or of those in its list."""
    members: tuple[Field, ...] = ()
    """The fields of an object that the constructor makes itself."""
    entries: Kind | None = None
    """The kind of what a list holds."""

    @property
    def is_open(self) -> bool:
        """Whether nobody declares what stands below it, as below `ext`."""
        return self.kind == "object" and self.make is None and not self.members


@dataclass(frozen=True, slots=True)
class Archetype:
    """A named shape: `key` is the record's name in `data` and in each row; an empty key spreads the record itself."""

    name: str
    key: str
    make: Make
    """The constructor of its records."""
    many: bool = False
    computed: Computed | None = None
    """Makes the fields beside a record, which `computed` describes."""
    has_legs: bool = False
    """Whether its answers say which parts they came by, and how many of them came."""
    beside: Make | None = None
    """The constructor of the fields that stand beside the rows of a list."""
    stored_as: tuple[bytes, bytes] | None = None
    """A member that says how an answer was had, as JSON, and its value in an answer that was stored."""

    findings: tuple[str, ...] = ()
    """Members that hold what was found, with dots for what is inside them, where the answer is no list of rows.

    An answer in which all of them are empty found nothing, and costs nothing (spec 2.4).
    """
    cursor_at: str = ""
    """The field that has the cursor of the next page where it is no list; empty: it has no pages."""

    @property
    def has_pages(self) -> bool:
        """Whether a request for one may name a page by its cursor."""
        return self.many or bool(self.cursor_at)

    @property
    def makes_beside(self) -> tuple[Make, ...]:
        """The constructors of all fields of its answers that are not its records'."""
        more = () if self.beside is None else (self.beside,)
        return (*more, coverage) if self.has_legs else more

    def is_empty(self, record: Record) -> bool:
        """Whether a record tells nothing to know it by: it has no id, which an article may lack that has words."""
        return "id" in record and record["id"] is None and not (self.key == "article" and record["text"])

    def found_nothing(self, record: Record) -> bool:
        """Return whether everything is empty in which the record says what was found."""
        return bool(self.findings) and not any(_has_any(record, path.split(".")) for path in self.findings)

    def as_stored(self, encoded: bytes) -> bytes:
        """The answer as the cache gives it. No text holds the member: its quotes would be escaped there."""
        return encoded if self.stored_as is None else encoded.replace(*self.stored_as)

    def wrap(self, record: Record, warnings: list[str]) -> Record:
        """The record under its key, with its computed fields beside it (decisions 3); a dict of its own."""
        return self.rows((record,), warnings)[0]

    def rows(self, records: Iterable[Record], warnings: list[str]) -> list[Record]:
        """Each of the records as `wrap` makes it."""
        key, computed = self.key, self.computed
        if not key:
            return [{**record} for record in records]
        if computed is None:
            return [{key: record} for record in records]
        return [{key: record, "computed": computed(record, warnings)} for record in records]


def _has_any(value: Any, path: list[str]) -> bool:
    """Return whether there is anything at a path; the path goes through each entry of a list."""
    if isinstance(value, list):
        return any(_has_any(one, path) for one in value)
    if isinstance(value, dict):
        return _has_any(value.get(path[0]), path[1:]) if path else any(_has_any(one, path) for one in value.values())
    return bool(value)


def computed(
    *,
    engagement_rate: Annotated[float | None, "Likes over followers; of a post all that readers did over its views."],
    language: Annotated[str | None, "The language of its text, as the platform says or as it was detected."],
    content_category: Annotated[str, "One of 16 subjects by the words of its text, or other."],
    estimated_reach: Annotated[int | None, "People that it probably reaches."],
) -> Record:
    """The fields that are computed beside a record."""
    return locals()


def leg(
    *,
    endpoint: Annotated[str, "The endpoint that it stands for."],
    source: Annotated[str, "The source that answered, or was called last."],
    rung: Annotated[str, "primary, or fallback where the endpoint's own source did not answer."],
    rung_index: Annotated[int, "How far down the ladder that was; 0 is the endpoint's own source."],
    status: Annotated[
        str,
        "ok; not_found: there is no such thing; unsupported: not read here, or not by such values; deferred: its time "
        "was over; failed.",
    ],
    credits_used: Annotated[int, "Its share of the call's cost."],
    latency_ms: Annotated[int, "How long it took, in milliseconds."],
    error: Annotated[str | None, "The code of its failure."] = None,
) -> Record:
    """One part of a composite answer."""
    return locals()


def coverage(
    *,
    legs: Annotated[list[Record], Of(leg), "The parts that the answer came by."],
    coverage: Annotated[float, "The share of parts that answered, 0 to 1; those that are unsupported do not count."],
    partial_failure: Annotated[bool, "Whether parts are missing that should have come."],
) -> Record:
    """How whole an answer of several parts is."""
    return locals()


def nests(**parts: str) -> Callable[[M], M]:
    """Describe the objects that a constructor makes of its arguments, by their names."""

    def remember(make: M) -> M:
        _PARTS[make] = parts
        return make

    return remember


_PARTS: dict[Make, dict[str, str]] = {}


@cache
def fields_of(make: Make) -> tuple[Field, ...]:
    """The fields of a constructor's records, in their order."""
    hints = {name: hint for name, hint in get_type_hints(make, include_extras=True).items() if name != "return"}
    filled, empty = make(**{name: _Slot(name) for name in hints}), make(**dict.fromkeys(hints))
    return tuple(_fields(filled, empty, hints, _PARTS.get(make, {})))


class _Slot(NamedTuple):
    """Stands where a record holds an argument."""

    argument: str


def _fields(filled: Record, empty: Record, hints: dict[str, Any], parts: dict[str, str]) -> Iterator[Field]:
    """`filled` is the record of all arguments, `empty` the one of None alone."""
    for name, value in filled.items():
        if isinstance(value, _Slot):
            yield _declared(name, hints[value.argument], is_none=empty[name] is None)
        else:
            yield Field(name, "object", parts[name], members=tuple(_fields(value, empty[name], hints, parts)))


def _declared(name: str, hint: Any, *, is_none: bool) -> Field:
    plain, *told = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    types = get_args(plain) if get_origin(plain) is UnionType else (plain,)
    entries = next((get_args(one)[0] for one in types if get_origin(one) is list), None)
    kinds = [_kind(one) for one in types if one is not type(None)]
    return Field(
        name,
        kinds[0],
        next(one for one in told if isinstance(one, str)),
        nullable=type(None) in types and is_none,
        format=next((one.name for one in told if isinstance(one, Format)), ""),
        make=next((one.make for one in told if isinstance(one, Of)), None),
        entries=None if entries is None else _kind(entries),
    )


def _kind(type_: Any) -> Kind:
    return _KINDS[get_origin(type_) or type_]
