"""One simulated world: its accounts, its weather, its nodes one after the other, and the invariants that watch them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import trio
from msgspec.structs import replace

from billing.verification import verify
from gateway.app import Node
from gateway.config.settings import BreakerSettings, LimitSettings
from storage.errors import StorageError
from storage.sqlite_transaction import SqliteTx
from tests.simulation import spells, store, upstream
from tests.simulation.answers import check_all, check_answer, check_end
from tests.simulation.clients import Client
from tests.simulation.database import open_database
from tests.simulation.life import Life, first_config
from tests.simulation.operator import Operator
from tests.simulation.platform import SOURCES
from tests.simulation.requests import CURRENT, Holder, Sent
from tests.simulation.shadow import Shadow
from tests.simulation.trace import Trace

ACCOUNTS = {"rich": 400, "poor": 12, "unlimited": 0}
"""What each begins with; `rich` has two keys, the second with a budget."""
BUDGET = 25
LIVES_MAX = 3
LIFE_S = (15.0, 45.0)
DIES = 0.75
START_AGAIN_S = 1.0
REST_S = 60.0
"""Longer than any request, settlement or retry of a close takes in calm weather."""
ANSWERED = "every request is answered or hung up"
AT_REST = "at rest nothing is open, held, under way or unfinished"
PROVED = "the ledger proves itself"


class World(trio.abc.Instrument):
    """Everything that one seed makes. As an instrument it looks after each step of each task."""

    def __init__(self, seed: int, plant: Callable[[Node], None], schema: tuple[str, ...]) -> None:
        self.trace = Trace()
        self._seed = seed
        self._plant = plant
        self._connection = open_database()
        for statement in schema:
            self._connection.execute(statement)
        self._shadow = Shadow(self._connection, self.trace)
        self._lives_s = self._draw_lives()
        until = sum(self._lives_s)
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

    def _rng(self, name: str) -> Random:
        return Random(f"{self._seed}:{name}")

    def _draw_lives(self) -> list[float]:
        plan = self._rng("plan")
        return [plan.uniform(*LIFE_S) for _ in range(plan.randint(1, LIVES_MAX))]

    async def run(self) -> None:
        """From the first node's start until everything is at rest."""
        with self.trace.ending:
            for number, life_s in enumerate(self._lives_s):
                is_last = number == len(self._lives_s) - 1
                has_lived = False
                while not has_lived:
                    has_lived = await self._live(number, life_s, is_last=is_last)
            check_all(self._sent, self._shadow, self.trace)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Hold the node's memory against what it should be."""
        if self._life is not None:
            self._life.compare()

    async def _live(self, number: int, life_s: float, *, is_last: bool) -> bool:
        """One node's life: it serves, then it dies, or is stopped, or at last comes to rest. False: it cannot start."""
        dies = not is_last and self._rng(f"end {number}").random() < DIES
        sim_store = store.SimStore(self._connection, self._store_weather, self._rng(f"store {number}"), self._shadow)
        has_started = True
        try:
            with trio.CancelScope() as scope:
                async with Life.begin(
                    sim_store, self._upstream, self._rng(f"node {number}"), self.trace, config=lambda: self._config
                ) as life:
                    self._life = life
                    self._plant(life.node)
                    self.trace.note(f"node {number} serves")
                    await self._serve(number, life_s, scope if dies else None)
                    if is_last:
                        await self._rest(life)
                    self._life = None
        except* StorageError as refusals:
            self.trace.hold(self._life is None, ANSWERED, f"{refusals.exceptions} ended a node that served")
            has_started = False
            await trio.sleep(START_AGAIN_S)
        self.trace.note(f"node {number} {'is gone' if has_started else 'could not start'}")
        return has_started

    async def _serve(self, number: int, life_s: float, dying: trio.CancelScope | None) -> None:
        """Let clients and the operator at the node until its time is over."""
        assert self._life is not None
        if not self._clients:
            await self._settle_in(self._life.node)
        ends_at = trio.current_time() + life_s
        operator = Operator(
            self._rng(f"operator {number}"), self.trace, self._life, self._holders, self._revoked, self._reconfigure
        )
        async with trio.open_nursery() as nursery:
            for run in (*(client.run for client in self._clients), operator.run):
                nursery.start_soon(run, lambda: trio.current_time() < ends_at)
            if dying is not None:
                await trio.sleep_until(ends_at)
                self._life.store.die()
                self._life = None
                self.trace.note(f"node {number} dies")
                dying.cancel()

    async def _settle_in(self, node: Node) -> None:
        """Make the accounts, their keys and their programs."""
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
        self._config = replace(self._config, limits=limits, breaker=breaker)

    async def _deliver(self, sent: Sent, patience_s: float) -> None:
        """Serve a request as a server would, until its end or its client's."""
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
        try:
            with trio.move_on_after(patience_s) as patience:
                await life.answer(sent)
        except Exception as exc:  # noqa: BLE001 - whatever it is, no server should have to meet it
            self.trace.hold(False, ANSWERED, f"{sent.name} met {exc!r}")
        finally:
            life.gate.leave(sent)
            sent.ended_at = trio.current_time()
        if self._life is life:
            self._check(sent, life, hung_up=patience.cancelled_caught)

    def _check(self, sent: Sent, life: Life, *, hung_up: bool) -> None:
        if sent.is_told:
            how = " replayed" if sent.is_replay else " cached" if sent.body.get("cached") else ""
            self.trace.note(f"{sent.name} got {sent.status} {sent.code} for {sent.body['credits_used']}{how}")
            check_answer(sent, self._shadow, life.store, self.trace)
        else:
            self.trace.note(f"{sent.name} hung up")
            self.trace.hold(hung_up, ANSWERED, sent.name)
        check_end(sent, self._shadow, life.store, self.trace)

    async def _rest(self, life: Life) -> None:
        await trio.sleep(REST_S)
        left = {**life.left_over(), "charges": len(self._shadow.rows.charges)}
        left["claims"] = sum(status is None for _, status, _ in self._shadow.rows.claims.values())
        self.trace.hold(not any(left.values()), AT_REST, str(left))
        violations = verify(SqliteTx(self._connection.cursor()))
        self.trace.hold(not violations, PROVED, str(violations))
        known = {account: life.node.books.balances.nowait(account) for account in self._holders}
        wrong = [
            account for account, balance in known.items() if balance not in (None, self._shadow.balances[account][-1])
        ]
        self.trace.hold(not wrong, AT_REST, f"balances in memory are {known}")
