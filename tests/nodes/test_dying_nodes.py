"""Nodes that die or stand still while they hold charges: others refund them once, and nobody pays for what was lost."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import trio

from tests.fakes.commands import Commands
from tests.nodes.fleet import BALANCE, LOOK_EVERY_S, Fleet, open_fleet
from tests.nodes.node import PACE
from tests.servers.postgres import PostgresServer

CLIENTS = 6
LOAD_S = 1.0
RECOVERED_WITHIN_S = 60.0
CRASH_REFUNDS = "SELECT request_id FROM ledger_entries WHERE description = 'Refund after a crash' ORDER BY request_id"


def recovered(fleet: Fleet, *numbers: int) -> int:
    """How many charges these nodes have refunded for others."""
    return sum(event["charges"] for number in numbers for event in fleet.nodes[number].events("recovered"))


async def test_what_a_node_killed_under_load_left_open_is_refunded_once_by_the_others(
    tmp_path: Path, postgres: PostgresServer, commands: Commands
) -> None:
    """Goal: no overcharge, nothing lost, nothing held for longer than a minute, though two nodes race for the dead."""
    with trio.fail_after(120):
        async with open_fleet(tmp_path, postgres.fresh(), commands, count=3) as fleet:
            fleet.upstream.behaviour.latency_s = 0.05
            async with trio.open_nursery() as clients:
                for node in fleet.nodes:
                    for _ in range(CLIENTS):
                        clients.start_soon(fleet.load, node)
                await trio.sleep(LOAD_S)
                fleet.nodes[0].signal(signal.SIGKILL)
                fleet.nodes[0].wait()
                died_at = time.monotonic()
                await trio.sleep(LOAD_S)  # the others find out under load
                clients.cancel_scope.cancel()
            assert len(fleet.told) > CLIENTS
            await fleet.until_nothing_is_held()
            assert time.monotonic() - died_at < RECOVERED_WITHIN_S
            costs = fleet.assert_sound()
            refunded = [request_id for (request_id,) in fleet.rows(CRASH_REFUNDS)]
            assert len(set(refunded)) == len(refunded) == recovered(fleet, 1, 2) > 0
            # Whoever was answered has paid what he was told, or nothing if the kill came before the settlement.
            assert {id_: costs[id_] for id_ in fleet.told if costs[id_]}.items() <= fleet.told.items()
            assert {id_ for id_ in fleet.told if not costs[id_]} <= set(refunded)
            assert not fleet.nodes[1].events("declared_dead")
            assert not fleet.nodes[2].events("declared_dead")


async def test_a_node_that_stood_still_is_overcharging_nobody_and_goes_on_under_another_name(
    tmp_path: Path, postgres: PostgresServer, commands: Commands
) -> None:
    """Method: SIGSTOP while calls are under way, until another has refunded them; their answers come after that."""
    with trio.fail_after(120):
        async with open_fleet(tmp_path, postgres.fresh(), commands, count=2) as fleet:
            paused, other = fleet.nodes
            fleet.upstream.behaviour.latency_s = 0.5
            async with trio.open_nursery() as clients:
                for number in range(6):
                    headers = {"idempotency-key": f"key-{number}"} if number % 2 else {}
                    clients.start_soon(lambda headers=headers: fleet.ask(paused, **headers))
                while fleet.held() < 6:  # noqa: ASYNC110 - a database sets no event
                    await trio.sleep(LOOK_EVERY_S)
                paused.signal(signal.SIGSTOP)
                await fleet.until_nothing_is_held()
                paused.signal(signal.SIGCONT)
            late = dict(fleet.told)
            assert len(late) == 6
            assert sum(fleet.assert_sound().values()) == 0
            while not paused.events("declared_dead"):  # noqa: ASYNC110 - neither does a log
                await trio.sleep(LOOK_EVERY_S)
            first = (await fleet.ask(paused))["request_id"]
            await trio.sleep(2 * PACE.dead_after_s)
            second = (await fleet.ask(paused, **{"idempotency-key": "key-1"}))["request_id"]
            await fleet.until_nothing_is_held()
            assert {id_: cost for id_, cost in fleet.assert_sound().items() if cost} == {first: 1, second: 1}
            assert recovered(fleet, 1) == 6
            assert recovered(fleet, 0) == len(other.events("declared_dead")) == 0
            assert fleet.rows("SELECT COUNT(*) FROM nodes WHERE taken_at IS NULL") == [(2,)]


async def test_nodes_that_stop_cleanly_leave_nothing_to_recover(
    tmp_path: Path, postgres: PostgresServer, commands: Commands
) -> None:
    with trio.fail_after(60):
        async with open_fleet(tmp_path, postgres.fresh(), commands, count=2) as fleet:
            fleet.upstream.behaviour.latency_s = 0.1
            async with trio.open_nursery() as clients:
                for _ in range(CLIENTS):
                    clients.start_soon(fleet.ask, fleet.nodes[0])
                await trio.sleep(0.05)
                fleet.nodes[0].signal(signal.SIGTERM)
            assert await trio.to_thread.run_sync(fleet.nodes[0].wait) == 0
            assert fleet.held() == 0
            assert fleet.rows("SELECT COUNT(*) FROM nodes") == [(1,)]
            assert fleet.assert_sound() == fleet.told
            assert fleet.rows("SELECT balance FROM accounts") == [(BALANCE - CLIENTS,)]
