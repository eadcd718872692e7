"""Rows missing in the store while a node runs, for example after promoting a lagging standby.

Each of them used to end the node. Now it continues, logs and counts.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes.outsider import Outsider, open_outsider
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

PROFILE = "/v1/github/profile?handle="


def metric(node: Served, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (.*)$", node.admin("/metrics").body.decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def assert_serves(node: Served, key: str, handle: str) -> None:
    answered = node.get(PROFILE + handle, key)
    assert answered.status == 200, answered
    assert node.admin("/readyz").status == 200
    assert node.events("loop_failed") == []


def lose_open_charges(store: Outsider) -> None:
    """Restore the store to its state before the charges: a lagging standby lost whole transactions."""
    store.run("DELETE FROM charges")
    store.run("UPDATE keys SET used = used - (SELECT held FROM accounts WHERE accounts.id = keys.account_id)")
    store.run("UPDATE accounts SET balance = balance + held, held = 0, place = place - 1, version = version + 1")


@pytest.mark.critical
def test_node_survives_loss_of_an_open_charge(place: Place) -> None:
    with place.sandbox(latency_s=1.5) as egress, ThreadPoolExecutor() as threads:
        place.configure(upstreams={"egress": egress})
        _account, key = place.new_key()
        with open_outsider(place.store_url) as store, place.serve() as node:
            call = threads.submit(node.get, PROFILE + "octocat", key["key"])
            wait_until(lambda: store.run("SELECT COUNT(*) FROM charges") == [(1,)])
            lose_open_charges(store)
            assert call.result().status == 200, "the response is still correct"
            wait_until(lambda: metric(node, "sluice_charges_lost_total") == 1)
            assert metric(node, "sluice_charges_unfinished") == 0
            assert_serves(node, key["key"], "torvalds")
            node.wait_logged()
            assert any("is missing from the store" in line["message"] for line in node.events("library"))
            assert node.stop() == 0
            assert store.run("SELECT balance, held FROM accounts") == [(99, 0)], "only the second call was charged"
        assert place.operate("ledger", "verify").exit_code == 0


@pytest.mark.critical
def test_node_survives_loss_of_a_used_key(place: Place) -> None:
    account, key = place.new_key()
    with open_outsider(place.store_url) as store:
        other = place.json_of("key", "create", "--account", account)
        with place.serve("--sandbox") as node:
            for each in (key, other):
                assert node.get(PROFILE + "octocat", each["key"]).status == 200
            wait_until(lambda: store.run("SELECT COUNT(*) FROM charges") == [(0,)])
            for each in (key, other, other):
                assert node.get(PROFILE + "octocat", each["key"]).status == 200, "the response comes from the cache"
            store.run("DELETE FROM keys WHERE id = ?", key["id"])
            wait_until(lambda: store.run("SELECT COALESCE(SUM(hits), 0) FROM usage") == [(2 + 1,)])
            node.wait_logged()
            assert any("are missing from the store" in line["message"] for line in node.events("library"))
            assert_serves(node, other["key"], "torvalds")
            assert node.stop() == 0


@pytest.mark.critical
def test_unknown_job_kind_stays_in_the_queue(place: Place) -> None:
    account, key = place.new_key()
    with open_outsider(place.store_url) as store:
        store.run(
            "INSERT INTO jobs (id, kind, account_id, key_id, request_id, spec, status, held_credits, used_credits,"
            " waves, planned, done, empty, failed, attempt, created_at)"
            " VALUES ('job_new', 'newer.kind', ?, ?, 'req_new', '{}', 'queued', 0, 0, 1, 1, 0, 0, 0, 0, 1000.0)",
            account,
            key["id"],
        )
        for handle in ("octocat", "torvalds"):
            with place.serve("--sandbox") as node:
                assert_serves(node, key["key"], handle)
                assert node.events("job_failed") == []
                assert node.stop() == 0
        assert store.run("SELECT status, attempt FROM jobs WHERE id = 'job_new'") == [("queued", 0)]
