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

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypedDict

from upstreams.model.archetypes import Archetype, Record
from upstreams.model.errors import UpstreamError, UpstreamThrottled
from upstreams.model.maps import RecordMap
from upstreams.model.params import AddressForm, Args, Credentials, Param, Value
from upstreams.model.paths import Located, Within
from upstreams.model.refusals import Backoff, Judge, Pace, Refusals, Remaining, by_status, retry_after_s
from upstreams.model.roles import Role, casting
from upstreams.model.steps import Answer, Call, Many, SessionSteps, Steps

Tier = Literal["standard", "advanced", "premium"]
Kind = Literal["profile", "post", "comments", "search", "analytics"]
TTL_S: Final[Mapping[Kind, int]] = {"profile": 900, "post": 600, "comments": 300, "search": 120, "analytics": 1800}
"""Seconds for which answers of a kind are cached (decisions 8)."""
Read = Callable[[Args], Steps]
_HOST_NAME = re.compile(r"\{(\w+)\}")


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


class PriceRange(NamedTuple):
    """The price of an endpoint, from `least` to `most` credits.

    A call is begun with the least that its values need, holds the most that they may take, and uses what its result
    names (`Single.credits_used`, `Page.credits_used`), else the least.
    """

    least: int
    most: int
    note: str
    """One sentence on how it is counted."""
    of_values: Callable[[Mapping[str, Value]], tuple[int, int]] | None = None
    """The least and the most that the values of a request need; without it they are the same for all."""
    is_most_usual: bool = True
    """Whether a call usually costs the most: whatever is priced comes. Otherwise it usually costs the least."""

    def span(self, values: Mapping[str, Value]) -> tuple[int, int]:
        """The least and the most that a request costs."""
        return (self.least, self.most) if self.of_values is None else self.of_values(values)


