"""One platform as this node runs it: its sources, its credentials and, where it wants one, its signed-in session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import trio

from limits.errors import LimitError
from upstreams.endpoint import Answer, Call, Credentials, Endpoint, Missing, Platform, Session
from upstreams.errors import UpstreamError, UpstreamFailed
from upstreams.source import Asking, Source

_SESSION_MARGIN_S = 30.0


class Site:
    """Makes the calls that a platform's reads ask for."""

    def __init__(
        self, platform: Platform, sources: Mapping[str, Source], *, credentials: Credentials, user_agent: str
    ) -> None:
        self.platform = platform
        self.sources = sources
        self.credentials = credentials
        self._first = next(iter(sources.values()))
        own = platform.headers(credentials)
        named = {name for name, _ in own}
        fixed = (("user-agent", user_agent), ("accept", "application/json"))
        self._headers = (*(pair for pair in fixed if pair[0] not in named), *own)
        self._session: tuple[Session, float] | None = None
        self._signing_in = trio.Lock()

    def offers(self, endpoint: Endpoint) -> bool:
        """Whether the credentials that the endpoint needs are configured."""
        return all(name in self.credentials for name in endpoint.needs)

    async def call(self, call: Call, deadline_at: float) -> Answer | Missing:
        """The answer to one call by `deadline_at` on Trio's clock; what an optional call raises becomes a `Missing`."""
        if not call.optional:
            return await self._answer(call, deadline_at)
        source = call.source or self._first.name
        started = trio.current_time()
        try:
            return await self._answer(call, deadline_at)
        except (UpstreamError, LimitError) as failure:
            return Missing(str(failure), source, trio.current_time() - started)

    async def _answer(self, call: Call, deadline_at: float) -> Answer:
        source = self.sources[call.source] if call.source else self._first
        headers = (*self._headers, *call.headers) if call.headers else self._headers
        if not call.needs_session:
            return await source.ask(_asking(call, source, headers), deadline_at)
        headers = (*headers, *(await self._session_headers(deadline_at)))
        try:
            return await source.ask(_asking(call, source, headers), deadline_at)
        except UpstreamFailed as failure:
            if not failure.passing:  # the session may have ended early: the next call signs in anew
                self._session = None
            raise

    async def _session_headers(self, deadline_at: float) -> tuple[tuple[str, str], ...]:
        """The headers of the session, signing in when there is none or it is about to end; one task at a time does."""
        async with self._signing_in:
            if self._session is None or self._session[1] <= trio.current_time():
                session = await self._sign_in(deadline_at)
                self._session = (session, trio.current_time() + session.ttl_s - _SESSION_MARGIN_S)
            return self._session[0].headers

    async def _sign_in(self, deadline_at: float) -> Session:
        assert self.platform.open_session is not None, "an endpoint needs a session that its platform cannot open"
        steps = self.platform.open_session(self.credentials)
        try:
            wanted = next(steps)
            while True:
                wanted = steps.send(await self._answer(replace(wanted, needs_session=False), deadline_at))
        except StopIteration as done:
            session: Any = done.value
            if not isinstance(session, Session):
                raise UpstreamFailed(self.platform.slug, "signing in gave no session") from None
            return session


def _asking(call: Call, source: Source, headers: tuple[tuple[str, str], ...]) -> Asking:
    if call.json is None:
        return Asking(call.method, call.target(source.base_path), headers, b"", call.accepts)
    headers = (*headers, ("content-type", "application/json"))
    return Asking(call.method, call.target(source.base_path), headers, orjson.dumps(call.json), call.accepts)
