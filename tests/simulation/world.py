"""One simulated world: its accounts, its weather, its successive nodes, and the invariants that observe them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import trio
from msgspec.structs import replace as struct_replace

from billing.ledger.verification import verify
from gateway.config.settings import BreakerSettings, LimitSettings
from gateway.node.node import Node
from gateway.server.errors import ClientGone
from storage.errors import StorageError
from tests.simulation import spells, store, upstream
from tests.simulation.answers import check_age, check_all, check_answer, check_end
from tests.simulation.clients import Client
from tests.simulation.database import change, open_database
from tests.simulation.life import Life, first_config
from tests.simulation.operator import Operator
from tests.simulation.plan import Lifetime, draw_plan
from tests.simulation.platform import SOURCES
from tests.simulation.requests import CURRENT, Holder, Sent
from tests.simulation.shadow import Shadow
from tests.simulation.trace import Trace

ACCOUNTS = {"rich": 400, "poor": 12, "unlimited": 0}
"""The initial credits of each account; `rich` has two keys, the second with a budget."""
BUDGET = 25
START_AGAIN_S = 1.0
STEPS_MAX = 20_000
"""The maximum number of steps of all tasks at one moment of virtual time. With more steps, the world is stuck."""
REST_S = 60.0
"""Longer than any request, settlement, or retry of a closing call takes in calm weather."""
ANSWERED = "every request is answered or hung up"
AT_REST = "at rest nothing is open, held, under way or unfinished"
GOES_ON = "time goes on"
PROVED = "the ledger proves itself"


class World(trio.abc.Instrument):
    """A whole world, generated from one seed. As a Trio instrument, it checks invariants after each task step."""

    def __init__(self, seed: int, plant: Callable[[Node], None], schema: tuple[str, ...]) -> None:
        self.trace = Trace()
        self._seed = seed
        self._plant = plant
        self._database = open_database()
        change(self._database, schema)
        self._shadow = Shadow(self._database, self.trace)
        self._plan = draw_plan(self._rng("plan"))
        until = sum(lifetime.serves_s for lifetime in self._plan.lifetimes)
        self._store_weather = spells.draw_weather(self._rng("store"), until, calm="calm", kinds=store.KINDS)
        weathers = {
            name: spells.draw_weather(self._rng(name), until, calm="good", kinds=upstream.KINDS) for name in SOURCES
        }
        self._upstream = upstream.Upstream(weathers, self._rng("upstream"), self.trace)
        self._config = first_config()
        self._holders: dict[str, list[Holder]] = {}
        self._revoked: set[str] = set()
        self._sent: list[Sent] = []
        self._clients: list[Client] = []
        self._life: Life | None = None
        self._steps, self._stepped_at = 0, 0.0
        self._hang_ups = self._rng("hang-ups")

    def _rng(self, name: str) -> Random:
        return Random(f"{self._seed}:{name}")

    async def run(self) -> None:
        """Run from the first node's start until everything is idle."""
        with self.trace.ending:
            for number, lifetime in enumerate(self._plan.lifetimes):
                has_lived = await self._live(number, lifetime)
                while not has_lived:
                    has_lived = await self._live(number, replace(lifetime, commits=None))
            check_all(self._sent, self._shadow, self.trace)

    def close(self) -> None:
        """Close the database when nothing runs any more."""
        self._database.close()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Compare the node's memory with its expected contents."""
        self._steps += 1
        if trio.current_time() > self._stepped_at:
            self._steps, self._stepped_at = 0, trio.current_time()
        self.trace.hold(self._steps < STEPS_MAX, GOES_ON, f"{self._steps} steps, the last of {task.name}")
        if self._life is not None:
            self._life.compare()

    async def _live(self, number: int, lifetime: Lifetime) -> bool:
        """Run one node from its start to its end. Return False if it could not start."""
        sim_store = store.SimStore(self._database, self._store_weather, self._rng(f"store {number}"), self._shadow)
        sim_store.commits_left = lifetime.commits
        sim_store.may_stand_still = self._plan.stands_still
        has_started = True
        try:
            with trio.CancelScope() as scope:
                sim_store.on_death = partial(self._die, number, scope)
                async with Life.begin(
                    sim_store, self._upstream, self._rng(f"node {number}"), self.trace, config=lambda: self._config
                ) as life:
                    self._life = life
                    self._plant(life.node)
                    self.trace.note(f"node {number} serves")
                    await self._serve(number, lifetime, life)
                    if lifetime.end == "rests":
                        await self._rest(life)
                    self._life = None
        except* StorageError as refusals:
            self.trace.hold(self._life is None, ANSWERED, f"{refusals.exceptions} ended a node that served")
            has_started = False
            await trio.sleep(START_AGAIN_S)
        self.trace.note(f"node {number} {'is gone' if has_started else 'could not start'}")
        return has_started

    def _die(self, number: int, scope: trio.CancelScope) -> None:
        self.trace.note(f"node {number} dies")
        self._life = None
        scope.cancel()

    async def _serve(self, number: int, lifetime: Lifetime, life: Life) -> None:
        """Run clients and the operator on the node until its time is over."""
        if not self._clients:
            await self._settle_in(life.node)
        ends_at = trio.current_time() + lifetime.serves_s
        operator = Operator(
            self._rng(f"operator {number}"), self.trace, life, self._holders, self._revoked, self._reconfigure
        )
        async with trio.open_nursery() as nursery:
            for run in (*(client.run for client in self._clients), operator.run):
                nursery.start_soon(run, lambda: trio.current_time() < ends_at)
            await trio.sleep_until(ends_at)
            if lifetime.end == "dies":
                life.store.die()
            elif lifetime.end == "stops":
                life.node.draining.set()

    async def _settle_in(self, node: Node) -> None:
        """Create the accounts, their keys and their programs."""
        for name, begins_with in ACCOUNTS.items():
            terms = {"name": name, "credits": begins_with, "unlimited": name == "unlimited"}
            account = (await node.operations.run("account.create", terms))["id"]
            limits = (None, BUDGET) if name == "rich" else (None,)
            made = [
                await node.operations.run("key.create", {"account": account, "credit_limit": limit}) for limit in limits
            ]
            holders = self._holders[account] = [Holder(account, key["id"], key["key"]) for key in made]
            rng = self._rng(name)
            self._clients.append(Client(name, rng, holders, self._deliver, pause_s=rng.uniform(1.0, 3.0)))

    def _reconfigure(self, limits: LimitSettings, breaker: BreakerSettings) -> None:
        self._config = struct_replace(self._config, limits=limits, breaker=breaker)

    async def _deliver(self, sent: Sent, patience_s: float) -> None:
        """Serve a request as a server would, until the request ends or its client gives up."""
        life = self._life
        if life is None:
            return
        CURRENT.set(sent)
        self._sent.append(sent)
        sent.began_at = trio.current_time()
        if sent.holder is not None:
            sent.first_balance = self._shadow.told.get(sent.holder.account, 0)
            sent.key_was_revoked = sent.holder.key_id in self._revoked
        self.trace.note(f"{sent.name} {sent.path}?{sent.query} {sent.headers}")
        # If a client disconnects, a server may cancel the request, or detect the end of the connection when it sends.
        cancels = self._hang_ups.random() < 0.5
        sent.patience_ends_at = sent.began_at + patience_s
        try:
            with trio.move_on_after(patience_s if cancels else float("inf")):
                await life.answer(sent)
        except ClientGone:
            self.trace.note(f"{sent.name} was gone")
        except Exception as exc:  # noqa: BLE001 - no exception of any kind may reach a server
            self.trace.hold(False, ANSWERED, f"{sent.name} met {exc!r}")
        finally:
            life.gate.leave(sent)
            sent.ended_at = trio.current_time()
        if self._life is life:
            self._check(sent, life, hung_up=trio.current_time() >= sent.patience_ends_at)

    def _check(self, sent: Sent, life: Life, *, hung_up: bool) -> None:
        if sent.is_told:
            how = " replayed" if sent.is_replay else " cached" if sent.body.get("cached") else ""
            self.trace.note(f"{sent.name} got {sent.status} {sent.code} for {sent.body['credits_used']}{how}")
            check_answer(sent, self._shadow, life.store, self.trace)
            check_age(sent, self._upstream.told_at, self.trace)
        else:
            self.trace.note(f"{sent.name} hung up")
            self.trace.hold(hung_up, ANSWERED, sent.name)
        check_end(sent, self._shadow, life.store, self.trace)

    async def _rest(self, life: Life) -> None:
        life.store.may_stand_still = False
        await trio.sleep(REST_S + self._plan.stands_still * store.STANDSTILL_S[1])
        left = {**life.leftover_counts(), "charges": len(self._shadow.rows.charges)}
        left["claims"] = sum(status is None for _, status, _ in self._shadow.rows.claims.values())
        self.trace.hold(not any(left.values()), AT_REST, str(left))
        violations = self._database.look(verify)
        self.trace.hold(not violations, PROVED, str(violations))
        known = {account: life.node.stores.billing.balances.nowait(account) for account in self._holders}
        wrong = [
            account for account, balance in known.items() if balance not in (None, self._shadow.balances[account][-1])
        ]
        self.trace.hold(not wrong, AT_REST, f"balances in memory are {known}")
