"""One platform on this node: its sources, its credentials and, if it needs one, its signed-in session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import overload
from urllib.parse import urlencode, urlsplit

import orjson
import trio

from limits.errors import LimitError
from limits.quick_tuples import quick
from upstreams.fetching.aside import Aside
from upstreams.fetching.hosts import NamedSource
from upstreams.fetching.sessions import Sessions, SharedSession
from upstreams.fetching.source import Source
from upstreams.fetching.suppliers import PartnerSource
from upstreams.model.adopting import adopt_functions, has_later
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.errors import (
    InvalidArgument,
    NotFound,
    OtherSoftware,
    PartUnavailable,
    TargetRefused,
    UpstreamError,
    UpstreamFailed,
)
from upstreams.model.params import Args, Credentials
from upstreams.model.steps import Answer, Call, Form, Headers, Missing, Part, Round, SignInSteps, Task, Wanted, pairs_of
from upstreams.transport.http import HttpCall
from upstreams.workers.pool import ProcessPool

AnySource = Source | NamedSource | PartnerSource
ShareSession = Callable[[str, SignInSteps], SharedSession | None]
"""Returns the store of a session that all nodes share; None if each node signs in. The text is the source that has its
own session, or empty for the session of the platform."""
_http_call = quick(HttpCall)


class Site:
    """Makes the calls that a platform's reads request."""

    def __init__(
        self,
        platform: Platform,
        sources: Mapping[str, AnySource],
        *,
        credentials: Credentials,
        user_agent: str,
        aside: Aside | None = None,
        workers: ProcessPool | None = None,
        others: Mapping[str, Site] | None = None,
        share_session: ShareSession = lambda _source, _sign_in: None,
    ) -> None:
        """`others` are the platforms of this node by slug, for parts of composites."""
        self.platform = platform
        self.aside = aside or Aside()
        self.workers = workers or ProcessPool()
        self.sources = sources
        self.credentials = credentials
        self.fallbacks = self._usable_fallbacks()
        """The usable fallbacks of each endpoint by its resource, each with its position, starting at 1."""
        rungs = ((one.resource, self._first_rung(one)) for one in platform.endpoints if one.own_needs)
        self.starts = {resource: rung for resource, rung in rungs if rung}
        """The fallbacks that serve endpoints instead of their own source, which lacks a credential, by resource."""
        self.others = {} if others is None else others
        self._first_name = next(iter(sources), platform.slug)
        self.has_hosts = any(isinstance(source, NamedSource) for source in sources.values())
        """Whether callers name the hosts of one of the platform's sources."""
        self.partners = {name: source for name, source in sources.items() if isinstance(source, PartnerSource)}
        """The sources at suppliers, by name."""
        self._fixed_headers = (("user-agent", user_agent), ("accept", "application/json"))
        self._headers: Mapping[str, Headers] = {}
        self._share_session = share_session
        self._sessions: dict[str, Sessions] = {}
        if not has_later(platform.headers):
            self._headers = self._all_headers()
        if platform.loading is not None:
            platform.loading.then(self._adopt)

    def _adopt(self, loaded: Platform) -> None:
        """Take over the functions of the platform when its package is loaded, before its first call."""
        adopt_functions(self.platform, loaded)
        self.fallbacks, self._headers = self._usable_fallbacks(), self._all_headers()
        for source in self.sources.values():
            if isinstance(source, Source):
                source.adopt(backoff=self.platform.rest, method_of=self.platform.method_of)

    def _usable_fallbacks(self) -> dict[str, tuple[tuple[int, Fallback], ...]]:
        return {one.resource: self._fallbacks_of(one) for one in self.platform.endpoints}

    def _all_headers(self) -> dict[str, Headers]:
        platform, credentials, fixed = self.platform, self.credentials, self._fixed_headers
        return {name: _headers_to(name, platform, credentials, fixed) for name in self.sources}

    def _sessions_of(self, source: str) -> Sessions:
        """Return the sessions for calls to a source, which are created for the first such call."""
        owner = source if source in self.platform.sessions else ""
        if owner not in self._sessions:
            sign_in = self.platform.sign_in_of(source)
            assert sign_in is not None, "an endpoint needs a session that its platform cannot open"
            shared, call = self._share_session(owner, sign_in), partial(self._ask, waits=True)
            self._sessions[owner] = Sessions(self.platform.slug, sign_in, self.credentials, call, shared=shared)
        return self._sessions[owner]

    def configured_sources(self) -> Mapping[str, AnySource]:
        """Return the sources that can be called with the configured credentials, by name."""
        needs = self.platform.source_needs
        return {name: source for name, source in self.sources.items() if needs.get(name) in (None, *self.credentials)}

    def offers(self, one: Endpoint | Fallback) -> bool:
        """Return whether the required credentials are configured. Of names separated by a bar, any one is enough."""
        return not self.lacks(one)

    def lacks(self, one: Endpoint | Fallback) -> list[str]:
        """Return the required credentials that are not configured.

        An endpoint without its own credentials is available if one of its fallbacks can start without it.
        """
        lacking = self._missing(one.needs)
        if lacking or isinstance(one, Fallback) or not one.own_needs or self._first_rung(one) is not None:
            return lacking
        return self._missing(one.own_needs)

    def _missing(self, needs: tuple[str, ...]) -> list[str]:
        return [name for name in needs if not any(map(self.credentials.__contains__, name.split("|")))]

    def _first_rung(self, endpoint: Endpoint) -> int | None:
        """Return where the endpoint's ladder starts on this node: 0 for its own source, otherwise a fallback."""
        if not self._missing(endpoint.own_needs):
            return 0
        return next((rung for rung, one in self._fallbacks_of(endpoint) if one.read is not None), None)

    def offering(self, part: Part) -> tuple[Site, Endpoint]:
        """Return the site and the endpoint of a composite's part.

        Raises:
            PartUnavailable: This node does not serve the part.
        """
        there = self.others.get(part.platform) if part.platform else self
        if there is None:
            raise PartUnavailable(part.platform, "the platform is not served by this node")
        endpoint = next(one for one in there.platform.endpoints if one.resource == part.resource)
        if not there.offers(endpoint):
            raise PartUnavailable(there.platform.slug, "a required credential is not configured")
        return there, endpoint

    def _fallbacks_of(self, endpoint: Endpoint) -> tuple[tuple[int, Fallback], ...]:
        return tuple(one for one in enumerate(endpoint.fallbacks, 1) if self.offers(one[1]))

    def source_name(self, name: str) -> str:
        """Return the full name of the source that a call names; an empty name means the first source."""
        return name or self._first_name

    def named(self, wanted: Wanted, args: Args) -> Wanted:
        """Return the same calls with the hosts that the request names, after checking each host.

        Raises:
            InvalidArgument: A host cannot be called. For an optional call, the error is raised only if the host is not
                clearly public.
        """
        if isinstance(wanted, tuple):
            return tuple(self._named(one, args) for one in wanted)
        return wanted if isinstance(wanted, Round | Task) else self._named(wanted, args)

    @overload
    def _named(self, wanted: Call, args: Args, *, is_first: bool = True) -> Call: ...
    @overload
    def _named(self, wanted: Part, args: Args, *, is_first: bool = True) -> Part: ...
    def _named(self, wanted: Call | Part, args: Args, *, is_first: bool = True) -> Call | Part:
        source = self.sources[self.source_name(wanted.source)] if isinstance(wanted, Call) else None
        if not isinstance(wanted, Call) or not isinstance(source, NamedSource):
            return wanted
        host = wanted.host or source.host(args.text(source.param))
        try:
            return replace(wanted, host=source.checked(host, args.account_id))
        except TargetRefused as exc:
            if is_first and wanted.optional and exc.reason == "software":
                return wanted  # the answer to this call will report the problem
            begins = "cursor" if args.cursor else source.param
            culprit = _culprit(source, host, args) or (begins if is_first else None)
            raise _refused(source, culprit, exc) from exc

    async def call_named(self, call: Call, deadline_at: float, *, args: Args, waits: bool) -> Answer | Missing:
        """Like `call`, for a host that a caller names.

        If the host cannot be called, an optional call returns `Missing`.

        Raises:
            InvalidArgument: The host cannot be called.
            UpstreamFailed: The host cannot be called, and an answer named it.
        """
        try:
            call = self._named(call, args, is_first=False)
        except (InvalidArgument, UpstreamFailed) as failure:
            if not call.optional:
                raise
            return Missing(str(failure), self.source_name(call.source), failure=failure)
        try:
            answer = await self.call(call, deadline_at, waits=waits, account_id=args.account_id)
        except TargetRefused as exc:
            raise self._refusal_of(call, exc, args) from exc
        if isinstance(answer, Missing) and isinstance(answer.failure, TargetRefused):
            return replace(answer, failure=self._refusal_of(call, answer.failure, args))
        return answer

    def _refusal_of(self, call: Call, refusal: TargetRefused, args: Args) -> UpstreamError:
        source = self.sources[self.source_name(call.source)]
        assert isinstance(source, NamedSource), "only a host that a caller names is refused"
        return _refused(source, _culprit(source, call.host, args), refusal)

    def call(
        self, call: Call, deadline_at: float, *, waits: bool = True, account_id: str = ""
    ) -> Awaitable[Answer | Missing]:
        """Return the answer to one call by `deadline_at` on Trio's clock.

        An optional call that fails returns a `Missing`.

        With `waits`, wait if the source requested a pause. A long answer is parsed when it is the account's turn.
        """
        ask = self._answer_signed if call.needs_session else self._ask
        if call.optional:
            return self._or_missing(call, ask(call, deadline_at, waits, account_id))
        return ask(call, deadline_at, waits, account_id)

    def run_task(self, task: Task, deadline_at: float, *, account_id: str) -> Awaitable[Answer]:
        """Run a task of a read in a worker process, like `ProcessPool.run`.

        Its failures name the platform as their source.
        """
        return self.workers.run(task, deadline_at, source=self.platform.slug, account_id=account_id)

    async def _or_missing(self, call: Call, answering: Awaitable[Answer]) -> Answer | Missing:
        started = trio.current_time()
        try:
            return await answering
        except (UpstreamError, LimitError) as failure:
            took_s, source = trio.current_time() - started, self.source_name(call.source)
            return Missing(str(failure), source, took_s, isinstance(failure, NotFound), failure)

    def _ask(
        self,
        call: Call,
        deadline_at: float,
        waits: bool,  # noqa: FBT001 - positional, because it costs less
        account_id: str = "",
        signature: Headers = (),
        *,
        renewable: bool = False,
    ) -> Awaitable[Answer]:
        name = call.source or self._first_name
        found, headers, body = self.sources[name], self._headers[name], b""
        source = found if isinstance(found, Source) else found.source_at(call.host)
        if isinstance(call.accepts, Form):
            own = {"accept", *(name for name, _ in call.headers)}
            headers = (*(one for one in headers if one[0] not in own), ("accept", call.accepts.media_types))
        if call.headers or signature:
            headers = (*headers, *call.headers, *signature)
        if call.method == "POST":
            headers, body = _with_body(call, headers)
        request = _http_call((call.method, source.origin, call.target(source.base_path), headers, body))
        if found is not source:
            assert not isinstance(found, Source)
            return found.ask(request, deadline_at, call, waits=waits, account_id=account_id)
        return source.ask(
            request,
            deadline_at,
            accepts=call.accepts,
            waits=waits,
            again=call.only_reads,
            account_id=account_id,
            renewable=renewable,
        )

    async def _answer_signed(
        self,
        call: Call,
        deadline_at: float,
        waits: bool,  # noqa: FBT001 - like `_ask`
        account_id: str,
    ) -> Answer:
        """Return the answer to a call that uses the session. An expired session is renewed once within the call."""
        started = trio.current_time()
        sessions = self._sessions_of(self.source_name(call.source))
        signed = await sessions.signed_in(deadline_at)
        renewable = sessions.may_renew()
        try:
            answer = await self._ask(call, deadline_at, waits, account_id, signed.session.headers, renewable=renewable)
        except UpstreamError as failure:
            if not (failure.session_expired and sessions.refuse(signed)):
                raise
            signed = await sessions.signed_in(deadline_at)
            answer = await self._ask(call, deadline_at, waits, account_id, signed.session.headers)
        return answer._replace(took_s=trio.current_time() - started)


