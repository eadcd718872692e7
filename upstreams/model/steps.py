"""The values that a read yields, receives and returns (see `upstreams.model.endpoint`)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from limits.errors import LimitError
from upstreams.model import fields, values
from upstreams.model.archetypes import Record
from upstreams.model.errors import UnexpectedBody, UpstreamError
from upstreams.model.maps import RecordMap, Rows
from upstreams.model.params import Args, Credentials, State, Value

_NEXT_LINK = re.compile(r"""<([^<>]*)>[^<>]*;\s*rel="?next\b""")
_PLAIN_SEGMENT = re.compile(r"[\w.~-]*", re.ASCII).fullmatch


class Form(NamedTuple):
    """A form of body other than JSON, read by `upstreams.content`."""

    media_types: str
    """The value of the Accept header."""
    read: Callable[[bytes, str], Any]
    """Builds values from a body and its Content-Type. Raises one of `UNREADABLE`."""
    follows: bool = True  # False: the read handles redirects itself, and a redirect counts as an answer


Accepts = Literal["json", "json or text"] | RecordMap | Rows | Form
"""The form of a response body. A map or its rows decode only the members they read, if the body has the usual form."""


@dataclass(slots=True)
class Call:
    """One upstream request of a `read`. The reader must percent-encode `path` (`segment`).

    Never modify an instance. `Call`, `Single` and `Page` are not frozen, because every request creates them and
    creation is twice as fast without freezing.
    """

    path: str
    query: Mapping[str, Value | Sequence[Value] | None] = field(default_factory=dict)
    """Members with the value None are omitted; a sequence is sent as one member for each of its values."""
    source: str = ""
    """A name in `Platform.sources`; empty means the first one."""
    headers: tuple[tuple[str, str], ...] = ()
    accepts: Accepts = "json"
    method: Literal["GET", "POST"] = "GET"
    json: Any = None
    optional: bool = False
    """Whether a failed call yields a `Missing`, so that the reader can continue without it."""
    needs_session: bool = False
    form: Mapping[str, Value | Sequence[Value] | None] | None = None
    """Members to send as a form, instead of `json`."""
    only_reads: bool = False
    """Whether a POST changes nothing, so that it is retried like a GET."""
    host: str = ""
    """The host, for a source whose address contains a parameter. If empty, the host from the request is used."""
    spacing_s: float = 0.0  # seconds from the start of this call to the start of the next call to its source

    def target(self, base_path: str) -> str:
        """Return the request target: the base path, the path and the query, without members that are None."""
        if self.query:
            pairs = pairs_of(self.query)
            if pairs:
                return f"{base_path}{self.path}?{urlencode(pairs)}"
        return base_path + self.path


def pairs_of(members: Mapping[str, Value | Sequence[Value] | None]) -> list[tuple[str, str]]:
    """Return the members of a query or a form as they are sent, without those that are None."""
    pairs = []
    for name, value in members.items():
        if isinstance(value, list | tuple):
            pairs += [(name, _wire(one)) for one in value]
        elif value is not None:
            pairs.append((name, _wire(value)))
    return pairs


def segment(text: str) -> str:
    """Return `text` as one path segment. Misleading segments, such as `..`, are rejected later (`paths`)."""
    if _PLAIN_SEGMENT(text):  # usually nothing needs quoting, and the check takes a tenth of the time
        return text
    return quote(text, safe="")


