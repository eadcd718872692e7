"""Sends this node's heartbeats to the shared store, and closes the charges of dead nodes.

A node joins the store before it charges, so a node name that is unknown belongs to a dead node. A claim on an
idempotency key belongs to a charge, so the transaction that refunds the charge also releases the claim.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio

from billing.charges.recovery import Recovered, nodes_of_open_charges, recover
from gateway.node.stores import Stores
from gateway.runtime import Runtime
from limits.idempotency import forget_running, free_running
from storage import nodes
from storage.errors import StorageError, StoreUnusable
from storage.store import Tx

LEAVE_S = 5.0
TRIES_PER_BEAT = 10


@dataclass(frozen=True, slots=True)
class MembershipPace:
    """The interval between a node's heartbeats, and how long a node may be silent before it counts as dead."""

    beat_s: float = nodes.BEAT_S
    dead_after_s: float = nodes.DEAD_AFTER_S


class StateNotShared(StoreUnusable):
    """Limits cannot be enforced: another live node uses this store, and at least one of the two has private state."""

    def __init__(self, other: str) -> None:
        super().__init__(
            f'another node ({other}) uses the same store, and it or this one has state.url = "memory:", which is '
            "valid for a single node only; give all nodes the same Redis, or stop the other"
        )


class Membership:
    """This node's membership in the store, under the node name that its charges are recorded with."""

    def __init__(
        self,
        stores: Stores,
        *,
        runtime: Runtime,
        shares_state: bool,
        pace: MembershipPace,
    ) -> None:
        self._billing = stores.billing
        self._shares_state = shares_state
        self._store = stores.store
        self._make_id = runtime.make_id
        self._now = runtime.now
        self._log = runtime.log
        self._pace = pace
        self._beaten_at = self._steady_since = trio.current_time()
        self._is_alive = True
        self._owed: set[str] = set()
        self.recovered_charges = 0
        """The number of charges of dead nodes, and of earlier runs, that this node has refunded."""
        self.living = 1
        """The number of live nodes at this node's last check."""

    async def join(self) -> None:
        """Register the node as alive, before any charge.

        Raises:
            StateNotShared: another node is alive, and one of the two has private state.
        """
        await self._join(self._billing.charges.node)

    async def recover_all(self) -> None:
        """Close all charges that earlier owners of the store left open.

        Call this only if no other process can use the store.
        """
        found = await recover(self._store, now=self._now)
        await self._store.write(forget_running)
        self._count(found)

    async def keep_beating(self) -> None:
        """Send heartbeats, and rejoin immediately under a new name if this node was declared dead."""
        while True:
            await trio.sleep(self._pace.beat_s / (1 if self._is_alive else TRIES_PER_BEAT))
            try:
                # Far longer than the interval of heartbeats, because a cancelled write loses its position in the
                # writer's queue.
                with trio.fail_after(self._pace.dead_after_s / 2):
                    await self._beat()
            except StateNotShared:
                raise
            except (StorageError, trio.TooSlowError) as exc:
                if self._is_alive:
                    self._log.event("warning", "node_unheard", node=self._billing.charges.node, error=repr(exc))
                self._is_alive = False

    async def keep_recovering(self) -> None:
        """Until cancelled, close the charges of dead nodes."""
        while True:
            await trio.sleep(self._pace.beat_s)
            if not self._can_judge():
                continue
            try:
                await self._check_nodes()
            except StateNotShared:
                raise
            except StorageError as exc:
                self._log.event("warning", "nodes_unseen", error=str(exc))
            for dead in sorted(self._owed):
                await self._recover_dead(dead)

    async def leave(self) -> None:
        """Close all charges and leave. If a charge cannot be closed, another node closes it, as after a crash."""
        node = self._billing.charges.node
        try:
            await self._billing.charges.finish()
            await self._recover(node)
            await self._store.write(partial(nodes.leave, node_id=node))
        except StorageError as exc:
            self._log.event("warning", "node_not_left", node=node, error=str(exc))

    async def _beat(self) -> None:
        beaten_at, beat_s = trio.current_time(), self._pace.beat_s
        if not await self._store.write(partial(nodes.beat, node_id=self._billing.charges.node)):
            await self._rejoin()
            return
        if beaten_at - self._beaten_at > 2 * beat_s:
            self._steady_since = trio.current_time()
        self._beaten_at, self._is_alive = beaten_at, True

    async def _join(self, node: str) -> None:
        await self._wait_for_rivals(node)
        await self._store.write(partial(nodes.join, node_id=node, shares_state=self._shares_state))
        self._beaten_at = self._steady_since = trio.current_time()
        self._is_alive = True

    async def _wait_for_rivals(self, node: str) -> None:
        """Wait until no live node conflicts with this one. A killed node stops conflicting when it counts as dead.

        If a conflicting node sends a heartbeat or joins during the wait, it is alive and `StateNotShared` is raised.
        The wait therefore takes at most `dead_after_s`.
        """
        look = partial(self._rivals, node=node)
        first = seen = await self._store.read(look)
        if first:
            self._log.event("warning", "waits_for_death", nodes=sorted(first), within_s=self._pace.dead_after_s)
        while seen:
            await trio.sleep(self._pace.beat_s / TRIES_PER_BEAT)
            seen = await self._store.read(look)
            for other, seen_at in seen.items():
                if seen_at != first.get(other):
                    raise StateNotShared(other)

    def _rivals(self, tx: Tx, node: str) -> dict[str, float]:
        return nodes.rivals(tx, node, shares_state=self._shares_state, dead_after_s=self._pace.dead_after_s)

    async def _rejoin(self) -> None:
        """Join under a new name.

        Other nodes close the open charges of the old name. If this node closes one too, it gets the first outcome.
        """
        old, new = self._billing.charges.node, self._make_id("node_")
        await self._join(new)
        self._billing.charges.node = new
        self._log.event("error", "declared_dead", node=old, goes_on_as=new)

    async def _check_nodes(self) -> None:
        """Check for dead nodes, and for conflicting nodes that joined.

        If two conflicting nodes start together, the later one stops.
        """
        dead, self.living, rivals = await self._store.write(partial(self._judge, node=self._billing.charges.node))
        self._owed.update(dead)
        for other in rivals:
            raise StateNotShared(other)

    def _judge(self, tx: Tx, node: str) -> tuple[list[str], int, dict[str, float]]:
        """Return the dead nodes whose charges `node` must close, the number of live nodes, and conflicting nodes."""
        dead_after_s = self._pace.dead_after_s
        dead = nodes.take_over(tx, node, dead_after_s=dead_after_s)
        owed = dead + nodes.unknown(tx, nodes_of_open_charges(tx))
        return owed, len(nodes.living(tx, dead_after_s=dead_after_s)), self._rivals(tx, node)

    async def _recover_dead(self, dead: str) -> None:
        """Close the charges of a dead node. After a failure this node retries, and so do other nodes later."""
        try:
            await self._recover(dead)
            await self._store.write(partial(nodes.recovered, node_id=self._billing.charges.node, dead_id=dead))
        except StorageError as exc:
            self._log.event("warning", "recovery_interrupted", node=dead, error=str(exc))
        else:
            self._owed.discard(dead)

    def _can_judge(self) -> bool:
        """Return whether this node may declare silent nodes dead.

        If this node itself could not write for a while, it may have missed the heartbeats of other nodes.
        """
        now, recent_s = trio.current_time(), 2 * self._pace.beat_s
        return now - self._beaten_at <= recent_s <= now - self._steady_since

    async def _recover(self, node: str) -> None:
        balances = self._billing.balances
        found = await recover(self._store, now=self._now, node=node, also=free_running, balances=balances)
        self._count(found, node=node)

    def _count(self, found: Recovered, **of: str) -> None:
        self.recovered_charges += found.charges
        if found.charges:
            self._log.event("warning", "recovered", charges=found.charges, credits=found.credits, **of)


@asynccontextmanager
async def open_membership(
    stores: Stores, *, runtime: Runtime, is_shared: bool, shares_state: bool, pace: MembershipPace
) -> AsyncIterator[Membership]:
    """Join the store, and leave it after the block.

    If the store is not shared, this node is its only owner, so all other nodes are dead.

    On a shared store, `keep_beating` and `keep_recovering` must run inside the block. These two can also raise
    `StateNotShared`.

    Raises:
        StateNotShared: another node is alive, and at least one of the two has private state.
    """
    membership = Membership(stores, runtime=runtime, shares_state=shares_state, pace=pace)
    if not is_shared:
        await membership.recover_all()
        yield membership
        return
    await membership.join()
    try:
        yield membership
    finally:
        with trio.move_on_after(LEAVE_S, shield=True):
            await membership.leave()
