"""A record's fields are declared by its constructor's annotations. Schemas and monitor paths are built from them.

    @nests(flags="Marks that the platform set.")
    def release(
        *,
        id: Annotated[str | None, "The release's own number."],
        author: Annotated[Record | None, Of(byline), "Its author."] = None,
        pinned: Annotated[bool | None, "Whether it is pinned."] = None,
        published_at: Annotated[Instant, "The time of its publication."] = None,
    ) -> Record:

A value that the upstream did not send is None, unless the constructor replaces it with an empty list or object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from upstreams.model.choices import Kind as ResponseKind
from upstreams.model.computed import Computed

Record = dict[str, Any]
Make = Callable[..., Record]
Kind = Literal["text", "integer", "number", "boolean", "array", "object"]
RowKind = Literal["post", "account", "item"]
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
    """The format of a text, by its name in JSON Schema."""

    name: str


class Of(NamedTuple):
    """Annotates a field with the constructor of its record or, if the field is a list, of each record in it."""

    make: Make


Instant = Annotated[str | None, Format("date-time")]
"""A time as ISO 8601 UTC with `Z`."""
Url = Annotated[str | None, Format("uri")]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: the kind of its value, and whether the value may be null."""

    name: str
    kind: Kind
    description: str
    nullable: bool = False
    format: str = ""
    make: Make | None = None
    """The constructor of the record in this field or, if the field is a list, of each record in it."""
    members: tuple[Field, ...] = ()
    """The fields of an object that has no constructor of its own."""
    entries: Kind | None = None
    """The kind of each entry, if the field is a list."""

    @property
    def is_open(self) -> bool:
        """Whether the members of this field are not declared, as in `ext`."""
        return self.kind == "object" and self.make is None and not self.members


class Contract(NamedTuple):
    """A role that endpoints of an archetype can have, and the guarantees that every endpoint with this role gives.

    Roles are described in `upstreams.model.roles`.
    """

    role: str
    resource: str = ""
    """The resource whose endpoint has this role, unless an endpoint declares the role. `{post}` stands for the resource
    of the role `post`. If it is empty, any resource matches."""
    of: str | None = None
    """The role whose parameters the endpoint also accepts. On a platform without that role, no endpoint has this role,
    unless it declares it."""
    takes: tuple[str, ...] = ()
    """Other parameters that the endpoint accepts."""

    @property
    def needs_others(self) -> bool:
        """Whether other roles must be assigned first."""
        return self.of is not None or "{" in self.resource


@dataclass(frozen=True, slots=True)
class Archetype:
    """A named response shape.

    `key` is the record's name in `data` and in each row. If it is empty, `data` contains the record's fields directly.
    """

    name: str
    key: str
    make: Make
    """The constructor of the records."""
    many: bool = False
    computed: Computed | None = None
    """Returns the computed fields that are placed next to a record. `computed` declares them."""
    has_legs: bool = False
    """Whether responses report their legs and how many of them answered."""
    beside: Make | None = None
    """The constructor of the fields placed next to the rows of a list."""
    stored_as: tuple[bytes, bytes] | None = None
    """The JSON member that says how the response was obtained, and the member that replaces it when the cache serves
    the response."""

    findings: tuple[str, ...] = ()
    """The members that contain the results of a response that is not a list. Dots lead into nested members.

    If all of them are empty, nothing was found and the response is free (spec 2.4).
    """
    cursor_at: str = ""
    """The field that contains the cursor of the next page, for a response that is not a list. Empty if there are no
    pages."""
    kind: ResponseKind = "post"
    """The kind of response, which determines how long the cache stores it. Endpoints may declare another kind, and a
    search has its own kind."""
    row_kind: RowKind | None = None
    """The kind of rows that a discover run finds in searches of this list. None if it does not use them."""
    lookup_rank: int = 0
    """Position among the kinds of records that a URL can lead to. If a URL contains several records, the one with the
    lowest rank is meant: a post's URL also contains its author. 0 if a URL leads to no such record."""
    roles: tuple[Contract, ...] = ()
    """The roles that endpoints of this archetype can have."""
    instead_of_id: tuple[str, ...] = ()
    """Fields of which one is enough to make a record useful although it has no id."""
    absent_because: tuple[str, ...] = ()
    """The reasons with which every platform may refuse to send such a record (spec 7.3)."""

    @property
    def makes_beside(self) -> tuple[Make, ...]:
        """The constructors of all parts of the response that do not belong to a record."""
        more = () if self.beside is None else (self.beside,)
        return (*more, coverage) if self.has_legs else more

    def is_empty(self, record: Record) -> bool:
        """Return whether a record is empty because it has no id, and no field that is useful without one."""
        return "id" in record and record["id"] is None and not any(record[name] for name in self.instead_of_id)

    def found_nothing(self, record: Record) -> bool:
        """Return whether all members listed in `findings` are empty, or False if none are listed."""
        return bool(self.findings) and not any(_has_any(record, path.split(".")) for path in self.findings)

    def as_stored(self, encoded: bytes) -> bytes:
        """Return an encoded response in the form in which the cache serves it.

        The replaced member cannot occur inside a text, because its quotes would be escaped there.
        """
        return encoded if self.stored_as is None else encoded.replace(*self.stored_as)

    def wrap(self, record: Record, warnings: list[str]) -> Record:
        """Return a new dict that contains the record under its key and its computed fields next to it (decisions 3)."""
        return self.rows((record,), warnings)[0]

    def rows(self, records: Iterable[Record], warnings: list[str]) -> list[Record]:
        """Return all records, each wrapped in the same way as by `wrap`."""
        key, computed = self.key, self.computed
        if not key:
            return [{**record} for record in records]
        if computed is None:
            return [{key: record} for record in records]
        return [{key: record, "computed": computed(record, warnings)} for record in records]


