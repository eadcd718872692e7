"""After a process dies: nothing confirmed is lost, nothing stays held, and interrupted work is not charged."""

import random
import subprocess
import sys
import time
from pathlib import Path

import trio

from billing.charges.recovery import Recovered, recover
from billing.ledger.verification import verify
from tests.billing.desk import Desk, open_desk
from tests.fakes.entries import nets, read_entries

ROUNDS = 5
ROUNDS_MAX = 40
CLOSINGS_PER_ROUND = 300


async def test_recovery_refunds_open_charges_and_key_counters(desk: Desk) -> None:
    account, key = await desk.customer(credits=5000, credit_limit=5000)
    done = await desk.charges.take(desk.request(account.id, key.id, credits=10))
    await desk.charges.close(done, used=10)
    cut_off = [await desk.charges.take(desk.request(account.id, key.id, credits=2)) for _ in range(600)]
    after = desk.restarted()
    assert await recover(desk.store, now=desk.now) == Recovered(charges=600, credits=1200)
    assert await recover(desk.store, now=desk.now) == Recovered(charges=0, credits=0)
    assert (await after.accounts.get(account.id)).balance == 4990
    assert (await after.keys.get(key.id)).used == 10
    assert (await after.charges.close(cut_off[0], used=2)).credits_used == 0
    (refund, _deduction) = (
        await after.ledger.transactions(account.id, limit=9, request_id=cut_off[0].request_id)
    ).lines
    assert (refund.type, refund.amount, refund.description) == ("refund", 2, "Refund after a crash")


async def test_recovery_on_a_shared_store_only_affects_the_dead_node(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    await desk.charges.take(desk.request(account.id))
    assert await recover(desk.store, now=desk.now, node="node-2") == Recovered(0, 0)
    assert await recover(desk.store, now=desk.now, node="node-1") == Recovered(1, 1)


def test_killed_node_loses_no_confirmed_charge(store_url: str) -> None:
    """Method: kill -9 a busy process several times, until a kill has interrupted an open charge.

    Each closing that it printed must be in the ledger as printed.
    """
    account_id, key_id = trio.run(prepare, store_url)
    confirmed: dict[str, int] = {}
    recovered = rounds = 0
    while rounds < ROUNDS or (not recovered and rounds < ROUNDS_MAX):
        recovered += run_and_kill(store_url, account_id, key_id, confirmed)
        rounds += 1
    recovered += trio.run(examine, store_url, account_id, key_id, confirmed)
    assert recovered > 0, "at least one kill interrupted an open charge"
    assert len(confirmed) >= ROUNDS * CLOSINGS_PER_ROUND


async def prepare(url: str) -> tuple[str, str]:
    async with open_desk(url) as desk:
        account = await desk.accounts.create("Ada", credits=1_000_000)
        return account.id, (await desk.keys.create(account.id)).id


def run_and_kill(url: str, account_id: str, key_id: str, confirmed: dict[str, int]) -> int:
    command = [sys.executable, "-m", "tests.billing.node_under_load", url, account_id, key_id]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as node:
        assert node.stdout is not None
        recovered = int(node.stdout.readline().removeprefix("recovered "))
        for _ in range(CLOSINGS_PER_ROUND):
            note(node.stdout.readline(), confirmed)
        time.sleep(random.random() * 0.02)  # the tasks run at the same rate, and so does their output
        node.kill()
        for line in node.stdout:
            note(line, confirmed)
    return recovered


def note(line: str, confirmed: dict[str, int]) -> None:
    request_id, cost = line.split()
    confirmed[request_id] = int(cost)


async def examine(url: str, account_id: str, key_id: str, confirmed: dict[str, int]) -> int:
    async with open_desk(url) as desk:
        last = await recover(desk.store, now=desk.now)
        assert await desk.store.read(verify) == []
        costs = nets(await desk.store.read(lambda tx: read_entries(tx.all)))
        assert {request_id: costs[request_id] for request_id in confirmed} == confirmed
        account = await desk.accounts.get(account_id)
        assert (account.balance, account.held) == (1_000_000 - sum(costs.values()), 0)
        assert (await desk.keys.get(key_id)).used == sum(costs.values())
        return last.charges
