"""How a platform is declared: data and pure functions, from which routing, validation, prices, catalog and tests read.

A platform file says `PLATFORM = Platform(...)` with one `Endpoint` a resource. An endpoint's `read` is a generator
without I/O: it yields the calls it needs, is sent their answers, and returns a `Page` or a `Single`:

    def _profile(args: Args) -> Steps:
        answer = yield Call(f"/users/{quote(args.text('handle'))}")
        return Single(_author(obj(answer.body)))

Yielding a tuple of calls runs them side by side and sends back a tuple of answers. A call marked `optional` is
answered with a `Missing`, which is false, when it fails. A `Part` in place of a call runs another endpoint's read,
with the fallbacks that it has, and is answered with a `Fetched`. What the generator returns holds records made by
`upstreams.archetypes`. A generator runs up to its first call before anything is charged: there it refuses values that
no call could answer, with `InvalidArgument`, for free.

Beside its `read` an endpoint may name `fallbacks`, other sources that have the answer too, and `collect`, by which it
walks page after page until it has as many items as `limit` asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from upstreams.archetypes import Archetype, Record
from upstreams.errors import InvalidArgument, NotFound, UpstreamError

Value = str | int | bool
_NEXT_LINK = re.compile(r"""<([^<>]*)>[^<>]*;\s*rel="?next\b""")
State = Mapping[str, str | int]
"""Where a next page begins, in the upstream's own terms: `{"p": 2}`, `{"o": 30}`, `{"c": "..."}` (decisions 10)."""
Credentials = Mapping[str, str]
Tier = Literal["standard", "advanced", "premium"]


@dataclass(frozen=True, slots=True)
class Param:
    """One query parameter of an endpoint, as the guide shows it (spec 2.4)."""

    name: str
    description: str
    example: str
    type: Literal["string", "integer", "boolean", "url"] = "string"
    required: bool = False
    default: Value | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    length_max: int = 500


