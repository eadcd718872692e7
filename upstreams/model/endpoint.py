"""Platforms declared as data and pure functions, used for routing, validation, prices, the catalog and tests.

A platform module defines `PLATFORM = Platform(...)` with one `Endpoint` for each resource. An endpoint's `read` is a
generator that performs no I/O: it yields the calls that it needs, receives their answers, and returns a `Page` or a
`Single`:

    def _profile(args: Args) -> Steps:
        answer = yield Call(f"/users/{segment(args.text('handle'))}")
        return Single(_author(obj(answer.body)))

A yielded tuple of calls runs concurrently, and the generator receives a tuple of answers. If a call marked `optional`
fails, the generator receives a `Missing`, which is falsy. Yielding a `Part` instead of a call runs the read of another
endpoint, including its fallbacks; the generator receives a `Fetched`. The records in the result are made by
`upstreams.model.archetypes`.

A generator runs up to its first call before anything is charged, so it can reject unusable values with
`InvalidArgument` for free. A path that would lead elsewhere, because a value in it is `..` or empty, is rejected at
this point for all platforms (`upstreams.model.paths`).

In addition to `read`, an endpoint may have `fallbacks`, which are other sources of the same data, and `collect`, which
reads page after page until it has `limit` items.
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
"""The cache TTL of each kind of response, in seconds (decisions 8)."""
Read = Callable[[Args], Steps]
_HOST_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fallback:
    """Another source for an endpoint, used when the endpoint's own read fails (decisions 9).

    A fallback with its own `read` can use a source with another format. The following pages come from the same source,
    because its cursors are not valid elsewhere. A fallback without `read` is a mirror: it runs the endpoint's own read,
    but sends every call for the platform's first source to `source`. Its cursors are valid for both.
    """

    source: str
    read: Read | None = None
    needs: tuple[str, ...] = ()
    """Credentials that this fallback requires. It is skipped if one is missing."""


@dataclass(frozen=True, slots=True)
class Collect:
    """How an endpoint collects `limit` items page by page; each page is billed (spec 4.3, rule 7)."""

    per_page: int
    """The maximum number of items per read, passed to the read as its `limit`."""
    spare_pages: int = 4
    """Additional pages that a walk may read, because some pages are not full."""


class PriceRange(NamedTuple):
    """The price of an endpoint, from `least` to `most` credits.

    A request is accepted if the account has the least that its values can cost, and reserves the most. It is charged
    the amount in its result (`Single.credits_used`, `Page.credits_used`), or the least if the result has none.
    """

    least: int
    most: int
    note: str
    """One sentence that explains how the price is computed."""
    of_values: Callable[[Mapping[str, Value]], tuple[int, int]] | None = None
    """Computes the least and the most credits from the values of a request; None if they are the same for all requests.
    """
    is_most_usual: bool = True
    """Whether a request usually costs the most, because all its priced parts usually succeed. Otherwise it usually
    costs the least."""

    def span(self, values: Mapping[str, Value]) -> tuple[int, int]:
        """Return the least and the most that a request with these values costs."""
        return (self.least, self.most) if self.of_values is None else self.of_values(values)


def fixed(credits_: int) -> PriceRange:
    """Return a price that is the same for all requests."""
    return PriceRange(credits_, credits_, "One charge per response; less if most of its legs fail.")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A resource of a platform: `GET /v1/{platform}/{resource}` (spec 4.1)."""

    resource: str
    summary: str
    archetype: Archetype
    read: Read
    params: tuple[Param, ...] = ()
    tier: Tier = "standard"
    price: PriceRange | None = None
    """The price, if it differs from the tier's price."""
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters. A request must have exactly one parameter of each group."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Known parameters that no node can support. Each has a reason, which completes a sentence that starts with its
    name."""
    located: Located | Within | None = None
    """The subject of the endpoint, if a URL can name both the subject and its location."""
    kind: Kind | None = None
    """The kind, which determines how long responses are cached. By default it is derived from the archetype and the
    resource."""
    description: str = ""
    needs: tuple[str, ...] = ()
    """Credentials that the endpoint requires. If one is missing, the endpoint is hidden and answers 503 without
    Retry-After."""
    fallbacks: tuple[Fallback, ...] = ()
    collect: Collect | None = None
    never: tuple[str, ...] = ()
    """Fields that the records never fill, with dots for nested fields: `engagement.views`. A map determines its
    unfilled fields itself."""
    record: RecordMap | None = None
    """The field map of the records, if they are read with one."""
    role: Role | None = None
    """The endpoint's role, if it cannot be derived from archetype and resource (`upstreams.model.roles`)."""
    newest: Mapping[str, Value] | None = None
    """The parameter values that list the newest items first; None if the endpoint cannot do that."""
    many: Many | None = None
    """How the upstream returns many records for one call."""
    preview: Callable[[Mapping[str, Value]], Record] | None = None
    """Builds the additional fields of a dry run from the parameter values alone. Raises InvalidArgument."""
    by_workers: bool = False
    """Whether worker processes read the answers, because they may need much CPU time. A request is free if no worker is
    available."""
    cache_ttl_s: int = 0  # 0: the TTL of the kind

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_ttl_s", self.cache_ttl_s or TTL_S[self.kind or _kind_of(self)])
        if self.located is not None:
            params = self.located.params
            object.__setattr__(self, "params", (*params, *(one for one in self.params if one not in params)))
            object.__setattr__(self, "one_of", self.one_of or self.located.groups)

    @property
    def streams(self) -> bool:
        """Whether responses are also available as server-sent events: page by page, or leg by leg."""
        return self.collect is not None or self.archetype.has_legs

    @property
    def named_by(self) -> tuple[str, ...]:
        """The parameters that identify the subject. One of them must be sent."""
        return self.one_of[0] if self.one_of else next(((one.name,) for one in self.params if one.required), ())

    def resolve(self, args: Args) -> Args:
        """Return the arguments for the reads; a URL among them is resolved by `Located.resolve`."""
        return args if self.located is None else self.located.resolve(args)

    def normalize(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the values as normalized by `Within.normalize`."""
        return values if self.located is None else self.located.normalize(values)

    @property
    def unfilled(self) -> frozenset[str]:
        """The fields that the records never fill, with dots for nested fields.

        It includes `total` if a list does not report its length.
        """
        return frozenset(self.never) | (frozenset() if self.record is None else self.record.unfilled)

    def canonical(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of a request in canonical form, with the parameters' defaults added.

        Raises:
            InvalidArgument: A value cannot be parsed.
        """
        sent = ((param, values.get(param.name)) for param in self.params)
        read = {param.name: param.canonical(value) for param, value in sent if isinstance(value, str)}
        return self.with_defaults(self.normalize({**values, **read}))

    def with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return `values` with the parameters' defaults added."""
        defaults = {param.name: param.default for param in self.params if param.default is not None}
        return {**defaults, **values}


class Options(TypedDict, total=False):
    """The fields of an endpoint that a declaration may set in addition to the required ones."""

    params: tuple[Param, ...]
    """Further parameters; the parameters of the call are added automatically."""
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
    """Return the kind of an endpoint that does not declare one."""
    if endpoint.archetype.name == "Author":
        return "profile"
    if endpoint.archetype.name == "CommentList":
        return "comments"
    return "search" if endpoint.resource.split("/", 1)[0] == "search" else "post"


@dataclass(frozen=True, slots=True)
class Platform:
    """An upstream platform. `sources` maps source names to the base addresses that it is read from."""

    slug: str
    title: str
    sources: Mapping[str, str]
    """Base addresses by source name.

    An address may contain the name of a `Host` parameter, as in `https://{instance}/api`. Each call then goes to the
    host in the request, or to the call's own host (`Call.host`). The mapping is empty for composites that consist only
    of parts.
    """
    endpoints: tuple[Endpoint, ...]
    docs_url: str
    social: bool = False
    common: tuple[Param, ...] = ()
    """Parameters that every endpoint accepts."""
    credentials: tuple[str, ...] = ()
    """Credentials that the platform can use. Credentials required by endpoints and fallbacks are added automatically.
    """
    headers: Callable[[Credentials], tuple[tuple[str, str], ...]] = lambda _credentials: ()
    refusals: Judge = by_status
    """Classifies an answer with status 400 or above. If it returns None, the fetch treats the answer as throttled or
    failed."""
    rest: Callable[[Answer], Backoff | None] = lambda _answer: None
    """Returns the pause that a successful answer requires, because of an exhausted quota or the `backoff` of Stack
    Exchange."""
    pace: Pace | None = None
    """The call rate that each source accepts."""
    method_of: Callable[[str], str] = lambda _path: ""
    """Returns the name of the upstream method for a path if the upstream counts each method separately, else ""."""
    open_session: Callable[[Credentials], SessionSteps] | None = None
    shares_session: bool = False
    """Whether all nodes share one session, because the upstream limits sign-ins."""
    revalidates: tuple[str, ...] | None = None
    """Credentials with which an unchanged answer (304) does not count against the quota. None if it always counts."""
    source_needs: Mapping[str, str] = field(default_factory=dict)
    """For each source whose calls all require a credential: the name of that credential."""
    open_web: bool = False
    """Whether callers pass URLs of web pages: http is allowed, as are ports 80, 443, 8080 and 8443, and bodies up to 10
    MB."""
    hosts: tuple[str, ...] = ()
    """The hosts of the platform's URLs, including subdomains. Hosts that callers name need not be listed."""
    address_forms: tuple[AddressForm, ...] = ()
    """URL forms that hold several values, which the `forms` of a parameter cannot express."""
    _endpoint_of_role: Mapping[Role, Endpoint] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needed = [name for one in self.endpoints for needs in _needs(one) for all_ in needs for name in all_.split("|")]
        object.__setattr__(self, "credentials", tuple(dict.fromkeys((*self.credentials, *needed))))
        if self.common:
            endpoints = (replace(one, params=_with_common(one.params, self.common)) for one in self.endpoints)
            object.__setattr__(self, "endpoints", tuple(endpoints))
        object.__setattr__(self, "_endpoint_of_role", casting(self.endpoints))

    def playing(self, role: Role) -> Endpoint | None:
        """Return the endpoint with this role on the platform."""
        return self._endpoint_of_role.get(role)

    def host_of(self, source: str) -> str | None:
        """Return the name of the parameter in a source's address; None if the host is fixed."""
        found = _HOST_NAME.search(self.sources[source])
        return found and found[1]

    def address(self, call: Call, values: Mapping[str, Value]) -> str:
        """Return the base address for a call, with the host from the call or from the request."""
        base_url = self.sources[call.source] if call.source else next(iter(self.sources.values()))
        return _HOST_NAME.sub(lambda found: call.host or str(values[found[1]]), base_url)

    @property
    def hidden_error(self) -> bytes:
        """The JSON member that marks a body with status 200 as an error; empty if errors have an error status."""
        refusals = self.refusals
        if not isinstance(refusals, Refusals) or not refusals.hidden:
            return b""
        return f'"{refusals.code.partition(".")[0]}"'.encode()

    def judge(self, answer: Answer) -> UpstreamError | None:
        """Return the refusal that an error answer means, with the wait from its headers. If None, the fetch decides."""
        refusal = self.refusals(answer)
        if refusal is None and answer.status == 429:
            refusal = UpstreamThrottled(answer.source)
        if isinstance(refusal, UpstreamThrottled) and refusal.retry_after_s is None:
            return UpstreamThrottled(answer.source, retry_after_s(answer.headers) or self._until_reset_s(answer))
        return refusal

    def _until_reset_s(self, answer: Answer) -> float | None:
        """Return the seconds until an exhausted quota resets; None while calls are left."""
        rest = self.rest
        return rest.wait_s(answer.headers) if isinstance(rest, Remaining) and not rest.left_of(answer.headers) else None


def _needs(endpoint: Endpoint) -> tuple[tuple[str, ...], ...]:
    return (endpoint.needs, *(fallback.needs for fallback in endpoint.fallbacks))


def _with_common(params: tuple[Param, ...], common: tuple[Param, ...]) -> tuple[Param, ...]:
    known = {param.name for param in params}
    return (*params, *(param for param in common if param.name not in known))