def fixed(credits_: int) -> PriceRange:
    """A price that all requests have."""
    return PriceRange(credits_, credits_, "One charge for each answer; less where most of its legs are lost.")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One resource of a platform: `GET /v1/{platform}/{resource}` (spec 4.1)."""

    resource: str
    summary: str
    archetype: Archetype
    read: Read
    params: tuple[Param, ...] = ()
    tier: Tier = "standard"
    price: PriceRange | None = None
    """Its price where that is no tier's."""
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters of which exactly one must be sent."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Parameters that callers may know and no node has the means for: each with the reason, which follows its name."""
    located: Located | Within | None = None
    """Its subject, where an address may name that with its place."""
    kind: Kind | None = None
    """How long its answers are good for; by its archetype and its resource's name where it is not given."""
    description: str = ""
    needs: tuple[str, ...] = ()
    """Credentials without which the endpoint is hidden and answers 503 without Retry-After."""
    fallbacks: tuple[Fallback, ...] = ()
    collect: Collect | None = None
    never: tuple[str, ...] = ()
    """Fields of its records that it never fills, with dots: `engagement.views`. A map's own are known without it."""
    record: RecordMap | None = None
    """The map of its records, where one reads them."""
    role: Role | None = None
    """The role that it plays, where its archetype and its resource do not say it (`upstreams.model.roles`)."""
    newest: Mapping[str, Value] | None = None
    """The values with which it lists the newest first; None: it cannot."""
    many: Many | None = None
    """The upstream's own way to give many of its records with one call."""
    preview: Callable[[Mapping[str, Value]], Record] | None = None
    """Makes what a dry run tells beside the price, of the values alone. Raises InvalidArgument."""
    by_workers: bool = False
    """Whether worker processes read its answers, which may have too much to do; such a call is not charged."""
    cache_ttl_s: int = 0  # that of its kind, where it is not given

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_ttl_s", self.cache_ttl_s or TTL_S[self.kind or _kind_of(self)])
        if self.located is not None:
            params = self.located.params
            object.__setattr__(self, "params", (*params, *(one for one in self.params if one not in params)))
            object.__setattr__(self, "one_of", self.one_of or self.located.groups)

    @property
    def streams(self) -> bool:
        """Whether its answers come as server-sent events too: page by page, or leg by leg."""
        return self.collect is not None or self.archetype.has_legs

    @property
    def named_by(self) -> tuple[str, ...]:
        """The parameters of which one names what it is about."""
        return self.one_of[0] if self.one_of else next(((one.name,) for one in self.params if one.required), ())

    def placed(self, args: Args) -> Args:
        """The arguments for its reads, with what an address among them names and where, as `Located.placed`."""
        return args if self.located is None else self.located.placed(args)

    def settled(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """The values that were sent, as `Within.settled`."""
        return values if self.located is None else self.located.settled(values)

    @property
    def unfilled(self) -> frozenset[str]:
        """The fields of its records that it never fills, with dots; `total` where a list does not tell its length."""
        return frozenset(self.never) | (frozenset() if self.record is None else self.record.unfilled)

    def canonical(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values of a request in their one form, over the parameters' defaults.

        Raises:
            InvalidArgument: one cannot be read.
        """
        sent = ((param, values.get(param.name)) for param in self.params)
        read = {param.name: param.canonical(value) for param, value in sent if isinstance(value, str)}
        return self.with_defaults(self.settled({**values, **read}))

    def with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """`values` over the parameters' defaults."""
        defaults = {param.name: param.default for param in self.params if param.default is not None}
        return {**defaults, **values}


class Options(TypedDict, total=False):
    """The fields of an endpoint that its declaration may add."""

    params: tuple[Param, ...]
    """Parameters beside those that its call takes."""
    tier: Tier
    one_of: tuple[tuple[str, ...], ...]
    located: Located | Within
    kind: Kind
    description: str
    needs: tuple[str, ...]
    fallbacks: tuple[Fallback, ...]
    never: tuple[str, ...]
    role: Role | None
    newest: Mapping[str, Value]
    many: Many


def _kind_of(endpoint: Endpoint) -> Kind:
    """The kind of an endpoint that names none."""
    if endpoint.archetype.name == "Author":
        return "profile"
    if endpoint.archetype.name == "CommentList":
        return "comments"
    return "search" if endpoint.resource.split("/", 1)[0] == "search" else "post"


@dataclass(frozen=True, slots=True)
class Platform:
    """One upstream platform; `sources` maps a name to the base address of each host it is read from."""

    slug: str
    title: str
    sources: Mapping[str, str]
    """An address may hold the name of a `Host` parameter, `https://{instance}/api`: each call goes to the host that its
    request names there, or to the one that the call itself has (`Call.host`). Composites of parts alone have none."""
    endpoints: tuple[Endpoint, ...]
    docs_url: str
    social: bool = False
    common: tuple[Param, ...] = ()
    """Parameters that every endpoint takes."""
    credentials: tuple[str, ...] = ()
    """Those that it can use; the ones that an endpoint or a fallback needs are added."""
    headers: Callable[[Credentials], tuple[tuple[str, str], ...]] = lambda _credentials: ()
    refusals: Judge = by_status
    """Judges a status of 400 or above; None leaves it to the fetch: throttled, or a failure."""
    rest: Callable[[Answer], Backoff | None] = lambda _answer: None
    """Reads the pause that a successful answer demands: a quota that is used up, Stack Exchange's `backoff`."""
    pace: Pace | None = None
    """The calls that each of its sources takes in some time."""
    method_of: Callable[[str], str] = lambda _path: ""
    """The name of the upstream's method that a path calls, where the upstream counts methods apart; "" where not."""
    open_session: Callable[[Credentials], SessionSteps] | None = None
    shares_session: bool = False
    """True: it limits how often one may sign in, so that all nodes share one session."""
    revalidates: tuple[str, ...] | None = None
    """The credentials with which an answer that is unchanged (304) costs nothing of a quota; None: it always does."""
    source_needs: Mapping[str, str] = field(default_factory=dict)
    """The credential of each source that nothing calls without one."""
    open_web: bool = False
    """Whether its callers name pages of the web: under http too, at ports 80, 443, 8080 and 8443, with up to 10 MB."""
    hosts: tuple[str, ...] = ()
    """The hosts that its addresses are at, with all below them. Those that callers name need not be told."""
    address_forms: tuple[AddressForm, ...] = ()
    """Addresses that its parameters' `forms` cannot say, since they hold several values."""
    _cast: Mapping[Role, Endpoint] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needed = [name for one in self.endpoints for needs in _needs(one) for all_ in needs for name in all_.split("|")]
        object.__setattr__(self, "credentials", tuple(dict.fromkeys((*self.credentials, *needed))))
        if self.common:
            endpoints = (replace(one, params=_with_common(one.params, self.common)) for one in self.endpoints)
            object.__setattr__(self, "endpoints", tuple(endpoints))
        object.__setattr__(self, "_cast", casting(self.endpoints))

    def playing(self, role: Role) -> Endpoint | None:
        """The endpoint that plays a role here."""
        return self._cast.get(role)

    def host_of(self, source: str) -> str | None:
        """The name of the parameter that stands in a source's address; None where its host is fixed."""
        found = _HOST_NAME.search(self.sources[source])
        return found and found[1]

    def address(self, call: Call, values: Mapping[str, Value]) -> str:
        """The base address that a call of a request goes to, with the host that one of them names."""
        base_url = self.sources[call.source] if call.source else next(iter(self.sources.values()))
        return _HOST_NAME.sub(lambda found: call.host or str(values[found[1]]), base_url)

    @property
    def hidden_error(self) -> bytes:
        """The part of a body with a good status that makes it an error; empty where errors tell by status."""
        refusals = self.refusals
        if not isinstance(refusals, Refusals) or not refusals.hidden:
            return b""
        return f'"{refusals.code.partition(".")[0]}"'.encode()

    def judge(self, answer: Answer) -> UpstreamError | None:
        """The refusal in an error answer, with the wait that its headers ask for; None leaves it to the fetch."""
        refusal = self.refusals(answer)
        if refusal is None and answer.status == 429:
            refusal = UpstreamThrottled(answer.source)
        if isinstance(refusal, UpstreamThrottled) and refusal.retry_after_s is None:
            return UpstreamThrottled(answer.source, retry_after_s(answer.headers) or self._until_reset_s(answer))
        return refusal

    def _until_reset_s(self, answer: Answer) -> float | None:
        """Return the seconds until a quota is whole again; that means nothing while some of it is left."""
        rest = self.rest
        return rest.wait_s(answer.headers) if isinstance(rest, Remaining) and not rest.left_of(answer.headers) else None


def _needs(endpoint: Endpoint) -> tuple[tuple[str, ...], ...]:
    return (endpoint.needs, *(fallback.needs for fallback in endpoint.fallbacks))


def _with_common(params: tuple[Param, ...], common: tuple[Param, ...]) -> tuple[Param, ...]:
    known = {param.name for param in params}
    return (*params, *(param for param in common if param.name not in known))
