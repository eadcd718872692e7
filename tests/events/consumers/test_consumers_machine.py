"""Any order of events, reads, acknowledgements, resets, deletions, days and sweeps matches a model of plain lists.

Method: the model runs next to the real code on a database in memory, and for fewer steps on PostgreSQL. After each step
every consumer is compared, and its unread events are counted by hand.
"""

from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
import trio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from events.consumers import rules as consumer_rules
from events.consumers.rules import DAY_S, SEEN_S
from events.errors import AckBeyondServed, CursorAhead, CursorExpired, FiltersConflict, Lapsed, UnknownConsumer
from events.filters import Filters
from events.log import retention
from events.log.kinds import select
from events.log.log import Fact
from events.migrations import MIGRATIONS
from events.positions import Position
from tests.events.consumer_model import ModelConsumer, ModelEvent, ModelLog
from tests.events.desk import EPOCH, Desk, alert, low, places, revoked
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.inline_store import InlineStore
from tests.servers.postgres import PostgresServer

T = TypeVar("T")
KEYS = {"key_1": "acc_1", "key_2": "acc_1", "key_3": "acc_2"}
NAMES = st.tuples(st.sampled_from(sorted(KEYS)), st.sampled_from(["a", "b"]))
FILTERS = st.sampled_from(
    [
        Filters(),
        Filters(types=select("monitor.*")),
        Filters(types=select("credits.*,key.*")),
        Filters(subjects=frozenset({"mon_1", "key_9"})),
        Filters(types=select("monitor.*"), subjects=frozenset({"run_2"})),
    ]
)
POSITIONS = st.integers(0, 30)


def fact(account_id: str, number: int) -> Fact:
    keys = [None, *[key_id for key_id, owner in KEYS.items() if owner == account_id]]
    key_id = keys[number % len(keys)]
    return [
        low(account_id),
        revoked("key_9", account_id),
        alert("run_1", account_id=account_id, key_id=key_id),
        alert("run_2", account_id=account_id, key_id=key_id, parent_id="mon_2"),
    ][number % 4]


def wait(awaitable: Awaitable[T]) -> T:
    async def main() -> T:
        return await awaitable

    return trio.run(main)


