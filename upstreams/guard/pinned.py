"""The way to a host that somebody else named: its addresses are checked, and the connection goes to one of these.

Each call is checked anew, and so is each redirect, since it is a call of its own. Addresses are remembered for some
seconds; what was checked is what is connected to, so a name that leads elsewhere by then changes nothing.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

import httpx
import trio

from upstreams.guard.addresses import HTTPS, Target, TargetRules, check_addresses, check_url
from upstreams.guard.resolver import Resolve
from upstreams.transport.http import Exchange, HttpAnswer, HttpCall

ADDRESSES_TRIED: Final = 3
RESOLVE_S: Final = 5.0
REMEMBERED_S: Final = 30.0
REMEMBERED_MAX: Final = 1_000
_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class NameUnknown(httpx.ConnectError):
    """No address was found for a host's name.

    `is_certain`: the name servers say that there is none. `is_late`: the time for the lookup ran out, which may be the
    fault of this node, if it has too many lookups to make.
    """

    def __init__(self, problem: str, *, is_certain: bool = False, is_late: bool = False) -> None:
        super().__init__(problem)
        self.is_certain = is_certain
        self.is_late = is_late


class PinnedExchange:
    """An exchange with hosts that are checked first; a target goes on as it is where `resolve` is None: behind an
    egress, which finds the addresses.

    `allow_insecure`, for tests only, lets http and private addresses pass.
    """

    def __init__(
        self,
        exchange: Exchange,
        resolve: Resolve | None,
        *,
        rules: TargetRules = HTTPS,
        allow_insecure: bool = False,
        resolve_s: float = RESOLVE_S,
        remembered_s: float = REMEMBERED_S,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._exchange = exchange
        self._resolve = resolve
        self._rules = rules
        self._allow_insecure = allow_insecure
        self._resolve_s = resolve_s
        self._remembered_s = remembered_s
        self._now = now
        self._known: dict[tuple[str, int], tuple[float, Sequence[str]]] = {}

    async def __call__(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """As `Exchange`.

        Raises:
            TargetRefused: the host is not plainly public.
            NameUnknown: it has no address.
        """
        origin = call.origin
        url = f"{origin.scheme}://{origin.authority}/"
        target = check_url(url, rules=self._rules, allow_insecure=self._allow_insecure)
        return await self.ask(target, call, deadline_at)

    async def ask(self, target: Target, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """The same for a target that `check_url` has read."""
        if self._resolve is None:
            return await self._exchange(call, deadline_at)
        addresses = await self._addresses(target, self._resolve, deadline_at)
        *others, last = addresses
        for address in others:
            try:
                return await self._exchange(call._replace(origin=target.origin_at(address)), deadline_at)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                if isinstance(exc.__cause__, ssl.SSLError):
                    raise
        return await self._exchange(call._replace(origin=target.origin_at(last)), deadline_at)

    async def _addresses(self, target: Target, resolve: Resolve, deadline_at: float) -> Sequence[str]:
        """The target's addresses, all of them checked."""
        if target.is_address:
            return (target.host,)
        name = target.host, target.port
        known_until, addresses = self._known.get(name, (0.0, ()))
        if self._now() < known_until:
            return addresses
        with trio.move_on_at(min(deadline_at, self._now() + self._resolve_s)):
            try:
                found = await resolve(*name)
            except OSError as exc:
                is_certain = isinstance(exc, socket.gaierror) and exc.errno in _NO_SUCH_NAME
                problem = f"{target.host} has no address: {exc.strerror or exc}"
                raise NameUnknown(problem, is_certain=is_certain) from exc
            # All are checked, and those that are tried are kept: a name may have thousands.
            addresses = check_addresses(found, allow_insecure=self._allow_insecure)[:ADDRESSES_TRIED]
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[name] = self._now() + self._remembered_s, addresses
            return addresses
        raise NameUnknown(f"the addresses of {target.host} could not be had in time", is_late=True)
