"""Several nodes on one PostgreSQL: whatever they do concurrently, each slot runs on only one of them."""

from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from scheduler.monitors.model.records import Monitor
from tests.scheduler.desk import Desk, open_desk
from tests.servers.postgres import PostgresServer

MONITORS = 300
HOUR = 3600.0


async def all_ended(desk: Desk, expected: int) -> None:
    count = "SELECT COUNT(*) FROM runs WHERE finished_at IS NOT NULL"
    while (await desk.store.read(lambda tx: tx.one(count)))[0] < expected:  # noqa: ASYNC110 - the other nodes' too
        await trio.sleep(0.05)


def take_turns(*desks: Desk) -> None:
    """Make the nodes start some runs each before any run ends, and then end a few runs with each commit of a node.

    Runs that all end at the same time wait for each other's accounts. On a busy machine they wait longer than the
    store's timeout: such a run is interrupted, and is retried after its lease has expired.
    """
    all_run = trio.Event()

    def turn_of(desk: Desk) -> Callable[[], Awaitable[None]]:
        turns = trio.Semaphore(4)

        async def turn() -> None:
            if all(one.recipes.asked for one in desks):
                all_run.set()
            await all_run.wait()
            async with turns:
                await desk.store.write(lambda tx: tx.run("UPDATE accounts SET held = held WHERE id = ''"))

        return turn

    for desk in desks:
        desk.recipes.turn = turn_of(desk)


async def test_each_slot_runs_on_one_of_two_ticking_nodes(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with open_desk(url, "a", is_alone=False) as one, open_desk(url, "b", is_alone=False) as other:
        accounts = [await one.account() for _ in range(15)]
        monitors: list[Monitor] = [await one.monitor(accounts[n % 15]) for n in range(MONITORS)]
        for desk in (one, other):
            desk.time += HOUR + 30.0  # later than the start times, which are spread over a minute
        take_turns(one, other)  # one node has too few slots for all runs
        async with one.clock(), other.clock():
            await all_ended(one, MONITORS)
        assert one.log.events == other.log.events == []
        asked = Counter([*one.recipes.asked, *other.recipes.asked])
        assert asked == Counter(monitor.id for monitor in monitors)
        assert one.recipes.asked
        assert other.recipes.asked
        assert sum((await one.settled()).values()) == 6 * MONITORS
        await one.assert_sound(*accounts)
        for account in accounts:
            events = await one.events(account)
            assert [event["type"] for event in events] == ["monitor.run_completed"] * (MONITORS // 15)


async def test_run_of_a_silent_node_is_resumed_by_another(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    async with open_desk(url, "a", is_alone=False) as silent, open_desk(url, "b", is_alone=False) as other:
        account = await silent.account(100)
        monitor = await silent.monitor(account)
        lease = await silent.lease(monitor)
        await other.store.write(lambda tx: tx.run("UPDATE runs SET lease_until = {now} - 1"))
        other.recipes.takes_s = 0.3
        async with other.clock():
            await all_ended(other, 1)
        await silent.runs.run(lease)  # the node was only paused, and continues
        run = await other.run_of(lease.run.id)
        assert (run.status, run.attempt, run.node) == ("ok", 2, "b")
        assert await other.settled() == {f"{run.id}.2": 6}
        assert await other.money(account) == (94, 0)
        assert len(await other.events(account)) == 1
        await other.assert_sound(account)


async def test_attempts_of_two_nodes_ending_together_settle_once(postgres: PostgresServer) -> None:
    """Goal: only one attempt settles even if both end at the same time.

    Method: many runs, each attempted by two nodes concurrently.
    """
    url = postgres.fresh()
    async with open_desk(url, "a", is_alone=False) as one, open_desk(url, "b", is_alone=False) as other:
        accounts = [await one.account() for _ in range(4)]
        leases = [await one.lease(await one.monitor(accounts[number % 4])) for number in range(40)]
        stolen = [await other.again(lease) for lease in leases]
        async with trio.open_nursery() as nursery:
            for first, second in zip(leases, stolen, strict=True):
                nursery.start_soon(one.runs.run, first)
                nursery.start_soon(other.runs.run, second)
        settled = await one.settled()
        assert len({request_id.partition(".")[0] for request_id in settled}) == len(settled)
        runs = await one.store.read(lambda tx: tx.all("SELECT id, status, credits_used FROM runs"))
        ended = {row[0]: row[2] for row in runs if row[1] == "ok"}
        assert {request_id.partition(".")[0]: used for request_id, used in settled.items()} == ended
        assert {row[1] for row in runs} == {"ok"}
        await one.assert_sound(*accounts)
        await other.assert_sound(*accounts)