def _has_any(value: Any, path: list[str]) -> bool:
    """Return whether there is a value at a path. If the path leads through a list, one entry with a value is enough."""
    if isinstance(value, list):
        return any(_has_any(one, path) for one in value)
    if isinstance(value, dict):
        return _has_any(value.get(path[0]), path[1:]) if path else any(_has_any(one, path) for one in value.values())
    return bool(value)


def computed(
    *,
    engagement_rate: Annotated[
        float | None, ("Likes divided by followers; for a post, all interactions divided by views.")
    ],
    language: Annotated[str | None, "Language of the text, as stated by the platform or detected."],
    content_category: Annotated[str, "One of 16 topics detected from the text, or other."],
    estimated_reach: Annotated[int | None, "The estimated number of people reached."],
) -> Record:
    """The computed fields next to a record."""
    return locals()


def leg(
    *,
    endpoint: Annotated[str, "The endpoint of this leg."],
    source: Annotated[str, "The source that answered, or the last one that was called."],
    rung: Annotated[str, "primary, or fallback if the endpoint's own source did not answer."],
    rung_index: Annotated[int, "Position of the source in the ladder; 0 is the endpoint's own source."],
    status: Annotated[
        str,
        "ok; not_found: the item does not exist; unsupported: not readable here, or not with these values; deferred: "
        "out of time; failed.",
    ],
    credits_used: Annotated[int, "The leg's share of the call's cost."],
    latency_ms: Annotated[int, "Duration in milliseconds."],
    error: Annotated[str | None, "Error code of the failure."] = None,
) -> Record:
    """One leg of a composite response, and how it ended."""
    return locals()


def coverage(
    *,
    legs: Annotated[list[Record], Of(leg), "The legs of the response."],
    coverage: Annotated[float, "Share of supported legs that answered, 0 to 1."],
    partial_failure: Annotated[bool, "Whether a leg that should have answered is missing."],
) -> Record:
    """How complete a composite response is."""
    return locals()


def nests(**parts: str) -> Callable[[M], M]:
    """Describe the nested objects that a constructor builds from its arguments. The descriptions are given by name."""

    def remember(make: M) -> M:
        _PARTS[make] = parts
        return make

    return remember


_PARTS: dict[Make, dict[str, str]] = {}


@cache
def fields_of(make: Make) -> tuple[Field, ...]:
    """Return the fields of the records that a constructor builds, in order."""
    hints = {name: hint for name, hint in get_type_hints(make, include_extras=True).items() if name != "return"}
    filled, empty = make(**{name: _Slot(name) for name in hints}), make(**dict.fromkeys(hints))
    return tuple(_fields(filled, empty, hints, _PARTS.get(make, {})))


class _Slot(NamedTuple):
    """A placeholder that shows where a record contains an argument."""

    argument: str


def _fields(filled: Record, empty: Record, hints: dict[str, Any], parts: dict[str, str]) -> Iterator[Field]:
    """Yield the fields of a record. In `filled`, every argument has a value; in `empty`, every argument is None."""
    for name, value in filled.items():
        if isinstance(value, _Slot):
            yield _declared(name, hints[value.argument], is_none=empty[name] is None)
        else:
            yield Field(name, "object", parts[name], members=tuple(_fields(value, empty[name], hints, parts)))


def _declared(name: str, hint: Any, *, is_none: bool) -> Field:
    plain, *annotations = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    types = get_args(plain) if get_origin(plain) is UnionType else (plain,)
    entries = next((get_args(one)[0] for one in types if get_origin(one) is list), None)
    kinds = [_kind(one) for one in types if one is not type(None)]
    return Field(
        name,
        kinds[0],
        next(one for one in annotations if isinstance(one, str)),
        nullable=type(None) in types and is_none,
        format=next((one.name for one in annotations if isinstance(one, Format)), ""),
        make=next((one.make for one in annotations if isinstance(one, Of)), None),
        entries=None if entries is None else _kind(entries),
    )


def _kind(type_: Any) -> Kind:
    return _KINDS[get_origin(type_) or type_]
