"""Declares a platform: data and pure functions, from which routing, validation, prices, catalog and tests read.

A platform file says `PLATFORM = Platform(...)` with one `Endpoint` a resource. An endpoint's `read` is a generator
without I/O: it yields the calls it needs, is sent their answers, and returns a `Page` or a `Single`:

    def _profile(args: Args) -> Steps:
        answer = yield Call(f"/users/{segment(args.text('handle'))}")
        return Single(_author(obj(answer.body)))

Yielding a tuple of calls runs them side by side and sends back a tuple of answers. A call marked `optional` is
answered with a `Missing`, which is false, when it fails. A `Part` in place of a call runs another endpoint's read,
with the fallbacks that it has, and is answered with a `Fetched`. What the generator returns holds records made by
`upstreams.model.archetypes`. A generator runs up to its first call before anything is charged: there it refuses values
that no call could answer, with `InvalidArgument`, for free. A path that leads elsewhere, since a value in it is `..` or
empty, is refused there for all platforms alike (`upstreams.model.paths`).

Beside its `read` an endpoint may name `fallbacks`, other sources that have the answer too, and `collect`, by which it
walks page after page until it has as many items as `limit` asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from upstreams.model.archetypes import Archetype
from upstreams.model.errors import NotFound, UpstreamError
from upstreams.model.params import Args, Credentials, Param, Value
from upstreams.model.steps import Answer, Call, Steps

Tier = Literal["standard", "advanced", "premium"]
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
    """Another source of an endpoint's answer when its own read fails (decisions 9).

    With a `read` of its own the fallback may request another form that its source has; the pages that follow stay with
    it, since a cursor means nothing elsewhere. Without one it is a mirror: the endpoint's own read, with every call to
    the platform's first source sent to `source` instead, and cursors that are good for both.
    """

    source: str
    read: Read | None = None
    needs: tuple[str, ...] = ()
    """Credentials without which it is passed over."""


@dataclass(frozen=True, slots=True)
class Collect:
    """The walk of an endpoint to `limit` items (spec 4.3, rule 7): page by page, each of which is billed."""

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
    credentials: tuple[str, ...] = ()
    """Those that it can use, of `token`, `key`, `identifier` and `password`."""
    headers: Callable[[Credentials], tuple[tuple[str, str], ...]] = lambda _credentials: ()
    judge: Judge = by_status
    """Judges a status of 400 or above; None leaves it to the fetch: throttled, or a failure."""
    backoff: Callable[[Answer], Backoff | None] = lambda _answer: None
    """Reads the pause that a successful answer demands: Stack Exchange's `backoff`, a quota that is used up."""
    method_of: Callable[[str], str] = lambda _path: ""
    """The name of the upstream's method that a path calls, where the upstream counts methods apart; "" where not."""
    open_session: Callable[[Credentials], SessionSteps] | None = None
