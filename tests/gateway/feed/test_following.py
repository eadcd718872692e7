"""A stream between its reads: what it reads from the client, its keepalives, and what it releases when it ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from random import Random

import pytest
import trio

from billing.keys.cache import Key
from events.filters import AppendedEvent, Filters
from events.log.pages import EventPage, Item
from events.positions import LogHead, Position
from events.waking.notifier import Hub
from gateway.feed.following import Stopped, follow
from gateway.feed.pages import PageView
from gateway.feed.polling import HELD, Polls
from limits.gate import Leases, MemoryGate
from limits.window import Window
from tests.fakes.cancelling import cancel_everywhere

KEY = Key("key_1", "acc_1", "", None)


def page(pos: int, *, items: bool = True, has_more: bool = False) -> PageView:
    end = Position(pos, 1.0)
    given = (Item(pos, 1.0, b"{}"),) if items else ()
    return PageView(EventPage(given, end, has_more, LogHead(1, 1.0, pos, 1.0)), Position(0, 0.0), Filters())


class Client:
    """A sink. The client sends what a test puts into `say`, and disconnects at None."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.beats: list[int] = []
        self.answered: list[str] = []
        self.say, self._incoming = trio.open_memory_channel[str | None](10)
        self._received: str | None = None

    async def send(self, view: PageView) -> None:
        await trio.lowlevel.checkpoint()
        self.given += [item.pos for item in view.page.items]

    async def beat(self, view: PageView) -> None:
        await trio.lowlevel.checkpoint()
        self.beats.append(view.page.end.pos)

    async def receive(self) -> None:
        self._received = await self._incoming.receive()

    async def answer(self) -> bool:
        await trio.lowlevel.checkpoint()
        if self._received is None:
            return False
        self.answered.append(self._received)
        return True


class Log:
    """Returns the given pages in order, then the last one again and again. `before` runs before each read."""

    def __init__(self, *pages: PageView, before: Callable[[int], object] = lambda _number: None) -> None:
        self._pages = pages
        self._before = before
        self.reads = 0

    async def read_on(self) -> PageView:
        await trio.lowlevel.checkpoint()
        if isawaitable(began := self._before(self.reads)):
            await began
        self.reads += 1
        return self._pages[min(self.reads, len(self._pages)) - 1]


async def is_good() -> None:
    await trio.lowlevel.checkpoint()


def polls_of(per_key: int = 5) -> Polls:
    gate = MemoryGate(Window(600), Leases(50), trio.current_time)
    return Polls(Hub(), gate, per_key, trio.current_time, Random(0))


def held(polls: Polls) -> int:
    gate = polls.gate
    assert isinstance(gate, MemoryGate)
    return gate._named[HELD].running() if HELD in gate._named else 0


def move(polls: Polls, pos: int) -> None:
    polls.hub.publish([AppendedEvent("acc_1", pos, "key.revoked", None, "key_2", None)])


async def test_cancelled_stream_frees_its_slot_and_waiter():
    polls = polls_of()

    async def stream() -> None:
        client = Client()
        log = Log(page(1, has_more=True), page(2), page(3), before=lambda number: move(polls, number + 2))
        for said in ("one", "two", None):
            client.say.send_nowait(said)
        assert await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_good) is Stopped.GONE
        assert client.answered == ["one", "two"]

    async def check_nothing_is_held(_got_through: bool) -> None:
        await trio.lowlevel.checkpoint()
        assert (len(polls.hub), held(polls)) == (0, 0)

    assert await cancel_everywhere(stream, check_nothing_is_held) >= 10


async def test_client_message_is_answered_on_a_busy_feed():
    polls, client = polls_of(), Client()
    log = Log(page(1), before=lambda number: move(polls, number + 10))
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_and_leave, client)
            stopped = await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_good)
    assert (stopped, client.answered) == (Stopped.GONE, ["hello"])


async def _say_and_leave(client: Client) -> None:
    await client.say.send("hello")
    while not client.answered:  # noqa: ASYNC110 - no event is set
        await trio.sleep(0.001)
    await client.say.send(None)


class Slow(Client):
    """Needs a second for each answer."""

    async def answer(self) -> bool:
        await trio.sleep(1)
        return await super().answer()


async def test_client_with_many_messages_delays_no_page(autojump_clock: trio.testing.MockClock):
    polls, client = polls_of(), Slow()
    log = Log(*[page(pos, has_more=True) for pos in range(1, 6)], page(6))
    for _ in range(9):
        client.say.send_nowait("again")
    client.say.send_nowait(None)
    with trio.move_on_after(5.5):
        await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_good)
    assert (client.given, client.answered) == ([1, 2, 3, 4, 5, 6], ["again"] * 5)


@pytest.mark.parametrize("has_more", [False, True])
async def test_stream_without_events_sends_keepalives_in_time(has_more: bool, autojump_clock: trio.testing.MockClock):
    polls, client = polls_of(), Client()
    polls.beat_s = 0.5
    log = Log(page(0, items=False), page(7, items=False, has_more=has_more))
    with trio.move_on_after(1.6):
        await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_good)
    assert client.beats == [7, 7, 7]


async def test_new_events_do_not_interrupt_an_answer(autojump_clock: trio.testing.MockClock):
    polls, client, log = polls_of(), Slow(), Log(page(1), page(2))
    client.say.send_nowait("hello")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(follow, polls, KEY, read_on=log.read_on, sink=client, check_key=is_good))
        await trio.sleep(0.5)
        assert client.answered == []
        move(polls, 2)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert (client.answered, client.given) == (["hello"], [1, 2])


async def test_stopping_node_ends_stream_after_the_current_page():
    polls, client = polls_of(), Client()
    log = Log(
        *[page(pos, has_more=True) for pos in range(1, 6)], before=lambda number: number == 1 and polls.hub.close()
    )
    assert await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_good) is Stopped.CLOSING
    assert client.given == [1, 2]


@pytest.mark.parametrize("has_more", [False, True])
async def test_revoked_key_gets_no_further_page(has_more: bool):
    class Revoked(Exception):
        pass

    async def is_revoked() -> None:
        await trio.lowlevel.checkpoint()
        raise Revoked

    polls, client = polls_of(), Client()
    log = Log(page(1, has_more=has_more), page(2), before=lambda _number: move(polls, 2))
    with pytest.raises(Revoked):
        await follow(polls, KEY, read_on=log.read_on, sink=client, check_key=is_revoked)
    assert (client.given, len(polls.hub), held(polls)) == ([1], 0, 0)
