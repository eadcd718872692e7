"""7.1 and 7.5, durability: refunds that the store rejected, and a node that dies before retrying them.

Method: a database trigger rejects refunds, each error response shows the cost so far, the node is killed, and
the next one must have refunded everything when it serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.calling import Answered
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine
from tests.processes.commands import Commands
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

ROUNDS = 10 if engine() == "sqlite" else 3
"""A round is the same on both engines, and most of its time is spent starting two nodes."""
BALANCE = 1000
STATUS = {"RESOURCE_NOT_FOUND": 404, "UPSTREAM_ERROR": 502, "SERVICE_UNAVAILABLE": 503}


@dataclass(frozen=True, slots=True)
class Failing:
    """A request that fails in the sandbox, and its temporary cost."""

    target: str
    code: str
    cost: int = 1
    claimed: bool = False


FAILING = (
    Failing("/v1/github/profile?handle=missing", "RESOURCE_NOT_FOUND"),
    Failing("/v1/github/repo?url=https://github.com/missing/repo", "RESOURCE_NOT_FOUND", claimed=True),
    Failing("/v1/github/repo/dossier?url=https://github.com/broken/repo", "UPSTREAM_ERROR", 5),
    Failing("/v1/hackernews/story?id=404", "RESOURCE_NOT_FOUND"),
    Failing("/v1/hackernews/profile?handle=broken", "UPSTREAM_ERROR", claimed=True),
    Failing("/v1/bluesky/profile?handle=broken.test", "UPSTREAM_ERROR"),
    Failing("/v1/bluesky/followers?handle=missing.test", "RESOURCE_NOT_FOUND"),
    Failing("/v1/stackexchange/question?id=500", "UPSTREAM_ERROR"),
    Failing("/v1/stackexchange/search?query=throttled", "SERVICE_UNAVAILABLE", claimed=True),
)


@pytest.fixture
def place(tmp_path: Path, commands: Commands) -> Place:
    """A folder with a config whose node calls each upstream once."""
    place = Place(tmp_path, commands)
    place.configure(upstreams={"defaults": {"retries": 0}}, breaker={"failures": 100})
    return place


@contextmanager
def refusing_refunds(place: Place) -> Iterator[None]:
    """Reject every refund while the block runs."""
    with open_outsider(place.store_url) as other, other.refusing("journal", "NEW.refunded > 0"):
        yield


def ask(node: Served, key: str, failing: Failing, idempotency_key: str) -> Answered:
    headers = {"idempotency-key": idempotency_key} if failing.claimed else {}
    return node.get(failing.target, key, **headers)


def statement(node: Served, key: str, request_id: str) -> list[tuple[str, int]]:
    """Return the type and the amount of a request's entries, newest first."""
    page: dict[str, Any] = node.get(f"/v1/credits/transactions?request_id={request_id}", key).json
    return [(item["type"], item["amount"]) for item in page["data"]["items"]]


def assert_pending(answer: Answered, failing: Failing) -> str:
    """Check that the response shows the temporary cost and no balance. Return its request id."""
    body = answer.json
    assert (answer.status, answer.code) == (STATUS[failing.code], failing.code), body["error"]["message"]
    assert (body["credits_used"], body["credits_remaining"]) == (failing.cost, None)
    assert answer.headers["x-credits-used"] == str(failing.cost)
    assert "x-credits-remaining" not in answer.headers
    request_id: str = body["request_id"]
    return request_id


def fail_and_kill(place: Place, key: str, number: int) -> dict[str, Failing]:
    """Run one round: a node is killed while every refund is pending. Return the requests by id."""
    with refusing_refunds(place), place.recovering().serve("--sandbox") as node:
        answers = {f: ask(node, key, f, f"{number}-{place_}") for place_, f in enumerate(FAILING)}
        pending = {assert_pending(answer, failing): failing for failing, answer in answers.items()}
        for request_id, failing in pending.items():
            assert statement(node, key, request_id) == [("deduction", -failing.cost)]
        node.popen.kill()
        node.wait()
    return pending


def assert_refunded(node: Served, key: str, pending: dict[str, Failing]) -> None:
    for request_id, failing in pending.items():
        assert statement(node, key, request_id) == [("refund", failing.cost), ("deduction", -failing.cost)]
    balance = node.get("/v1/credits/balance", key).json["data"]
    assert (balance["balance"], balance["held"]) == (BALANCE, 0)


def test_uncommitted_refunds_survive_a_crash(place: Place) -> None:
    _, key = place.new_key(balance=BALANCE)
    for number in range(ROUNDS):
        pending = fail_and_kill(place, key["key"], number)
        assert len(pending) == len(FAILING)
        with place.recovering().serve("--sandbox") as node:
            node.wait_for_recovery()
            (recovered,) = node.logged("recovered")
            assert (recovered["charges"], recovered["credits"]) == (len(FAILING), sum(f.cost for f in FAILING))
            assert_refunded(node, key["key"], pending)
            (record,) = place.json_of("key", "list")
            assert record["used"] == 0
            assert place.json_of("ledger", "verify")["ok"]
            node.popen.kill()
            node.wait()


def test_idempotency_key_with_pending_refund_is_free_after_restart(place: Place) -> None:
    """While the first node runs, the key is still claimed. Afterwards, the same request is called and billed again."""
    _, key = place.new_key(balance=BALANCE)
    claimed = Failing("/v1/github/profile?handle=broken", "UPSTREAM_ERROR", claimed=True)
    with refusing_refunds(place), place.serve("--sandbox") as node:
        assert_pending(ask(node, key["key"], claimed, "one"), claimed)
        assert ask(node, key["key"], claimed, "one").code == "IDEMPOTENCY_IN_PROGRESS"
        node.popen.kill()
        node.wait()
    with place.recovering().serve("--sandbox") as node:
        node.wait_for_recovery()
        again = node.get("/v1/github/profile?handle=octocat", key["key"], **{"idempotency-key": "one"})
        assert (again.status, again.json["credits_used"]) == (200, 1)
        assert again.json["credits_remaining"] == BALANCE - 1
        assert place.json_of("ledger", "verify")["ok"]


def test_running_node_commits_pending_refunds_when_store_returns(place: Place) -> None:
    _, key = place.new_key(balance=BALANCE)
    with place.serve("--sandbox") as node:
        with refusing_refunds(place):
            pending = {assert_pending(ask(node, key["key"], f, f"{n}"), f): f for n, f in enumerate(FAILING)}
            node.logged("charges_unfinished")
        wait_until(lambda: node.get("/v1/credits/balance", key["key"]).json["data"]["held"] == 0)
        assert_refunded(node, key["key"], pending)
        assert place.json_of("ledger", "verify")["ok"]
