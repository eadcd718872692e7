"""A node's cache of ready deliveries, on a store of which each read returns only a part."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.webhooks.deliveries.due_cache import ACCOUNT_MAX, HOST_MAX, KNOWN_MAX, DueCache, Line, QueueLook
from scheduler.webhooks.deliveries.turns import DueDelivery

FROM_START: Line = ("", "")
_OLDEST, _WALKED = 5, 12


def _due(number: int, host: str = "h", account: str = "a") -> DueDelivery:
    return DueDelivery(float(number), host, account, f"d{number:06d}")


def _line(one: DueDelivery) -> Line:
    return one.host, one.account_id


def _look(
    queue: list[DueDelivery], after: Line = FROM_START, *, oldest: int = _OLDEST, walked: int = _WALKED
) -> QueueLook:
    """Return what a read of the queue would return, with smaller limits.

    These are the oldest deliveries and, if there are more, the first ones of each line.
    """
    found = sorted(queue)[:oldest]
    if len(found) < oldest:
        return QueueLook(found, set(), None, None)
    firsts: list[DueDelivery] = []
    for line in sorted({_line(one) for one in queue if _line(one) > after}):
        firsts += sorted(one for one in queue if _line(one) == line)[:HOST_MAX]
    firsts = firsts[:walked]
    last = _line(firsts[-1]) if len(firsts) == walked else None
    lengths = Counter(map(_line, firsts))
    cut = {line for line, length in lengths.items() if length == HOST_MAX or line == last}
    return QueueLook(sorted({*found, *firsts}), cut, None, last)


class _Node:
    """A node's loop with its cache, and the store's queue."""

    def __init__(self) -> None:
        self.due_cache = DueCache()
        self.queue: list[DueDelivery] = []
        self.under_way: dict[str, DueDelivery] = {}
        self.begun: list[str] = []
        self.after = FROM_START
        self.must_look = True

    def put(self, due: DueDelivery, *, told: bool) -> None:
        self.queue.append(due)
        if told:
            self.due_cache.add_queued(due)
        else:
            self.must_look = True

    def turn(self, *, free: int = 64, told_meanwhile: DueDelivery | None = None, is_seen: bool = False) -> None:
        """Read the queue if needed, and start deliveries. `told_meanwhile` is queued during the read."""
        if self.must_look:
            if told_meanwhile is not None and is_seen:
                self.queue.append(told_meanwhile)
            self.due_cache.begin_look()
            look = _look(self.queue, self.after)
            if told_meanwhile is not None:
                if not is_seen:
                    self.queue.append(told_meanwhile)
                self.due_cache.add_queued(told_meanwhile)
            self.due_cache.end_look(look, self.under_way.values(), from_start=self.after == FROM_START)
            self.after, self.must_look = look.after or FROM_START, look.after is not None
        elif told_meanwhile is not None:
            self.put(told_meanwhile, told=True)
        chosen = self.due_cache.choose(self.under_way.values(), free=free - len(self.under_way))
        for one in chosen:
            self.queue.remove(one)  # fails if a delivery is chosen twice or was never queued
            self.under_way[one.id] = one
            self.begun.append(one.id)
        self.must_look |= self.due_cache.is_short(self.under_way.values())

    def has_room_for(self, one: DueDelivery) -> bool:
        busy = self.under_way.values()
        hosts, accounts = Counter(each.host for each in busy), Counter(each.account_id for each in busy)
        return hosts[one.host] < HOST_MAX and accounts[one.account_id] < ACCOUNT_MAX


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("hij"), st.sampled_from("ab"), st.booleans()),
        st.tuples(st.just("many"), st.sampled_from("hij"), st.sampled_from("ab"), st.booleans()),
        st.tuples(st.just("meanwhile"), st.sampled_from("hij"), st.sampled_from("ab"), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 30), st.none(), st.none()),
        st.tuples(st.just("look"), st.none(), st.none(), st.none()),
    ),
    max_size=40,
)


@given(steps=_STEPS)
def test_no_ready_delivery_waits_while_there_is_room(steps: list[tuple[str, str, str, bool]]) -> None:
    """Method: a few turns after any series of queueing and ending, only deliveries without room remain."""
    node, number = _Node(), 0
    for kind, what, account, flag in steps:
        number += 100
        if kind == "end" and node.under_way:
            del node.under_way[sorted(node.under_way)[int(what) % len(node.under_way)]]
        elif kind == "look":
            node.must_look = True
        elif kind == "meanwhile":
            node.turn(told_meanwhile=_due(number, what, account), is_seen=flag)
        elif kind in ("put", "many"):
            for nth in range(30 if kind == "many" else 1):
                node.put(_due(number + nth, what, account), told=flag)
        for _ in range(200):
            before = len(node.begun)
            node.turn()
            if len(node.begun) == before and not node.must_look:
                break
        else:
            raise AssertionError("the cache reads forever")
        if len(node.under_way) < 64:
            assert not [one for one in node.queue if node.has_room_for(one)]
    assert len(node.begun) == len(set(node.begun))


def test_delivery_queued_after_a_truncated_line_waits_for_its_turn() -> None:
    node = _Node()
    for number in range(20):
        node.put(_due(number), told=False)
    node.turn()
    node.put(_due(100), told=True)
    for _ in range(12):
        del node.under_way[min(node.under_way)]
        node.turn()
    assert node.begun == [f"d{number:06d}" for number in range(20)]


def test_deliveries_without_room_stay_in_the_store() -> None:
    due_cache, under_way = DueCache(), [_due(number) for number in range(HOST_MAX)]
    for number in range(100, 200 + KNOWN_MAX):
        due_cache.add_queued(_due(number))
    due_cache.begin_look()
    due_cache.end_look(QueueLook([_due(50_000, "other")], set(), None, None), under_way, from_start=False)
    assert [one.host for one in due_cache.choose(under_way, free=64)] == ["other"]
    assert due_cache.has_more()
    assert not due_cache.is_short(under_way)
    assert due_cache.is_short(under_way[1:])


def test_failed_read_keeps_all_cached_deliveries() -> None:
    due_cache = DueCache()
    due_cache.add_queued(_due(1))
    due_cache.begin_look()
    due_cache.add_queued(_due(2))
    due_cache.end_look(None, (), from_start=True)
    assert [one.id for one in due_cache.choose((), free=64)] == ["d000001", "d000002"]
    assert not due_cache.has_more()


def test_line_with_all_known_deliveries_in_progress_is_read_again() -> None:
    due_cache, under_way = DueCache(), [_due(number) for number in range(HOST_MAX)]
    due_cache.begin_look()
    due_cache.end_look(QueueLook(under_way, {("h", "a")}, None, None), under_way, from_start=True)
    assert not due_cache.choose(under_way, free=64)
    assert due_cache.is_short(under_way[1:])
