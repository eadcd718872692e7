"""The values that a read yields, is sent back, and returns (see `upstreams.model.endpoint`)."""

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
    """A form of body that is not JSON, as `upstreams.content` reads it."""

    media_types: str
    """The value of the Accept header."""
    read: Callable[[bytes, str], Any]
    """Makes values of a body and its Content-Type. Raises one of `UNREADABLE`."""
    follows: bool = True  # False: a redirect is an answer too, which the read follows itself


Accepts = Literal["json", "json or text"] | RecordMap | Rows | Form
"""The form of an answer's body. A map or its rows decode no more than they read, where the body is as usual."""


@dataclass(slots=True)
class Call:
    """One upstream request that a `read` asks for; `path` is percent-encoded by the reader (`segment`).

    Nobody changes it. It is not frozen, nor are `Single` and `Page`: every request makes one, and that costs half so.
    """

    path: str
    query: Mapping[str, Value | Sequence[Value] | None] = field(default_factory=dict)
    """Members that are None are left out; one that is a sequence is sent once for each of its values."""
    source: str = ""
    """A name in `Platform.sources`; empty means the first one."""
    headers: tuple[tuple[str, str], ...] = ()
    accepts: Accepts = "json"
    method: Literal["GET", "POST"] = "GET"
    json: Any = None
    optional: bool = False
    """True: a failure of this call is answered with a `Missing`, and the reader goes on without it."""
    needs_session: bool = False
    form: Mapping[str, Value | Sequence[Value] | None] | None = None
    """The members of a form, in place of `json`."""
    only_reads: bool = False
    """True: a POST that changes nothing, so that it is tried again as a GET is."""
    host: str = ""
    """The host of a source whose address has a parameter's name in it; empty means the one that the request names."""
    spacing_s: float = 0.0  # from its beginning on, until the next call to its source

    def target(self, base_path: str) -> str:
        """The path below the source's base and the query, without what is None."""
        if self.query:
            pairs = pairs_of(self.query)
            if pairs:
                return f"{base_path}{self.path}?{urlencode(pairs)}"
        return base_path + self.path


def pairs_of(members: Mapping[str, Value | Sequence[Value] | None]) -> list[tuple[str, str]]:
    """The members of a query or a form as they are sent, without what is None."""
    pairs = []
    for name, value in members.items():
        if isinstance(value, list | tuple):
            pairs += [(name, _wire(one)) for one in value]
        elif value is not None:
            pairs.append((name, _wire(value)))
    return pairs


def segment(text: str) -> str:
    """`text` as one segment of a path; of one that leads elsewhere, such as `..`, no call is made (`paths`)."""
    if _PLAIN_SEGMENT(text):  # nothing to quote, as in most: a tenth of the cost
        return text
    return quote(text, safe="")