class ConsumersMachine(RuleBasedStateMachine):
    def open_store(self) -> Any:
        return InlineStore([MIGRATIONS])

    @initialize()
    def open(self) -> None:
        self.store = self.open_store()
        self.desk = Desk(self.store)
        self.logs = {"acc_1": ModelLog(), "acc_2": ModelLog()}
        self.models: dict[tuple[str, str], ModelConsumer] = {}

    def teardown(self) -> None:
        self.store.close()

    @rule(account_id=st.sampled_from(["acc_1", "acc_2"]), numbers=st.lists(st.integers(0, 11), min_size=1, max_size=6))
    def events_are_appended(self, account_id: str, numbers: list[int]) -> None:
        log, before = self.logs[account_id], len(self.desk.told)
        wait(self.desk.append(*[fact(account_id, number) for number in numbers]))
        log.events += [ModelEvent(event, self.desk.time) for event in self.desk.told[before:]]
        assert [one.event.pos for one in log.events] == list(range(1, log.last + 1))

    @rule(half_days=st.integers(1, 40))
    def time_passes(self, half_days: int) -> None:
        self.desk.time += half_days * DAY_S / 2

    @rule(days=st.sampled_from([2, 30, 45]))
    def old_events_are_removed(self, days: int) -> None:
        wait(retention.sweep(self.store, self.desk.time, days, chunk=4, pause_s=0))
        for log in self.logs.values():
            log.retain(retention.cutoff(self.desk.time, days))

    @rule(
        who=NAMES,
        limit=st.sampled_from([1, 2, 3, 100]),
        start=st.sampled_from(["oldest", "now"]),
        filters=st.none() | FILTERS,
        times=st.integers(1, 2),
    )
    def a_consumer_is_read(
        self, who: tuple[str, str], limit: int, start: consumer_rules.Start, filters: Filters | None, times: int
    ) -> None:
        for _ in range(times):
            self._read(who, limit, start, filters)

    def _read(self, who: tuple[str, str], limit: int, start: consumer_rules.Start, filters: Filters | None) -> None:
        key_id, name = who
        log = self.logs[KEYS[key_id]]
        model = self.models.get(who)
        call = self.desk.consumers.read(KEYS[key_id], key_id, name, limit=limit, start=start, filters=filters)
        if model is None:
            place = log.first - 1 if start == "oldest" else log.last
            model = self.models[who] = ModelConsumer(log, key_id, filters or Filters(), place, self.desk.time)
        elif filters is not None and filters != model.filters:
            with pytest.raises(FiltersConflict):
                wait(call)
            return
        expected = model.read(limit, self.desk.time)
        if expected is None:
            with pytest.raises(Lapsed) as raised:
                wait(call)
            assert raised.value.committed.pos == model.committed
            return
        served = wait(call)
        page = served.page
        assert (places(page), page.end.pos, page.has_more) == (expected.items, expected.end, expected.has_more)
        assert (served.unread, served.dropped) == (expected.unread, expected.dropped)
        assert (served.restarted_from and served.restarted_from.pos) == expected.restarted_from
        assert (served.committed.pos, served.filters) == (model.committed, model.filters)
        assert page.end.at == self._at(log, page.end.pos)

    def _at(self, log: ModelLog, pos: int) -> float:
        if pos == 0:
            return 0.0
        kept = pos if pos >= log.first else min(log.first, log.last)
        return log.events[kept - 1].at

    @rule(who=NAMES, place=st.sampled_from(["served", "within", "old", "beyond", "any"]), any_pos=POSITIONS)
    def a_page_is_acknowledged(self, who: tuple[str, str], place: str, any_pos: int) -> None:
        model = self.models.get(who)
        if model is None:
            with pytest.raises(UnknownConsumer):
                wait(self.desk.consumers.ack(*who, Position(any_pos, EPOCH)))
            return
        pos = {
            "served": model.served,
            "within": (model.committed + model.served + 1) // 2,
            "old": max(0, model.committed - any_pos % 3),
            "beyond": model.served + 1,
            "any": any_pos,
        }[place]
        call = self.desk.consumers.ack(*who, Position(pos, EPOCH))
        lapsed = model.is_lapsed(self.desk.time)
        advances = model.ack(pos, self.desk.time)
        if advances is None:
            with pytest.raises(Lapsed if lapsed else AckBeyondServed):
                wait(call)
            return
        acked = wait(call)
        assert (acked.advanced, acked.committed.pos, acked.unread) == (advances, model.committed, model.unread)

    @rule(who=NAMES, pos=POSITIONS)
    def a_consumer_is_reset(self, who: tuple[str, str], pos: int) -> None:
        model = self.models.get(who)
        call = self.desk.consumers.reset(*who, Position(pos, EPOCH))
        refusal = _reset_refusal(model, pos)
        if refusal is not None or model is None:
            with pytest.raises(refusal or UnknownConsumer):
                wait(call)
            return
        model.move(pos, self.desk.time)
        assert wait(call).unread == model.unread

    @rule(who=NAMES)
    def a_consumer_is_deleted(self, who: tuple[str, str]) -> None:
        call = self.desk.consumers.delete(*who)
        if self.models.pop(who, None) is None:
            with pytest.raises(UnknownConsumer):
                wait(call)
        else:
            wait(call)

    @invariant()
    def every_consumer_matches_the_model(self) -> None:
        async def list_all() -> list[Any]:
            return [await self.desk.consumers.list(key_id) for key_id in KEYS]

        now = self.desk.time
        for key_id, listed in zip(KEYS, wait(list_all()), strict=True):
            models = sorted((name, model) for (owner, name), model in self.models.items() if owner == key_id)
            assert [one.consumer.name for one in listed] == [name for name, _ in models]
            for one, (_, model) in zip(listed, models, strict=True):
                assert (one.consumer.committed.pos, one.consumer.served.pos) == (model.committed, model.served)
                assert one.status == ("lapsed" if model.is_lapsed(now) else "idle" if model.is_idle(now) else "active")
                assert one.unread == model.unread


def _reset_refusal(model: ModelConsumer | None, pos: int) -> type[Exception] | None:
    if model is None:
        return UnknownConsumer
    if pos < model.log.first - 1:
        return CursorExpired
    return CursorAhead if pos > model.log.last else None


ConsumersMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestConsumersMachine = ConsumersMachine.TestCase


def test_stored_time_of_use_lags_less_than_a_step_of_the_model() -> None:
    """The model has the exact time of each use. The row may be up to `SEEN_S` older, which is less than a step."""
    assert SEEN_S < DAY_S / 2


def test_consumers_machine_holds_on_postgresql(postgres: PostgresServer) -> None:
    class PostgresMachine(ConsumersMachine):
        def open_store(self) -> Any:
            return InlinePostgres(postgres.fresh(), [MIGRATIONS])

    run_state_machine_as_test(
        PostgresMachine,
        settings=settings(
            max_examples=8,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.generate],
        ),
    )
