"""Many concurrent composites.

Each key sends fifty cards: two different cards for each name that only this key uses, and ten cards that all keys
request. All upstream calls are held until no more arrive, so that the concurrent calls can be counted. Then they are
answered.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from tests.fakes.calling import Answered
from tests.fakes.node import CREDITS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from upstreams.composites import load_all
from upstreams.model.steps import CACHE

SLUGS: Final = ("discourse", "github", "lemmy", "mastodon")
CARD: Final = f"/v1/prism/creator-card?platforms={','.join(SLUGS)}&handle="
AT_ONCE_MAX: Final = 50
"""Maximum number of concurrent legs of a key (spec 8). Each key sends as many requests."""
COMMON: Final = 10
PATIENCE_S: Final = 900.0
_NAME = re.compile(r"(k\d+n\d+|common\d+)")


class Crowd(NamedTuple):
    """The counts of a crowd."""

    requests: int
    legs: int
    paid: int
    """Legs that called an upstream; the other legs shared these calls."""
    calls: int
    """Upstream calls."""
    distinct: int
    """Different upstream calls."""
    most_of_a_key: int
    """The maximum number of concurrent calls that one key had."""
    credits: int


def names_of(key: int, requests: int) -> list[str]:
    """Return the query values of a key's requests: names of this key only, and names that all keys request."""
    own = [f"k{key}n{place}" for place in range((requests - COMMON) // 2)]
    return [f"common{place}" for place in range(COMMON)] + own + [f"{name}&include=totals" for name in own]


async def crowd(folder: Path, requests: int) -> Crowd:
    """Send composites concurrently, with as many keys as needed for fifty each."""
    each = min(AT_ONCE_MAX, requests)
    limits: dict[str, Any] = {"requests_per_minute": 1_000_000}
    roomy: dict[str, Any] = {"defaults": {"retries": 0, "max_connections": 2_000, "timeout_s": 300}}
    server = {"request_timeout_s": 300}
    unhurried: dict[str, Any] = {"only": tuple(replace(one, pace=None) for one in load_all()), "patience_s": PATIENCE_S}
    async with open_test_node(folder, limits=limits, upstreams=roomy, server=server, **unhurried) as node:
        accounts = [await node.new_account() for _ in range(requests // each)]
        keys = [(await node.new_key(account))[0] for account in accounts]
        answers, gates, most = list[Answered](), node.node.calls.parts.gates, [0]

        def count(_asked: str) -> ScriptedAnswer | None:
            """Update the maximum number of concurrent calls from the gates of all keys, at each call."""
            most.append(max(gate.borrowed_tokens for gate in gates.values()))
            return None

        node.upstream.script = count

        async def send(key: str, name: str) -> None:
            answers.append(await node.get(CARD + name, key=key))

        with node.upstream.holding():
            async with trio.open_nursery() as nursery:
                for number, key in enumerate(keys):
                    for name in names_of(number, each):
                        nursery.start_soon(send, key, name)
                await _until_still(node)
                _check_held(node, len(keys))
                node.upstream.hold_no_more()
                node.upstream.release()
        await node.assert_sound()
        left = [await node.money(account) for account in accounts]
        assert all(held == 0 for _, held in left), "credits are still held"
        spent = sum(CREDITS - balance for balance, _ in left)
        return _counted(answers, node.upstream.requests, max(most), spent)


async def _until_still(node: OpenNode) -> None:
    """Wait until no more calls arrive."""
    seen = -1
    while len(node.upstream.requests) != seen:
        seen = len(node.upstream.requests)
        await trio.sleep(0.5)


def _check_held(node: OpenNode, keys: int) -> None:
    """Check that no key has more than fifty concurrent calls while all are held. The name in a URL shows the key."""
    held = Counter(_NAME.search(asked).group(1).partition("n")[0] for asked in node.upstream.requests)  # type: ignore[union-attr]
    own = [count for name, count in held.items() if not name.startswith("common")]
    assert max(own, default=0) <= AT_ONCE_MAX, held
    assert held.total() <= keys * AT_ONCE_MAX, held


def _counted(answers: list[Answered], asked: list[str], most: int, spent: int) -> Crowd:
    assert {one.status for one in answers} == {200}, Counter(one.status for one in answers)
    bodies = [one.json for one in answers]
    legs = [leg for body in bodies for leg in body["data"]["legs"] if not body["cached"]]
    assert {leg["status"] for leg in legs} == {"ok"}, Counter(leg["status"] for leg in legs)
    paid = sum(leg["source"] != CACHE for leg in legs)
    used = sum(body["credits_used"] for body in bodies)
    assert used == spent == sum(leg["credits_used"] for leg in legs)
    return Crowd(len(answers), len(legs), paid, len(asked), len(set(asked)), most, used)
