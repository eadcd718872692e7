"""The signed-in session of a platform, shared by all calls.

The session is renewed before it expires, and when the upstream refuses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import orjson
import trio

from storage.errors import StateUnavailable
from storage.state import State
from upstreams.model.errors import UNREADABLE, UpstreamFailed, unreadable
from upstreams.model.params import Credentials
from upstreams.model.steps import Answer, Call, Session, SignInSteps

MARGIN_S: Final = 30.0
RENEWED_APART_S: Final = 30.0
"""A session that is refused this soon after the previous refusal is not renewed, because expiry cannot be the cause."""

SIGNING_IN_MS: Final = 30_000
"""A node that takes longer to sign in is considered dead."""
LOOK_AGAIN_S: Final = 0.1

MakeCall = Callable[[Call, float], Awaitable[Answer]]


class SharedSession:
    """A session shared by all nodes through shared state, for platforms that limit sign-ins.

    One node signs in while the others wait. The caller encrypts the session and binds it to the credentials that it was
    opened with. The shared session is removed automatically when it expires. While the shared state is unavailable,
    each node signs in separately.
    """

    def __init__(
        self, state: State, slug: str, *, seal: Callable[[str], str], unseal: Callable[[str], str | None]
    ) -> None:
        """`unseal` returns None for a text that was not created with this `seal`."""
        self._state = state
        self._slug = slug
        self._seal = seal
        self._unseal = unseal
        self._key = b"sluice:{session:%b}" % slug.encode()
        self._lock = self._key + b":signing_in"

    async def find(self, deadline_at: float, refused: Session | None) -> Session | None:
        """Return another node's session if it is not the `refused` one; None if this node must sign in.

        Raises:
            UpstreamFailed: Another node did not finish signing in by `deadline_at`.
        """
        while True:
            try:
                session = await self._read()
                if session is not None and (refused is None or session.headers != refused.headers):
                    return session
                if await self._state.call(b"SET", self._lock, b"1", b"NX", b"PX", b"%d" % SIGNING_IN_MS) is not None:
                    return None
            except StateUnavailable:
                return None
            if trio.current_time() + LOOK_AGAIN_S >= deadline_at:
                raise UpstreamFailed(self._slug, "signing in took too long", passing=True)
            await trio.sleep(LOOK_AGAIN_S)

    async def publish(self, session: Session | None) -> None:
        """Share the session with the other nodes. Pass None if signing in failed."""
        try:
            if session is not None:
                sealed = self._seal(orjson.dumps(session.headers).decode())
                lasts_ms = max(1, int(session.ttl_s * 1000))
                await self._state.call(b"SET", self._key, sealed.encode(), b"PX", b"%d" % lasts_ms)
            await self._state.call(b"DEL", self._lock)
        except StateUnavailable:
            return

    async def _read(self) -> Session | None:
        sealed = await self._state.call(b"GET", self._key)
        left_ms = await self._state.call(b"PTTL", self._key)
        if not isinstance(sealed, bytes) or not isinstance(left_ms, int) or left_ms <= 0:
            return None
        headers = self._unseal(sealed.decode())
        if headers is None:
            return None
        return Session(tuple((name, value) for name, value in orjson.loads(headers)), left_ms / 1000)


class Signed(NamedTuple):
    """A session and its expiry on Trio's clock."""

    session: Session
    until: float


class Sessions:
    """Signs in to a platform, one task at a time, using `call` for the requests.

    `shared` is the store of the session if all nodes share it.
    """

    def __init__(
        self,
        slug: str,
        sign_in: SignInSteps,
        credentials: Credentials,
        call: MakeCall,
        *,
        shared: SharedSession | None = None,
    ) -> None:
        self._shared = shared
        self._slug = slug
        self._steps = sign_in
        self._credentials = credentials
        self._call = call
        self._signed: Signed | None = None
        self._refused: Session | None = None
        self._refused_at = float("-inf")
        self._signing_in = trio.Lock()

    async def signed_in(self, deadline_at: float) -> Signed:
        """Return the session, signing in if there is none or it is about to expire.

        Raises:
            UpstreamError, LimitError: Signing in failed or took too long.
        """
        with trio.move_on_at(deadline_at) as waiting:  # the signing-in task may have more time than this task
            await self._signing_in.acquire()
        if waiting.cancelled_caught:
            raise UpstreamFailed(self._slug, "signing in took too long", passing=True)
        try:
            if self._signed is None or self._signed.until <= trio.current_time():
                session = await self._open(deadline_at)
                self._signed = Signed(session, trio.current_time() + session.ttl_s - MARGIN_S)
            return self._signed
        finally:
            self._signing_in.release()

    def may_renew(self) -> bool:
        """Return whether a session would be renewed if the upstream refused it now."""
        return trio.current_time() >= self._refused_at + RENEWED_APART_S

    def refuse(self, signed: Signed) -> bool:
        """Report that the upstream refused a session. Return whether to retry the call with another session.

        A session that is refused soon after its renewal is kept, because another one would be refused too.
        """
        if self._signed is not signed:
            return True
        if not self.may_renew():
            return False
        self._signed, self._refused, self._refused_at = None, signed.session, trio.current_time()
        return True

    async def _open(self, deadline_at: float) -> Session:
        if self._shared is None:
            return await self._sign_in(deadline_at)
        session = await self._shared.find(deadline_at, self._refused)
        if session is None:
            try:
                session = await self._sign_in(deadline_at)
            finally:
                with trio.CancelScope(deadline=trio.current_time() + 1.0, shield=True):
                    await self._shared.publish(session)
        return session

    async def _sign_in(self, deadline_at: float) -> Session:
        steps = self._steps(self._credentials)
        try:
            wanted = next(steps)
            while True:
                answer = await self._call(wanted, deadline_at)
                try:
                    wanted = steps.send(answer)
                except UNREADABLE as exc:
                    raise unreadable(self._slug, exc) from exc
        except StopIteration as done:
            session: Any = done.value
            if not isinstance(session, Session):
                raise UpstreamFailed(self._slug, "sign-in did not return a session") from None
            return session