def _wire(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Answer(NamedTuple):
    """The answer to a call: header names are lower-case.

    `body` is parsed JSON; text where the call accepts it, or what its map decoded.
    """

    status: int
    headers: Mapping[str, str]
    body: Any
    source: str = ""
    took_s: float = 0.0
    body_bytes: int = 0
    """The length of the body."""
    raw: bytes = b""
    """The body as it came."""

    def number(self, name: str) -> int | None:
        """The whole number under a name in the body, wherever it stands; also of a body that a map decoded."""
        if isinstance(self.body, dict):
            return values.number(self.body.get(name))
        found = re.search(rb'"%b"\s*:\s*(-?\d{1,40})\b' % re.escape(name.encode()), self.raw)
        return int(found[1]) if found else None

    def next_link(self, name: str) -> str | None:
        """The query parameter `name` of the `Link` header's rel="next" address, or None on the last page."""
        found = _NEXT_LINK.search(self.headers.get("link", ""))
        return dict(parse_qsl(found[1].partition("?")[2])).get(name) if found else None


@dataclass(frozen=True, slots=True)
class Missing:
    """The answer to an optional call that failed; false, so that `if answer:` reads well."""

    problem: str
    source: str = ""
    took_s: float = 0.0
    absent: bool = False
    """True: the source said for certain that there is no such thing."""
    failure: UpstreamError | LimitError | None = field(default=None, compare=False)
    late: bool = False
    """True: its time was over."""
    body_bytes: ClassVar[int] = 0

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Task:
    """Long work of a pure function, `module:function`, that a worker process does; its result is an answer's body."""

    function: str
    args: tuple[Any, ...]
    sample: Any  # such a result, for examples
    on_costly: Callable[[], None] | None = None
    """Called when the task used up what a page may take."""

    def remember(self) -> None:
        """Note that the task was too costly, where that is noted."""
        if self.on_costly is not None:
            self.on_costly()


@dataclass(frozen=True, slots=True)
class Part:
    """Another endpoint as one part of a composite, with `values` over its defaults; spelled as in a request."""

    resource: str
    values: Mapping[str, Value]
    optional: bool = False
    platform: str = ""
    """The slug of its platform; empty means the composite's own."""
    cursor: State | None = None
    """The page of a list, as the page before told it; None: the first."""
    within_s: float = 0.0
    """Its time in seconds, of what the request has left; 0: all of that."""


@dataclass(frozen=True, slots=True)
class Round:
    """How far a composite's walk has come. Yielded after some pages, it is answered with how many more may follow."""

    pages: int
    items: int
    limit: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One part of a composite answer (decisions 14): the endpoint it stands for and the answer it got."""

    endpoint: str
    answer: Answer | Missing | Fetched


@dataclass(slots=True)
class Single:
    """One record, or the named parts of a composite."""

    record: Record
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """The part of a metered price that was used; None: the least of it (`PriceRange`)."""
    next: State | None = None
    """Where it goes on, of a composite whose archetype says where that is told (`Archetype.cursor_at`)."""


@dataclass(slots=True)
class Page:
    """One page of records; `next` is None on the last one, `total` the upstream's own count if it told one."""

    records: list[Record]
    next: State | None = None
    total: int | None = None
    warnings: tuple[str, ...] = ()
    legs: tuple[Leg, ...] = ()
    credits_used: int | None = None
    """As of `Single`."""
    beside: Record | None = None
    """The fields that stand beside the rows, as `Archetype.beside` makes them."""


CACHE: Final = "cache"
"""The source of a part that came from the cache."""


@dataclass(slots=True)
class Fetched:
    """The result of a read, the seconds that it waited for the upstream, and the place of the source that answered.

    Only the ladder changes one, on its way up.
    """

    result: Page | Single
    took_s: float = 0.0
    source: str = ""
    rung_index: int = 0
    """0 is the endpoint's own read; from 1 on its fallbacks in their order."""
    pages_used: int = 1
    """The pages that brought something, which the call is billed for; credits, where the endpoint has its own price.

    0 if nothing was found.
    """
    whole: bool = True
    """False: a walk that ended before it had to."""
    shortfall: str = ""
    """Says how many of the requested items a walk has, and why, where it ended before that and before the list did."""
    failure: UpstreamError | LimitError | None = None
    """The failure of a page of a walk; another walk would get no more at this moment."""
    body_bytes: int = 0
    """The length of all answers together that it was read from."""
    bodies: tuple[tuple[str, bytes], ...] = ()
    """The path and the body of each call, where its plan keeps them."""


Wanted = Call | Part | Round | Task | tuple[Call | Part, ...]
Steps = Generator[Wanted, Any, Page | Single]


class Many(NamedTuple):
    """How several records of an endpoint are read at once: `read` takes the values that name them, as many as `size`.

    It returns a `Single` whose record has each record by its value; those that are not there are left out.
    """

    param: str
    """The parameter whose values they are; all others are the same for all of them."""
    size: int
    read: Callable[[Sequence[str], Args], Steps]
    needs: tuple[str, ...] = ()
    """Credentials without which they are read one by one."""


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in state with an upstream: headers to send and how long they hold."""

    headers: tuple[tuple[str, str], ...]
    ttl_s: float


SessionSteps = Generator[Call, Any, Session]
_TOKEN_MAX = 8_192
_TOKEN_S = 3_600


def basic(user: str, password: str) -> tuple[str, str]:
    """The header of Basic authentication (RFC 7617)."""
    return "authorization", f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def client_credentials(
    path: str, *, source: str = "", names: tuple[str, str] = ("identifier", "password"), in_form: bool = False
) -> Callable[[Credentials], SessionSteps]:
    """How one signs in as an application (RFC 6749, 4.4): with a POST to `path` that gives a token.

    `names` are those of the credentials that it takes; they go in the header of Basic authentication, or in the form.
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
            raise UnexpectedBody("signing in gave no access token")
        return Session((("authorization", f"Bearer {token}"),), fields.count(body, "expires_in") or _TOKEN_S)

    return open_session
