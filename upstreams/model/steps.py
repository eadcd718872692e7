"""The values that a read yields, receives and returns (see `upstreams.model.endpoint`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from limits.errors import LimitError
from upstreams.model.archetypes import Record
from upstreams.model.errors import DeclarationError, UpstreamError
from upstreams.model.fields import values
from upstreams.model.fields.maps import RecordMap, Rows
from upstreams.model.params import Args, Credentials, State, Value

Headers = tuple[tuple[str, str], ...]
_NEXT_LINK = re.compile(r"""<([^<>]*)>[^<>]*;\s*rel="?next\b""")
_PLAIN_SEGMENT = re.compile(r"[\w.~-]*", re.ASCII).fullmatch


class Form(NamedTuple):
    """A format of response bodies other than JSON. `upstreams.content` reads them."""

    media_types: str
    """The value of the Accept header."""
    read: Callable[[bytes, str], Any]
    """Converts a body with this Content-Type to values. Raises one of `UNREADABLE`."""
    follows: bool = True  # False: the read handles redirects itself, so a redirect is an answer


Accepts = Literal["json", "json or text"] | RecordMap | Rows | Form
"""The format of a response body. A map or its rows decode only the members that they read, if the body has the usual
form."""


@dataclass(slots=True)
class Call:
    """One request that a `read` sends to the upstream. The read must percent-encode values in `path` with `segment`.

    Never modify an instance. `Call`, `Single` and `Page` are not frozen, because every request creates some of them and
    frozen instances take twice as long to create.
    """

    path: str
    query: Mapping[str, Value | Sequence[Value] | None] = field(default_factory=dict)
    """Query members. A member is omitted if its value is None, and repeated for each value of a sequence."""
    source: str = ""
    """A name in `Platform.sources`; empty selects the first source."""
    headers: tuple[tuple[str, str], ...] = ()
    accepts: Accepts = "json"
    method: Literal["GET", "POST"] = "GET"
    json: Any = None
    optional: bool = False
    """Whether the read receives a `Missing` if the call fails, and can continue without an answer."""
    needs_session: bool = False
    form: Mapping[str, Value | Sequence[Value] | None] | None = None
    """Members to send as form data instead of `json`."""
    only_reads: bool = False
    """Whether a POST changes nothing at the upstream and can be retried like a GET."""
    host: str = ""
    """The host, for a source whose address contains a parameter. If it is empty, the host that the request names is
    used."""
    spacing_s: float = 0.0  # minimum seconds from the start of this call to the start of the source's next call
    resource: str = ""
    """The endpoint that makes the call. It is set only for platforms with a partner source, which counts costs."""

    def target(self, base_path: str) -> str:
        """Return the request target: the base path, the path and the query, without members whose value is None."""
        if self.query:
            pairs = pairs_of(self.query)
            if pairs:
                return f"{base_path}{self.path}?{urlencode(pairs)}"
        return base_path + self.path


def pairs_of(members: Mapping[str, Value | Sequence[Value] | None]) -> list[tuple[str, str]]:
    """Return the members of a query or a form as name and value pairs, without members whose value is None."""
    pairs = []
    for name, value in members.items():
        if isinstance(value, list | tuple):
            pairs += [(name, _wire(one)) for one in value]
        elif value is not None:
            pairs.append((name, _wire(value)))
    return pairs


def segment(text: str) -> str:
    """Return `text` encoded as one path segment. `paths` later rejects segments that mislead a server, such as `..`.

    Raises:
        DeclarationError: The value is not a text.
    """
    try:
        if _PLAIN_SEGMENT(text):  # Most texts need no quoting, and this check takes a tenth of the time.
            return text
    except TypeError:
        raise DeclarationError(f"a value in a path must be text, but it is {text!r} ({type(text).__name__})") from None
    return quote(text, safe="")


