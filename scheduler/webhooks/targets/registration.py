"""The check of a webhook's target at registration: names that lead to a non-public address are rejected (decisions 12).

The check spares owners a webhook whose deliveries would all fail. The network itself is protected by the same check at
each attempt. A name that cannot be resolved in time is therefore accepted: its name servers may be slow, or be set up
later.
"""

from __future__ import annotations

from typing import Final

import trio

from upstreams.guard.addresses import check_addresses, check_url
from upstreams.guard.resolver import Resolve

RESOLVE_S: Final = 2.0
"""The maximum time in seconds that the registration of a URL waits for its name to be resolved."""


async def check_target(url: str, resolve: Resolve, *, allow_insecure: bool) -> None:
    """Check that a URL does not lead to a non-public address, as far as this is known now.

    Raises:
        TargetRefused: with the reason in words for the user.
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