def _wire(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Answer(NamedTuple):
    """The answer to a call; header names are in lower case.

    `body` is parsed JSON, text if the call accepts text, or an object decoded by a map.
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
        """Return the whole number under a name in the body, at any depth; also for a body decoded by a map."""
        if isinstance(self.body, dict):
            return values.number(self.body.get(name))
        found = re.search(rb'"%b"\s*:\s*(-?\d{1,40})\b' % re.escape(name.encode()), self.raw)
        return int(found[1]) if found else None

    def next_link(self, name: str) -> str | None:
        """Return the query parameter `name` of the rel="next" URL in the `Link` header, or None on the last page."""
        found = _NEXT_LINK.search(self.headers.get("link", ""))
        return dict(parse_qsl(found[1].partition("?")[2])).get(name) if found else None


@dataclass(frozen=True, slots=True)
class Missing:
    """The answer to an optional call that failed. It is falsy, so `if answer:` tests for success."""

    problem: str
    source: str = ""
    took_s: float = 0.0
    absent: bool = False
    """Whether the source confirmed that the item does not exist."""
    failure: UpstreamError | LimitError | None = field(default=None, compare=False)
    late: bool = False
    """Whether the call ran out of time."""
    body_bytes: ClassVar[int] = 0

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Task:
    """CPU-intensive work for a worker process: a pure function, named as `module:function`.

    Its result becomes a response body.
    """

    function: str
    args: tuple[Any, ...]
    sample: Any  # an example of a result, used in generated examples
    on_costly: Callable[[], None] | None = None
    """Called if the task exceeded the limits of a page."""

    def remember(self) -> None:
        """Report that the task was too costly, if a callback is set."""
        if self.on_costly is not None:
            self.on_costly()


@dataclass(frozen=True, slots=True)
class Part:
    """Another endpoint as one part of a composite. `values` replace its defaults and are spelled as in a request."""

    resource: str
    values: Mapping[str, Value]
    optional: bool = False
    platform: str = ""
    """The slug of the platform; empty means the composite's own."""
    cursor: State | None = None
    """The page of a list, from the previous page; None for the first page."""
    within_s: float = 0.0
    """Time limit in seconds, at most the remaining time of the request; 0 means all of the remaining time."""


@dataclass(frozen=True, slots=True)
class Round:
    """The progress of a composite's walk. Yield it after some pages to receive the number of further pages allowed."""

    pages: int
    items: int
    limit: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg of a composite response (decisions 14): its endpoint and the answer it received."""

    endpoint: str
    answer: Answer | Missing | Fetched


@dataclass(slots=True)
class Single:
    """One record, or the named parts of a composite."""

    record: Record
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """The amount of a variable price that was used; None means the least (`PriceRange`)."""
    next: State | None = None
    """The start of the next page, for composites whose archetype has a field for it (`Archetype.cursor_at`)."""


@dataclass(slots=True)
class Page:
    """One page of records. `next` is None on the last page; `total` is the upstream's own count, if it sent one."""

    records: list[Record]
    next: State | None = None
    total: int | None = None
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """See `Single`."""
    beside: Record | None = None
    """The fields next to the rows, as built by `Archetype.beside`."""


CACHE: Final = "cache"
"""The source name of a part that was read from the cache."""


@dataclass(slots=True)
class Fetched:
    """The result of a read, the seconds spent waiting for the upstream, and the position of the source that answered.

    Only the ladder modifies an instance, before returning it.
    """

    result: Page | Single
    took_s: float = 0.0
    source: str = ""
    rung_index: int = 0
    """0 for the endpoint's own read, 1 and above for its fallbacks in order."""
    pages_used: int = 1
    """The number of pages with results, which are billed. For endpoints with their own price, the number of credits. 0
    if nothing was found."""
    whole: bool = True
    """Whether a walk read everything that was requested. False if it ended early."""
    shortfall: str = ""
    """Explains how many of the requested items a walk has, and why, if it ended before reaching their number or the end
    of the list."""
    failure: UpstreamError | LimitError | None = None
    """The failure of a page in a walk. Another walk would currently not get further."""
    body_bytes: int = 0
    """The total length of all responses that were read, in bytes."""
    bodies: tuple[tuple[str, bytes], ...] = ()
    """The path and body of each call, if the plan records them."""


Wanted = Call | Part | Round | Task | tuple[Call | Part, ...]
Steps = Generator[Wanted, Any, Page | Single]


class Many(NamedTuple):
    """A way to read several records of an endpoint at once: `read` takes up to `size` values that identify them.

    It returns a `Single` whose record maps each value to the record it identifies, without missing records.
    """

    param: str
    """The parameter that the values belong to. All other parameters must be the same for all records."""
    size: int
    read: Callable[[Sequence[str], Args], Steps]
    needs: tuple[str, ...] = ()
    """Credentials that this requires. If one is missing, records are read one by one."""


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in session with an upstream: the headers to send, and how long they are valid."""

    headers: tuple[tuple[str, str], ...]
    ttl_s: float


SessionSteps = Generator[Call, Any, Session]
_TOKEN_MAX = 8_192
_TOKEN_S = 3_600


def basic(user: str, password: str) -> tuple[str, str]:
    """Return the header of Basic authentication (RFC 7617)."""
    return "authorization", f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def client_credentials(
    path: str, *, source: str = "", names: tuple[str, str] = ("identifier", "password"), in_form: bool = False
) -> Callable[[Credentials], SessionSteps]:
    """Return the sign-in of an application (RFC 6749, 4.4): a POST to `path` that returns a token.

    `names` are the names of the two credentials, which are sent as Basic authentication or in the form.
    """

    def open_session(credentials: Credentials) -> SessionSteps:
        user, word = (credentials[name] for name in names)
        form: dict[str, Value] = {"grant_type": "client_credentials"}
        if in_form:
            form |= {"client_id": user, "client_secret": word}
        headers = () if in_form else (basic(user, word),)
        answer = yield Call(path, source=source, method="POST", form=form, headers=headers)
        body = fields.obj(answer.body)
        token = fields.text(body, "access_token")
        if token is None or len(token) > _TOKEN_MAX:
            raise UnexpectedBody("sign-in returned no access token")
        return Session((("authorization", f"Bearer {token}"),), fields.count(body, "expires_in") or _TOKEN_S)

    return open_session