def _wire(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Answer(NamedTuple):
    """The answer to a call. Header names are in lower case.

    `body` is parsed JSON, or text if the call accepts text, or an object that a map decoded.
    """

    status: int
    headers: Mapping[str, str]
    body: Any
    source: str = ""
    took_s: float = 0.0
    body_bytes: int = 0
    """The length of the body in bytes."""
    raw: bytes = b""
    """The body as received."""

    def number(self, name: str) -> int | None:
        """Return the whole number stored under a name. If a map decoded the body, the name may be at any depth."""
        if isinstance(self.body, dict):
            return values.number(self.body.get(name))
        found = re.search(rb'"%b"\s*:\s*(-?\d{1,40})\b' % re.escape(name.encode()), self.raw)
        return int(found[1]) if found else None

    def next_link(self, name: str) -> str | None:
        """Return the query parameter `name` of the rel="next" URL in the `Link` header.

        None if there is no next page.
        """
        found = _NEXT_LINK.search(self.headers.get("link", ""))
        return dict(parse_qsl(found[1].partition("?")[2])).get(name) if found else None


@dataclass(frozen=True, slots=True)
class Missing:
    """The result of an optional call that failed. It is falsy, so `if answer:` tests for success."""

    problem: str
    source: str = ""
    took_s: float = 0.0
    absent: bool = False
    """Whether the source confirmed that the item does not exist."""
    failure: UpstreamError | LimitError | None = field(default=None, compare=False)
    late: bool = False
    """Whether the call failed because time ran out."""
    body_bytes: ClassVar[int] = 0

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Task:
    """CPU-intensive work for a worker process, given as the name of a pure function: `module:function`.

    The read receives the function's result as the body of an answer.
    """

    function: str
    args: tuple[Any, ...]
    sample: Any  # an example result, from which example responses are generated
    on_costly: Callable[[], None] | None = None
    """Called if the task exceeds the time or memory limit of a page."""

    def remember(self) -> None:
        """Call `on_costly`, if it is set."""
        if self.on_costly is not None:
            self.on_costly()


@dataclass(frozen=True, slots=True)
class Part:
    """Another endpoint that a composite reads. `values` override its defaults and are spelled as in a request."""

    resource: str
    values: Mapping[str, Value]
    optional: bool = False
    platform: str = ""
    """The platform's slug; empty selects the composite's own platform."""
    cursor: State | None = None
    """The page to read, as given by the previous page of the list. None selects the first page."""
    within_s: float = 0.0
    """The time limit in seconds, at most the time that the request has left. 0 means all of that time."""


@dataclass(frozen=True, slots=True)
class Round:
    """The progress of a composite that reads page after page. Yield it to learn how many more pages may be read."""

    pages: int
    items: int
    limit: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg of a composite response: its endpoint, and the answer of that endpoint (decisions 14)."""

    endpoint: str
    answer: Answer | Missing | Fetched


@dataclass(slots=True)
class Single:
    """A response with one record, or with the named parts of a composite."""

    record: Record
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """The credits to charge for an endpoint with a variable price. None means its minimum price (`PriceRange`)."""
    next: State | None = None
    """The position of the next page, for composites whose archetype has a field for it (`Archetype.cursor_at`)."""


@dataclass(slots=True)
class Page:
    """One page of records.

    `next` is None on the last page. `total` is the upstream's own count, or None if it sent none.
    """

    records: list[Record]
    next: State | None = None
    total: int | None = None
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """See `Single`."""
    beside: Record | None = None
    """The fields next to the rows, built by `Archetype.beside`."""


CACHE: Final = "cache"
"""The source that is reported for a part that was served from the cache."""


@dataclass(slots=True)
class Fetched:
    """The result of a read, with the seconds spent waiting for the upstream and the rung that answered.

    Only the ladder modifies an instance, before it returns the instance.
    """

    result: Page | Single
    took_s: float = 0.0
    source: str = ""
    rung_index: int = 0
    """0 for the endpoint's own read; 1 and above for its fallbacks, in order."""
    first_rung: int = 0
    """The rung with which the ladder starts on this node, if the endpoint's own read lacks a credential."""
    pages_used: int = 1
    """The number of pages to bill, which are the pages with results. It is 0 if nothing was found.

    For an endpoint with its own price, it is the number of credits to charge.
    """
    whole: bool = True
    """Whether a walk read everything that the request asked for. It is false if the walk ended early."""
    shortfall: str = ""
    """Why a walk ended before it had the requested number of items or reached the end of the list, and how many items
    it has. Empty otherwise."""
    failure: UpstreamError | LimitError | None = None
    """The failure of a page that ended the walk. Repeating the walk now would end at the same page."""
    body_bytes: int = 0
    """The total size in bytes of all response bodies that were read."""
    bodies: tuple[tuple[str, bytes], ...] = ()
    """The path and body of each call, if the plan records them."""

    @property
    def place(self) -> int:
        """The position of the rung among those that this node can call, as shown to customers."""
        return self.rung_index - self.first_rung


Wanted = Call | Part | Round | Task | tuple[Call | Part, ...]
Steps = Generator[Wanted, Any, Page | Single]


class Many(NamedTuple):
    """A way to read several records of an endpoint at once. `read` receives up to `size` values that identify them.

    `read` returns a `Single` whose record maps each value to the record it identifies. Records that do not exist are
    omitted.
    """

    param: str
    """The parameter whose values identify the records. All other parameters must be the same for all records."""
    size: int
    read: Callable[[Sequence[str], Args], Steps]
    needs: tuple[str, ...] = ()
    """Credentials that `read` requires. If one is missing, the records are read one by one."""


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in session with an upstream: the headers to send, and the time for which they are valid."""

    headers: Headers
    ttl_s: float


SessionSteps = Generator[Call, Any, Session]
SignInSteps = Callable[[Credentials], SessionSteps]
"""Returns the steps that open a session with these credentials."""
