"""A webhook's target as it is registered: no name is taken that leads to an address which is not public (decisions 12).

This spares an owner a webhook that could never be delivered; what protects the network is that each attempt asks anew.
So a name that nobody can tell of in time passes: its name servers may be slow, or set up later.
"""

from __future__ import annotations

from typing import Final

import trio

from upstreams.guard.addresses import check_addresses, check_url
from upstreams.guard.resolver import Resolve

RESOLVE_S: Final = 2.0
"""The most seconds that the registration of a URL waits for its name to be resolved."""


async def check_target(url: str, resolve: Resolve, *, allow_insecure: bool) -> None:
    """Refuse a URL that leads to an address which is not public, as far as that can be told now.

    Raises:
        TargetRefused: why, in words for the user.
    """
    target = check_url(url, allow_insecure=allow_insecure)
    if target.is_address or allow_insecure:
        await trio.lowlevel.checkpoint()
        return
    with trio.move_on_after(RESOLVE_S):
        try:
            found = await resolve(target.host, target.port)
        except OSError:
            return
        check_addresses(found)
