"""Platforms declared as data and pure functions, the basis of routing, validation, prices, catalog and tests.

A platform module defines `PLATFORM = Platform(...)` with one `Endpoint` for each resource. An endpoint's `read` is a
generator that performs no I/O: it yields the calls that it needs, receives their answers, and returns a `Page` or a
`Single`:

    def _profile(args: Args) -> Steps:
        answer = yield Call(f"/users/{segment(args.text('handle'))}")
        return Single(_author(obj(answer.body)))

    Endpoint(resource="profile", summary="One account.", archetype=AUTHOR, read=_profile, params=(HANDLE,))

A yielded tuple of calls runs concurrently, and the generator receives a tuple of answers. If a call marked `optional`
fails, the generator receives a `Missing`, which is falsy. Yielding a `Part` instead of a call runs the read of another
endpoint, including its fallbacks; the generator receives a `Fetched`. The records in the result are made by
`upstreams.model.archetypes`.

A generator runs up to its first call before anything is charged, so it can reject unusable values with
`InvalidArgument` for free. A path that would lead elsewhere, because a value in it is `..` or empty, is rejected at
this point for all platforms (`upstreams.model.paths`).

In addition to `read`, an endpoint may have `fallbacks`, which are other sources of the same data. It may also have
`collect`, which reads page after page until it has `limit` items.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

from upstreams.model.archetypes import Archetype, Record
from upstreams.model.budgets import Budget
from upstreams.model.checking import not_a_day, not_a_link, repeated_names, unknown_names
from upstreams.model.choices import CATEGORIES, TIERS, TTL_S, Category, Kind, Tier
from upstreams.model.errors import PARTNER, DeclarationError, UpstreamError, UpstreamThrottled
from upstreams.model.fields.maps import RecordMap
from upstreams.model.hidden_errors import IsError, if_present
from upstreams.model.loading import PackageLoading
from upstreams.model.params import AddressForm, Args, Credentials, Param, Value
from upstreams.model.paths import Located, Within
from upstreams.model.refusals import Backoff, Judge, Pace, Refusals, Remaining, by_status, retry_after_s
from upstreams.model.roles import CONTRACTS, Role, casting
from upstreams.model.steps import Answer, Call, Headers, Many, SignInSteps, Steps

Read = Callable[[Args], Steps]
PARTNER_MARK = "@"
"""The first character of a source's address that names the interface of a supplier."""
Limit = Pace | Budget
MakeHeaders = Callable[[Credentials], Headers]
_HOST_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Another source that serves an endpoint if the endpoint's own read fails (decisions 9).

    A fallback with its own `read` can use a source with another format. The following pages then come from the same
    source, because its cursors are not valid elsewhere.

    A fallback without a `read` is a mirror. It runs the endpoint's own read, but each call to the platform's first
    source is sent to `source` instead. Its cursors are valid for both sources.
    """

    source: str
    read: Read | None = None
    needs: tuple[str, ...] = ()
    """Credentials that this fallback requires. If one is missing, the fallback is skipped."""


@dataclass(frozen=True, slots=True)
class Collect:
    """How an endpoint collects `limit` items by reading page after page. Each page is billed (spec 4.3, rule 7)."""

    per_page: int
    """The maximum number of items per page. It is passed to the read as its `limit`."""
    spare_pages: int = 4
    """How many pages more than expected a walk may read, because some pages are not full."""


class PriceRange(NamedTuple):
    """The price of an endpoint, from `least` to `most` credits.

    A request needs a balance of at least the minimum for its values. The maximum is reserved. The charge is the amount
    in the result (`Single.credits_used`, `Page.credits_used`), or the minimum if the result contains none.
    """

    least: int
    most: int
    note: str
    """A text that explains how the price is determined."""
    of_values: Callable[[Mapping[str, Value]], tuple[int, int]] | None = None
    """Computes the minimum and the maximum price from the values of a request. None if they are the same for every
    request."""
    is_most_usual: bool = True
    """Whether a request usually costs the maximum, because all its priced parts usually succeed. If not, it usually
    costs the minimum."""

    def span(self, values: Mapping[str, Value]) -> tuple[int, int]:
        """Return the minimum and the maximum price of a request with these values, in credits."""
        return (self.least, self.most) if self.of_values is None else self.of_values(values)


def fixed(credits_: int) -> PriceRange:
    """Return a price that is the same for every request."""
    return PriceRange(credits_, credits_, "One charge per response; less if most of its legs fail.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A resource of a platform: `GET /v1/{platform}/{resource}` (spec 4.1)."""

    resource: str
    summary: str
    archetype: Archetype
    read: Read
    params: tuple[Param, ...] = ()
    tier: Tier = "standard"
    price: PriceRange | None = None
    """The price, for endpoints whose price differs from the price of their tier."""
    one_of: tuple[tuple[str, ...], ...] = ()
    """Groups of alternative parameters. A request must contain exactly one parameter of each group."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Parameters that are known but that no node can support, each with a reason. The reason completes a sentence that
    starts with the parameter's name."""
    located: Located | Within | None = None
    """The subject of the endpoint, for endpoints where a URL can name both the subject and its location."""
    kind: Kind | None = None
    """The kind of response, which determines how long the cache stores it. By default, it follows from archetype and
    resource."""
    description: str = ""
    needs: tuple[str, ...] = ()
    """Credentials that the endpoint requires. If one is missing, the endpoint is hidden and returns 503 without
    Retry-After."""
    own_needs: tuple[str, ...] = ()
    """Credentials that the endpoint's own read requires. If one is missing, the ladder starts at the first fallback
    with its own read, and the endpoint is hidden only if there is none."""
    fallbacks: tuple[Fallback, ...] = ()
    collect: Collect | None = None
    never: tuple[str, ...] = ()
    """Fields that the records never fill, with dots for nested fields: `engagement.views`. Endpoints with a map need
    not list them."""
    record: RecordMap | None = None
    """The field map that reads the records, if there is one."""
    role: Role | None = None
    """The endpoint's role, if it does not follow from archetype and resource (`upstreams.model.roles`)."""
    newest: Mapping[str, Value] | None = None
    """The parameter values that sort a list newest first. None if the endpoint cannot sort this way."""
    many: Many | None = None
    """How to read many records with one call, if the upstream supports that."""
    preview: Callable[[Mapping[str, Value]], Record] | None = None
    """Returns the additional fields of a dry run, computed only from parameter values. Raises InvalidArgument."""
    by_workers: bool = False
    """Whether worker processes read the answers, because this may need much CPU time. If no worker is available, the
    request is not charged."""
    first_sources: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    """The source of the first call for the examples, by the configured credentials, separated by commas. Only the index
    sets it, for endpoints with fallbacks. None if it must be found by running the read."""
    cache_ttl_s: int = 0  # 0: the TTL of the response's kind

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_ttl_s", self.cache_ttl_s or _ttl_s(self))
        if self.located is not None:
            params = self.located.params
            object.__setattr__(self, "params", (*params, *(one for one in self.params if one not in params)))
            object.__setattr__(self, "one_of", self.one_of or self.located.groups)

    def faults(self) -> Iterator[str]:
        """Yield the faults of the declaration. They are checked when the platform is created, not for every copy."""
        names = [param.name for param in self.params]
        yield from repeated_names("parameter", names)
        yield from unknown_names("parameter in `one_of`", (name for group in self.one_of for name in group), names)
        yield from unknown_names("parameter in `newest`", self.newest or (), names)
        yield from unknown_names("role", () if self.role is None else (self.role,), CONTRACTS)
        yield from unknown_names("kind", () if self.kind is None else (self.kind,), TTL_S)
        yield from unknown_names("tier", (self.tier,), TIERS)

    @property
    def streams(self) -> bool:
        """Whether responses can also be streamed as server-sent events, one page or leg at a time."""
        return self.collect is not None or self.archetype.has_legs

    @property
    def named_by(self) -> tuple[str, ...]:
        """The parameters that identify the subject, as alternatives: a request contains one of them."""
        return self.one_of[0] if self.one_of else next(((one.name,) for one in self.params if one.required), ())

    def resolve(self, args: Args) -> Args:
        """Return the arguments for the reads. `Located.resolve` converts a URL among them."""
        return args if self.located is None else self.located.resolve(args)

    def normalize(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the values after `Within.normalize`."""
        return values if self.located is None else self.located.normalize(values)

    @property
    def unfilled(self) -> frozenset[str]:
        """The fields that the records never fill, with dots for nested fields.

        This includes `total` if a list does not report its length.
        """
        return frozenset(self.never) | (frozenset() if self.record is None else self.record.unfilled)

    def canonical(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of a request in canonical form, with the defaults of missing parameters.

        Raises:
            InvalidArgument: A value is not valid.
        """
        sent = ((param, values.get(param.name)) for param in self.params)
        read = {param.name: param.canonical(value) for param, value in sent if isinstance(value, str)}
        return self.with_defaults(self.normalize({**values, **read}))

    def with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return `values` with the defaults of missing parameters added."""
        defaults = {param.name: param.default for param in self.params if param.default is not None}
        return {**defaults, **values}


class Options(TypedDict, total=False):
    """The optional fields of an endpoint, which a declaration may set in addition to the required ones."""

    params: tuple[Param, ...]
    """Additional parameters. The parameters of the call need not be repeated here."""
    tier: Tier
    one_of: tuple[tuple[str, ...], ...]
    located: Located | Within
    kind: Kind
    description: str
    needs: tuple[str, ...]
    own_needs: tuple[str, ...]
    fallbacks: tuple[Fallback, ...]
    never: tuple[str, ...]
    role: Role | None
    newest: Mapping[str, Value]
    many: Many


def _ttl_s(endpoint: Endpoint) -> int:
    """Return how long the cache stores an endpoint's responses, in seconds."""
    kind = endpoint.kind or _kind_of(endpoint)
    if kind not in TTL_S:
        raise DeclarationError(f"endpoint `{endpoint.resource}`: {next(unknown_names('kind', (kind,), TTL_S))}")
    return TTL_S[kind]


def _kind_of(endpoint: Endpoint) -> Kind:
    """Return the response kind of an endpoint whose declaration does not set one.

    It is the kind of its archetype, except that searches are of the kind `search`, unless they search for comments.
    """
    kind = endpoint.archetype.kind
    return "search" if kind != "comments" and endpoint.resource.split("/", 1)[0] == "search" else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """An upstream platform.

    A platform with sources also has a category, `docs_url`, `terms_url` and `checked_on`.

    Raises:
        DeclarationError: The declaration is faulty.
    """

    slug: str
    title: str
    sources: Mapping[str, str]
    """Base addresses by source name.

    An address may contain the name of a `Host` parameter, as in `https://{instance}/api`. Each call then goes to the
    host that the call or the request names (`Call.host`). The address `@name` is a supplier with this interface
    (`upstreams.suppliers`); endpoints that call such a source need the source's name as a credential. The mapping is
    empty for a platform whose endpoints only combine parts.
    """
    endpoints: tuple[Endpoint, ...]
    category: Category = "combined"
    docs_url: str = ""
    """The URL of the platform's own documentation of the interfaces that are read."""
    terms_url: str = ""
    """The URL of the terms that apply to these interfaces. Empty for `open_web`, because every site has its own."""
    checked_on: str = ""
    """The day on which the declaration was last compared with the platform's documentation or a live response, for
    example "2026-11-28"."""
    maintainer: str = ""
    """The person or team that maintains the declaration. Empty if it is everyone's."""
    social: bool = False
    common: tuple[Param, ...] = ()
    """Parameters that every endpoint of the platform accepts."""
    credentials: tuple[str, ...] = ()
    """Credentials that the platform can use. Those that its endpoints and fallbacks require are added automatically."""
    headers: MakeHeaders | Mapping[str, MakeHeaders] = lambda _credentials: ()
    """Returns the headers that contain credentials. They are sent to the host of the first source with a fixed host. A
    mapping has a function for each source that receives such headers, by source name."""
    refusals: Judge = by_status
    """Classifies an answer with a status of 400 or above. If it returns None, the fetch treats 429 as throttling and
    other answers as failures."""
    rest: Callable[[Answer], Backoff | None] = lambda _answer: None
    """Returns the pause that a successful answer makes necessary: its quota is exhausted, or it contains Stack
    Exchange's `backoff`."""
    pace: Limit | tuple[Limit, ...] | None = None
    """The rate of calls that each source accepts, the budget of units that sources share, or several of these."""
    method_of: Callable[[str], str] = lambda _path: ""
    """Returns the name of the method that a path calls, for upstreams that count calls per method, and otherwise ""."""
    open_session: SignInSteps | None = None
    """How to sign in, for calls that need a session."""
    sessions: Mapping[str, SignInSteps] = field(default_factory=dict)
    """How to sign in to the sources that have their own sessions, by source name."""
    shares_session: bool = False
    """Whether all nodes share one session, for upstreams that limit sign-ins."""
    revalidates: tuple[str, ...] | None = None
    """Credentials with which an unchanged answer (304) does not count against the quota. None if it always counts."""
    source_needs: Mapping[str, str] = field(default_factory=dict)
    """The credential that all calls to a source require, by source name."""
    open_web: bool = False
    """Whether callers pass URLs of web pages. Then http and the ports 80, 443, 8080 and 8443 are allowed, and bodies
    may be up to 10 MB long."""
    hosts: tuple[str, ...] = ()
    """The hosts of the platform's URLs. Their subdomains are included. Hosts that callers name need not be listed."""
    address_forms: tuple[AddressForm, ...] = ()
    """URL forms that contain several values, which the `forms` of a single parameter cannot describe."""
    loading: PackageLoading[Platform] | None = field(default=None, repr=False, compare=False)
    """Loads the functions, for a platform that was read from the index. None if the platform has them already."""
    _endpoint_of_role: Mapping[Role, Endpoint] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needed = [name for one in self.endpoints for needs in _needs(one) for all_ in needs for name in all_.split("|")]
        settable = (name for name in (*self.credentials, *needed) if name not in self.partners)
        object.__setattr__(self, "credentials", tuple(dict.fromkeys(settable)))
        if self.common:
            endpoints = (replace(one, params=_with_common(one.params, self.common)) for one in self.endpoints)
            object.__setattr__(self, "endpoints", tuple(endpoints))
        if faults := [*self._faults(), *self._faults_of_endpoints()]:
            raise DeclarationError("\n".join(f"platform `{self.slug}`: {fault}" for fault in faults))
        object.__setattr__(self, "_endpoint_of_role", casting(self.endpoints))

    def _faults(self) -> Iterator[str]:
        resources = [one.resource for one in self.endpoints]
        yield from repeated_names("endpoint", resources)
        yield from unknown_names("category", (self.category,), CATEGORIES)
        yield from unknown_names("source in `source_needs`", self.source_needs, self.sources)
        yield from self._faults_of_limits()
        yield from self._faults_of_secrets("headers", self.headers if isinstance(self.headers, Mapping) else ())
        yield from self._faults_of_secrets("sessions", self.sessions)
        yield from unknown_names("endpoint in `address_forms`", (one.resource for one in self.address_forms), resources)
        if bool(self.sources) is (self.category == "combined"):
            yield "`category` must be `combined` if there are no `sources`, and another category if there are any"
        yield from self._faults_of_partners()
        if self.sources:
            yield from not_a_link("docs_url", self.docs_url)
            yield from () if self.open_web else not_a_link("terms_url", self.terms_url)
            yield from not_a_day("checked_on", self.checked_on)

    def _faults_of_partners(self) -> Iterator[str]:
        """Yield faults of sources at suppliers. Their names must be shown to customers, and are their credentials."""
        for name in self.partners:
            if name.partition("-")[0] != PARTNER:
                yield f"the source `{name}` is at a supplier, so its name must be `{PARTNER}` or `{PARTNER}-...`"
        first = next(iter(self.partners), "") if next(iter(self.sources), "") in self.partners else ""
        for one in self.endpoints:
            if first and first not in (*one.needs, *one.own_needs):
                yield f"endpoint `{one.resource}`: its source is at a supplier, so `needs` must contain `{first}`"
            for each in one.fallbacks:
                if each.source in self.partners and each.source not in each.needs:
                    yield f"endpoint `{one.resource}`: `needs` of the fallback `{each.source}` must contain its name"

    def _faults_of_limits(self) -> Iterator[str]:
        for limit in self.limits:
            yield from unknown_names("source in `pace`", limit.sources, self.sources)
            if isinstance(limit, Budget):
                # The faults of a platform in the index were found when its package was imported.
                yield from limit.faults() if self.loading is None else ()
                named = (name for name in limit.sources if name in self.sources and self.host_of(name) is not None)
                yield from (
                    f"`Budget` cannot apply to `{name}`, whose hosts callers name; use `Pace`" for name in named
                )

    def _faults_of_secrets(self, field: str, sources: Iterable[str]) -> Iterator[str]:
        yield from unknown_names(f"source in `{field}`", sources, self.sources)
        for name in sources:
            if name in self.partners:
                yield f"source `{name}` in `{field}` is at a supplier, which never receives the platform's credentials"
            elif name in self.sources and self.host_of(name) is not None:
                yield f"source `{name}` in `{field}` is at hosts that callers name, which never receive credentials"

    def _faults_of_endpoints(self) -> Iterator[str]:
        for one in self.endpoints:
            sources = unknown_names("source in `fallbacks`", (each.source for each in one.fallbacks), self.sources)
            yield from (f"endpoint `{one.resource}`: {fault}" for fault in (*one.faults(), *sources))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The rates and budgets."""
        return self.pace if isinstance(self.pace, tuple) else () if self.pace is None else (self.pace,)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, which sources share."""
        return tuple(limit for limit in self.limits if isinstance(limit, Budget))

    def paces_of(self, source: str) -> tuple[Pace, ...]:
        """Return the rates that apply to a source."""
        return tuple(limit for limit in self.limits if isinstance(limit, Pace) and limit.of(source))

    def playing(self, role: Role) -> Endpoint | None:
        """Return the platform's endpoint for a role, or None if it has none."""
        return self._endpoint_of_role.get(role)

    def sign_in_of(self, source: str) -> SignInSteps | None:
        """Return how to sign in for calls to a source, or None if it has no sessions."""
        return self.sessions.get(source or next(iter(self.sources), ""), self.open_session)

    def host_of(self, source: str) -> str | None:
        """Return the name of the parameter in a source's address, or None if the host is fixed."""
        found = _HOST_NAME.search(self.sources[source])
        return found and found[1]

    def has_fixed_host(self, source: str) -> bool:
        """Return whether the declaration contains the source's host.

        The other sources are those at hosts that callers name, at a host in the operator's settings, or at a supplier.
        """
        return self.host_of(source) is None and not self.sources[source].startswith(("$", PARTNER_MARK))

    @property
    def partners(self) -> Mapping[str, str]:
        """The names of the interfaces of suppliers, by source name."""
        return {name: address[1:] for name, address in self.sources.items() if address.startswith(PARTNER_MARK)}

    def address(self, call: Call, values: Mapping[str, Value]) -> str:
        """Return the base address for a call, with the host that the call or the request names."""
        base_url = self.sources[call.source] if call.source else next(iter(self.sources.values()))
        return _HOST_NAME.sub(lambda found: call.host or str(values[found[1]]), base_url)

    @property
    def hidden_error(self) -> IsError | None:
        """The test for errors with a success status. None if errors always have an error status."""
        refusals = self.refusals
        if not isinstance(refusals, Refusals) or not refusals.hidden:
            return None
        return if_present(refusals.code.partition(".")[0])

    def judge(self, answer: Answer) -> UpstreamError | None:
        """Return the refusal that an error answer expresses, with the wait from its headers.

        If it is None, the fetch decides.
        """
        refusal = self.refusals(answer)
        if refusal is None and answer.status == 429:
            refusal = UpstreamThrottled(answer.source)
        if isinstance(refusal, UpstreamThrottled) and refusal.retry_after_s is None:
            return UpstreamThrottled(answer.source, retry_after_s(answer.headers) or self._until_reset_s(answer))
        return refusal

    def _until_reset_s(self, answer: Answer) -> float | None:
        """Return the seconds until an exhausted quota resets, or None if calls are left."""
        rest = self.rest
        return rest.wait_s(answer.headers) if isinstance(rest, Remaining) and not rest.left_of(answer.headers) else None


def _needs(endpoint: Endpoint) -> tuple[tuple[str, ...], ...]:
    return (endpoint.needs, endpoint.own_needs, *(fallback.needs for fallback in endpoint.fallbacks))


def _with_common(params: tuple[Param, ...], common: tuple[Param, ...]) -> tuple[Param, ...]:
    known = {param.name for param in params}
    return (*params, *(param for param in common if param.name not in known))
