"""The transport to hosts that callers name. Addresses are checked, and the connection goes to a checked address.

Each call is checked separately. A redirect is a separate call, so it is checked too. Addresses are cached for a few
seconds. If the name later resolves to another address, no connection goes there before that address is checked.
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
    """No address was found for a host name.

    `is_certain` means that the name servers report that there is none. `is_late` means that the lookup timed out,
    possibly because this node has too many lookups in progress.
    """

    def __init__(self, problem: str, *, is_certain: bool = False, is_late: bool = False) -> None:
        super().__init__(problem)
        self.is_certain = is_certain
        self.is_late = is_late


class PinnedExchange:
    """An exchange that checks hosts before it connects.

    If `resolve` is None, the target is passed unchanged to an egress, which resolves the addresses. `allow_insecure`,
    for tests only, allows http and private addresses.
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
        """See `Exchange`.

        Raises:
            TargetRefused: The host is not clearly public.
            NameUnknown: The host has no address.
        """
        origin = call.origin
        url = f"{origin.scheme}://{origin.authority}/"
        target = check_url(url, rules=self._rules, allow_insecure=self._allow_insecure)
        return await self.ask(target, call, deadline_at)

    async def ask(self, target: Target, call: HttpCall, deadline_at: float) -> HttpAnswer:
        """Like calling the exchange, but for a target that `check_url` has already parsed."""
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
        """Return the addresses of the target. All of them were checked."""
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
            # All are checked, but only those that may be tried are stored, because a name may have thousands.
            addresses = check_addresses(found, allow_insecure=self._allow_insecure)[:ADDRESSES_TRIED]
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[name] = self._now() + self._remembered_s, addresses
            return addresses
        raise NameUnknown(f"the lookup of {target.host} timed out", is_late=True)