def _culprit(source: NamedSource, host: str, args: Args) -> str | None:
    """Return the parameter that names a host; None if an answer named the host.

    This is the parameter whose value is a URL at the host, the source's own parameter, or a parameter whose value
    contains the host.
    """
    texts = {name: value for name, value in args.values.items() if isinstance(value, str)}
    at_it = (name for name, text in texts.items() if text.startswith(f"{host}/"))
    is_own = source.host(texts.get(source.param, "")) == host
    holding = (name for name, text in texts.items() if host in text.lower())
    return next(at_it, None) or (source.param if is_own else next(holding, None))


def _refused(source: NamedSource, culprit: str | None, refusal: TargetRefused) -> UpstreamError:
    """Return the refusal of a host. If an answer named the host, it is a failure of the upstream."""
    if culprit is None:
        return UpstreamFailed(source.name, f"a response leads to a host that cannot be called: {refusal}")
    return (OtherSoftware if refusal.reason == "software" else InvalidArgument)(culprit, str(refusal))


def _with_body(call: Call, headers: Headers) -> tuple[Headers, bytes]:
    """Return the headers and the body for a call."""
    if call.form is not None:
        form = urlencode(pairs_of(call.form)).encode()
        return (*headers, ("content-type", "application/x-www-form-urlencoded")), form
    if call.json is not None:
        return (*headers, ("content-type", "application/json")), orjson.dumps(call.json)
    return headers, b""


def _headers_to(name: str, platform: Platform, credentials: Credentials, fixed: Headers) -> Headers:
    """Return the headers for one source.

    The platform's own headers contain secrets. They are sent to the sources for which the platform declares them, or
    otherwise only to the host of the platform's first source with a fixed host, which is never a supplier's.
    """
    if isinstance(platform.headers, Mapping):
        make = platform.headers.get(name)
        return fixed if make is None else _joined(fixed, make(credentials))
    fixed_sources = (source for source in platform.sources if platform.has_fixed_host(source))
    hosts = {source: urlsplit(platform.sources[source]).netloc for source in fixed_sources}
    if name not in hosts or hosts[name] != next(iter(hosts.values())):
        return fixed
    return _joined(fixed, platform.headers(credentials))


def _joined(fixed: Headers, own: Headers) -> Headers:
    named = {header for header, _ in own}
    return (*(pair for pair in fixed if pair[0] not in named), *own)
