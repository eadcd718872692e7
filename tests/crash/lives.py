"""The successive processes of a node in crash tests: their start, remaining work, and verified deliveries."""

from __future__ import annotations

from typing import Any, Final

import orjson
import trio

from gateway.node.membership import MembershipPace
from scheduler.webhooks.signature import verify
from tests.fakes.outsider import open_outsider
from tests.fakes.quick_node import BEAT_S
from tests.fakes.stores import engine
from tests.processes.fleet import Fleet
from tests.processes.place import Place
from tests.processes.process import Process

ENVIRON: Final = {"SLUICE_SECRET": "a secret of tests, long enough"}


def start(place: Place, fleet: Fleet, *, ahead_s: float = 0.0) -> Process:
    """Start a node whose clock is this far ahead. Nodes that were killed count as dead immediately."""
    place.bury()
    pace = None if engine() == "sqlite" else MembershipPace(beat_s=BEAT_S)
    environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(place.folder), **ENVIRON}
    return fleet.start(place.config, environ, skew_s=ahead_s, pace=pace)


async def settle(place: Place, fleet: Fleet, left: str, *values: float, ahead_s: float = 0.0) -> None:
    """Let a node finish the remaining work, which the query `left` counts."""
    node = start(place, fleet, ahead_s=ahead_s)
    await node.listening()
    with open_outsider(place.store_url) as store:
        while store.run(left, *values)[0][0]:  # noqa: ASYNC110 - another process sets no event
            await trio.sleep(0.1)
    fleet.kill(node)


def verified(request: bytes, secret: str) -> Any:
    """Return the body of a delivery after verifying its signature."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")[1:]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    stamp = headers["x-sluice-signature"].partition(",")[0].removeprefix("t=")
    verify(secret, headers["x-sluice-signature"], body, now=float(stamp))
    return orjson.loads(body)
