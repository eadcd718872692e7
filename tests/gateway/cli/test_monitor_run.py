"""`sluice monitor run`: one slot, through the scheduler, with and without a running node."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.processes.commands import Commands
from tests.processes.place import Place

ADD = """
INSERT INTO monitors (id, account_id, name, recipe, params, cadence, alert_rules, webhook_format, suppress, status,
                      next_slot_at, rule_state, runs_total, credits_spent, created_at, updated_at, version)
VALUES (?, ?, 'test', 'github/profile', '{"handle": "octocat"}', '"hourly"', '[]', 'full', 0, 'active',
        ?, '{}', 0, 0, ?, ?, 0)
"""


@pytest.fixture(params=["nobody else on the store", "a node on the store"])
def place(request: pytest.FixtureRequest, place: Place, commands: Commands) -> Iterator[Place]:
    with place.sandbox() as egress:
        place.configure(upstreams={"egress": egress})
        account = place.json_of("account", "create", "--name", "test", "--credits", "100")["id"]
        now, is_alone = time.time(), request.param == "nobody else on the store"
        with closing(sqlite3.connect(place.database)) as database:
            database.execute(ADD, ("mon_1", account, now + 36_000, now, now))
            if is_alone:  # a command leaves scheduled slots to nodes
                database.execute(ADD, ("mon_due", account, now - 60.0, now, now))
            database.commit()
        if is_alone:
            yield place
            return
        with place.serve():
            yield place


def test_slot_runs_once_and_prints_its_record(place: Place) -> None:
    ended = place.operate("monitor", "run", "mon_1", "--slot", "2026-01-31T12:00:00Z")
    assert (ended.exit_code, ended.err) == (0, "")
    record = ended.json
    assert (record["monitor_id"], record["status"], record["credits_used"]) == ("mon_1", "ok", 2)
    assert record["scheduled_for"] == "2026-01-31T12:00:00.000Z"
    again = place.operate("monitor", "run", "mon_1", "--slot", "2026-01-31T12:00:00Z")
    assert again.json == record
    assert "has already run; nothing was run now" in again.err
    assert [account["balance"] for account in place.json_of("account", "list")] == [98]  # no other slot was run
    assert place.json_of("ledger", "verify")["ok"]


def test_unknown_monitor_is_rejected_in_one_line(place: Place) -> None:
    assert place.operate("monitor", "run", "mon_none").refused(1) == "unknown monitor mon_none"
