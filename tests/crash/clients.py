"""The load on a node that may die at any moment: each client is a task that sends requests until it is disconnected."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson
import trio

from tests.crash.dying import PATIENCE_S, NodeDied, ask
from tests.crash.seen import Finished, Life, Seen, content_of
from upstreams.transport.http import Exchange, HttpCall
from upstreams.transport.origin import Origin

HOT = 5
"""The number of handles that all clients request, so that some answers come from the cache."""
RETRIED = (409, 500, 502, 503)
KEYS_PENDING_MAX = 200


@dataclass
class Node:
    """A node while it is alive. Set `is_killed` before killing it."""

    exchange: Exchange
    public: Origin
    admin: Origin
    is_killed: bool = False

    async def ask(self, target: str, key: str, **headers: str) -> tuple[int, dict[str, Any]]:
        """Return status and envelope of one call. Raises NodeDied."""
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return await self._exchange(HttpCall("GET", self.public, target, (("x-api-key", key), *named)))

    async def operate(self, name: str, token: str, arguments: Mapping[str, object]) -> Any:
        """Run an operation of the admin address. Raises NodeDied."""
        headers = (("authorization", f"Bearer {token}"), ("content-type", "application/json"))
        call = HttpCall("POST", self.admin, f"/admin/{name}", headers, orjson.dumps(dict(arguments)))
        status, answer = await self._exchange(call)
        assert status == 200, answer
        return answer

    async def _exchange(self, call: HttpCall) -> tuple[int, Any]:
        answer = await ask(self, call)
        return answer.status, orjson.loads(answer.body)


@dataclass
class Clients:
    """All clients over all processes of the node. Work that a kill interrupts is continued with the next process."""

    rng: Random
    seen: Seen
    key: str
    admin_token: str
    treasury: str
    """The account that receives grants, and whose keys are created and revoked."""
    pending: deque[tuple[str, str, bool]] = field(default_factory=deque)
    """Idempotency keys without an outcome: the key, its target, and whether it requests a refresh."""
    _keys_made: int = 0

    async def plain(self, node: Node, life: Life) -> None:
        """Make cheap calls, composites and refreshes, one after another."""
        while True:
            target = self._target()
            headers = {"cache_control": "no-cache"} if self.rng.random() < 0.3 else {}
            sent = life.sent()
            status, envelope = await node.ask(target, self.key, **headers)
            self.seen.counts[f"plain {status}"] += 1
            self._note_plain(life, status, envelope, sent=sent)

    def _note_plain(self, life: Life, status: int, envelope: dict[str, Any], *, sent: int) -> None:
        assert status in (200, 404, 502), envelope
        used, request_id = envelope["credits_used"], envelope["request_id"]
        if status == 200 and used in (1, 5):
            life.charged(request_id, used, sent=sent)
            return
        # The final cost of a hit, of a refusal, and of a composite that was closed before its answer is certain.
        is_hit = status == 200 and envelope["cached"]
        assert used == (2 if status == 200 and not is_hit else 0)
        self.seen.counts["cached"] += is_hit
        self.seen.counts["half refunded"] += used == 2
        self.seen.exact[request_id] = used

    async def claiming(self, node: Node, life: Life) -> None:
        """Make calls with idempotency keys, each repeated until it has an outcome, and repeat old keys."""
        while True:
            if self.seen.finished and self.rng.random() < 0.3:
                await self.replay(node, self.rng.choice(list(self.seen.finished)))
                continue
            if not self.pending or (self.rng.random() < 0.5 and len(self.pending) < KEYS_PENDING_MAX):
                self._keys_made += 1
                self.pending.append((f"key-{self._keys_made}", self._target(), self.rng.random() < 0.7))
            await self.until_finished(node, *self.pending.popleft())

    async def until_finished(self, node: Node, key: str, target: str, no_cache: bool) -> None:
        """Repeat the call until the key has its outcome. After a kill, the next process continues."""
        try:
            while not await self._is_finished(node, key, target, no_cache):
                self.seen.counts["retried"] += 1
                await trio.sleep(0.002)
        except NodeDied:
            self.pending.append((key, target, no_cache))
            raise

    async def _is_finished(self, node: Node, key: str, target: str, no_cache: bool) -> bool:
        """Make the call once, sometimes disconnecting before the answer."""
        headers = {"cache_control": "no-cache"} if no_cache else {}
        hurry_s = self.rng.random() * 0.02 if self.rng.random() < 0.2 else PATIENCE_S
        with trio.move_on_after(hurry_s) as hurry:
            status, envelope = await node.ask(target, self.key, idempotency_key=key, **headers)
        if hurry.cancelled_caught:
            self.seen.counts["hung up"] += 1
            return False
        if status in RETRIED:
            assert envelope["credits_used"] == 0
            return False
        assert status in (200, 404), envelope
        self.seen.counts["taken over"] += bool(envelope.get("idempotent_replay"))
        self.seen.finish(key, Finished(target, no_cache, status, envelope["request_id"], content_of(envelope)))
        return True

    async def replay(self, node: Node, key: str) -> None:
        """Check that an outcome never changes once it was seen, and that no other request receives any of it."""
        first = self.seen.finished[key]
        status, envelope = await node.ask(first.target, self.key, idempotency_key=key)
        assert envelope.get("idempotent_replay") is True, f"{key} was lost: {envelope}"
        assert (status, content_of(envelope), envelope["credits_used"]) == (first.status, first.content, 0)
        if self.rng.random() < 0.1:
            status, _ = await node.ask("/v1/github/profile?handle=somebody-else", self.key, idempotency_key=key)
            assert status == 422
        self.seen.counts["replayed"] += 1

    async def granting(self, node: Node, life: Life) -> None:
        """Grant credits and read the balance. A confirmed grant must survive every kill."""
        while True:
            self.seen.perhaps_granted += 1
            before = self.seen.granted
            told = await node.operate("credits.grant", self.admin_token, {"account": self.treasury, "amount": 1})
            self.seen.granted += 1
            assert told["balance"] >= before + 1
            await trio.sleep(self.rng.random() * 0.02)

    async def keying(self, node: Node, life: Life) -> None:
        """Create and revoke keys. A confirmed revocation must survive every kill."""
        for record in await node.operate("key.list", self.admin_token, {"account": self.treasury}):
            if record["revoked_at"] is None:  # the previous process ended between creation and revocation
                await node.operate("key.revoke", self.admin_token, {"key": record["id"]})
        while True:
            made = await node.operate("key.create", self.admin_token, {"account": self.treasury})
            status, _ = await node.ask("/v1/credits/balance", made["key"])
            assert status == 200
            await node.operate("key.revoke", self.admin_token, {"key": made["id"]})
            self.seen.revoked.append(made["key"])
            status, _ = await node.ask("/v1/credits/balance", self.rng.choice(self.seen.revoked))
            assert status == 401
            await trio.sleep(self.rng.random() * 0.02)

    def _target(self) -> str:
        """Return mostly new profiles, some popular ones, and sometimes a composite."""
        dice = self.rng.random()
        name = f"hot{self.rng.randrange(HOT)}" if dice < 0.3 else f"user{self.rng.randrange(10**6)}"
        if dice > 0.75:
            return f"/v1/github/repo/dossier?url=https://github.com/{name}/code"
        return f"/v1/github/profile?handle={name}"