def limit(maximum: int, default: int = 20) -> Param:
    """The page-size control of a list endpoint (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Items on a page, 1 to {maximum}.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


def collected(maximum: int, default: int) -> Param:
    """The number of items that a collect-until-N endpoint walks its pages for (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Items to collect, 1 to {maximum}, from as many pages as it takes; each page used is billed.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


@dataclass(frozen=True, slots=True)
class Args:
    """What a `read` gets: validated parameters, the cursor's state, this platform's credentials and the instant."""

    values: Mapping[str, Value]
    cursor: State | None = None
    credentials: Credentials = field(default_factory=dict)
    now_at: float = 0.0

    def text(self, name: str) -> str:
        """A string parameter that is known to be there: required, or with a default."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def text_or_none(self, name: str) -> str | None:
        """A string parameter, or None when it was not sent."""
        return self.text(name) if name in self.values else None

    def number(self, name: str) -> int:
        """An integer parameter that is known to be there."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def position(self, key: str, first: int) -> int:
        """The page number or offset that the cursor holds under `key`, or `first` without a cursor."""
        value = self.cursor.get(key, first) if self.cursor else first
        return value if isinstance(value, int) else first

    def token(self, key: str = "c") -> str | None:
        """The upstream's own cursor that ours carries, or None on the first page."""
        value = self.cursor.get(key) if self.cursor else None
        return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Call:
    """One upstream request that a `read` asks for; `path` is percent-encoded by the reader (`segment`)."""

    path: str
    query: Mapping[str, Value | None] = field(default_factory=dict)
    source: str = ""
    """A name in `Platform.sources`; empty means the first one."""
    headers: tuple[tuple[str, str], ...] = ()
    accepts: Literal["json", "json or text"] = "json"
    method: Literal["GET", "POST"] = "GET"
    json: Any = None
    optional: bool = False
    """True: a failure of this call is answered with a `Missing`, and the reader goes on without it."""
    needs_session: bool = False

    def target(self, base_path: str) -> str:
        """The path below the source's base and the query, without what is None."""
        pairs = [(name, _wire(value)) for name, value in self.query.items() if value is not None]
        return f"{base_path}{self.path}?{urlencode(pairs)}" if pairs else f"{base_path}{self.path}"


def _wire(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Answer(NamedTuple):
    """What came back: `body` is the parsed JSON (or text where the call accepts it), header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: Any
    source: str = ""
    took_s: float = 0.0

    def next_link(self, name: str) -> str | None:
        """The query parameter `name` of the `Link` header's rel="next" address, or None on the last page."""
        found = _NEXT_LINK.search(self.headers.get("link", ""))
        return dict(parse_qsl(found[1].partition("?")[2])).get(name) if found else None


@dataclass(frozen=True, slots=True)
class Missing:
    """What an optional call is answered with when it failed; false, so that `if answer:` reads well."""

    problem: str
    source: str = ""
    took_s: float = 0.0
    absent: bool = False
    """True: the source said for certain that there is no such thing."""

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """Another endpoint of the same platform as one part of a composite, with `values` over its defaults."""

    resource: str
    values: Mapping[str, Value]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Leg:
    """One part of a composite answer (decisions 14): the endpoint it stands for and the answer it got."""

    endpoint: str
    answer: Answer | Missing | Fetched


@dataclass(frozen=True, slots=True)
class Single:
    """One record, or the named parts of a composite."""

    record: Record
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of records; `next` is None on the last one, `total` the upstream's own count if it told one."""

    records: list[Record]
    next: State | None = None
    total: int | None = None
    warnings: tuple[str, ...] = ()


class Fetched(NamedTuple):
    """What a read gave, the seconds that it waited for the upstream, and the rung of the ladder that answered."""

    result: Page | Single
    took_s: float = 0.0
    source: str = ""
    rung_index: int = 0
    """0 is the endpoint's own read; from 1 on its fallbacks in their order."""
    pages_used: int = 1
    """Pages of a walk that brought something: what it is billed by."""
    whole: bool = True
    """False: a walk that ended before it had to."""


Wanted = Call | Part | tuple[Call | Part, ...]
Steps = Generator[Wanted, Any, Page | Single]
Read = Callable[[Args], Steps]
Judge = Callable[[Answer], UpstreamError | None]


class Backoff(NamedTuple):
    """A wish to be left alone for `for_s` seconds: by the answered method (`Platform.method_of`), or by all calls."""

    for_s: float
    scope: Literal["method", "source"]


def by_status(answer: Answer) -> UpstreamError | None:
    """The reading of an error status that most platforms share: 404, 410 and 451 mean that there is nothing."""
    if answer.status in (404, 410, 451):
        return NotFound(by_status=True)
    return None


@dataclass(frozen=True, slots=True)
class Fallback:
    """Where an endpoint's answer comes from when its own read fails (decisions 9).

    With a `read` of its own the fallback may ask for what its source has in another form; the pages that follow stay
    with it, since a cursor means nothing elsewhere. Without one it is a mirror: the endpoint's own read, with every
    call to the platform's first source sent to `source` instead, and cursors that are good for both.
    """

    source: str
    read: Read | None = None
    needs: tuple[str, ...] = ()
    """Credentials without which it is passed over."""


@dataclass(frozen=True, slots=True)
class Collect:
    """How an endpoint collects until it has `limit` items (spec 4.3, rule 7): by pages, each of which is billed."""

    per_page: int
    """The most items that a read is asked for at once; it finds that number as its `limit`."""
    spare_pages: int = 4
    """Pages that a walk may take beyond those that `limit` needs when every page comes full."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One resource of a platform: `GET /v1/{platform}/{resource}` (spec 4.1)."""

    resource: str
    summary: str
    archetype: Archetype
    read: Read
    params: tuple[Param, ...] = ()
    tier: Tier = "standard"
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters of which exactly one must be sent."""
    cache_ttl_s: int = 600
    description: str = ""
    needs: tuple[str, ...] = ()
    """Credentials without which the endpoint is hidden and answers 503 without Retry-After."""
    fallbacks: tuple[Fallback, ...] = ()
    collect: Collect | None = None

    def with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """`values` over the parameters' defaults."""
        defaults = {param.name: param.default for param in self.params if param.default is not None}
        return {**defaults, **values}


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in state with an upstream: headers to send and how long they hold."""

    headers: tuple[tuple[str, str], ...]
    ttl_s: float


SessionSteps = Generator[Call, Any, Session]


@dataclass(frozen=True, slots=True)
class Platform:
    """One upstream platform; `sources` maps a name to the base address of each host it is read from."""

    slug: str
    title: str
    sources: Mapping[str, str]
    endpoints: tuple[Endpoint, ...]
    docs_url: str
    social: bool = False
    headers: Callable[[Credentials], tuple[tuple[str, str], ...]] = lambda _credentials: ()
    judge: Judge = by_status
    """What a status of 400 or above means; None leaves it to the fetch: throttled, or a failure."""
    backoff: Callable[[Answer], Backoff | None] = lambda _answer: None
    """What a successful answer asks for: Stack Exchange's `backoff`, a quota that it used up."""
    method_of: Callable[[str], str] = lambda _path: ""
    """The name of the upstream's method that a path calls, where the upstream counts methods apart; "" where not."""
    open_session: Callable[[Credentials], SessionSteps] | None = None


def segment(text: str) -> str:
    """`text` as one segment of a path; one of dots alone must not lead to another path."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def path_of_url(param: str, url: str, hosts: tuple[str, ...]) -> list[str]:
    """The path segments, percent-decoded, of a public address on one of `hosts`; the scheme may be missing.

    Raises:
        InvalidArgument: the address is on another host or cannot be read.
    """
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError as exc:  # brackets without an address in them
        raise InvalidArgument(param, "must be a web address") from exc
    if host not in hosts:
        raise InvalidArgument(param, f"must be an address on {' or '.join(hosts)}")
    return [unquote(part) for part in parts.path.split("/") if part]
