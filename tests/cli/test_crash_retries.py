"""A node that is killed while clients repeat their idempotency keys: each key is answered in the end, and paid once.

Method: every client works through keys of its own and repeats each, across kills and starts, until it has an answer.
At the end as many credits are gone as keys were answered, and each answer names a request that the ledger settled.
"""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.fakes.sluice_process import Place, Served
from tests.fakes.waiting import wait_until

STARTS = 5
CLIENTS = 8
LATENCY_S = 0.02
BALANCE = 1_000_000
RETRY_S = 0.01
GIVE_UP_S = 40.0
NET = """
SELECT request_id, SUM(CASE kind WHEN 'deduction' THEN amount WHEN 'refund' THEN -amount ELSE 0 END)
FROM ledger_entries WHERE request_id IS NOT NULL GROUP BY request_id
"""
CLAIMS = "SELECT owner, status FROM claims"


@dataclass
class Shared:
    """What clients and the killer tell each other; the address changes with each start."""

    key: str
    url: str = ""
    stopping: bool = False
    answered: dict[str, str] = field(default_factory=dict)
    give_up_at: float = field(default_factory=lambda: time.monotonic() + GIVE_UP_S)

    def work(self, client: int) -> None:
        """One key after another, each until its answer."""
        number = 0
        while not self.stopping:
            self._until_answered(f"client-{client}-{number}")
            number += 1

    def _until_answered(self, idempotency_key: str) -> None:
        while idempotency_key not in self.answered:
            assert time.monotonic() < self.give_up_at, f"no answer to {idempotency_key}"
            for envelope in self._answers(idempotency_key):
                if envelope["success"]:
                    self.answered[idempotency_key] = envelope["request_id"]
                    return
                assert envelope["error"]["type"] in ("IDEMPOTENCY_IN_PROGRESS", "SERVICE_UNAVAILABLE"), envelope
            time.sleep(RETRY_S)

    def _answers(self, idempotency_key: str) -> Iterator[Any]:
        """The answers over one connection until it breaks."""
        headers = {"x-api-key": self.key, "cache-control": "no-cache", "idempotency-key": idempotency_key}
        with closing(HTTPConnection(urlsplit(self.url).netloc, timeout=10)) as connection:
            while True:
                try:
                    connection.request("GET", "/v1/github/profile?handle=octocat", headers=headers)
                    yield orjson.loads(connection.getresponse().read())
                except (HTTPException, OSError):
                    return
                time.sleep(RETRY_S)


@contextmanager
def ended_at_last(shared: Shared) -> Iterator[None]:
    """Whatever happens in the block, no client works on behind it."""
    try:
        yield
    finally:
        shared.stopping, shared.give_up_at = True, 0.0


def kill_under_load(node: Served, shared: Shared, *, after_s: float) -> None:
    """Kill it so long after it has answered a few keys."""
    before = len(shared.answered)
    wait_until(lambda: len(shared.answered) > before + CLIENTS)
    time.sleep(after_s)
    node.popen.kill()


def serve_and_kill(place: Place, shared: Shared) -> int:
    """Run the clients over several starts, the last of which lives until all are answered; charges recovered."""
    rng, recovered = Random(11), 0
    working: list[Future[None]] = []
    with ThreadPoolExecutor(CLIENTS) as threads, ended_at_last(shared):
        for number in range(STARTS):
            with place.serve() as node:
                shared.url = node.url
                recovered += sum(event["charges"] for event in node.events("recovered"))
                working = working or [threads.submit(shared.work, client) for client in range(CLIENTS)]
                if number < STARTS - 1:
                    kill_under_load(node, shared, after_s=rng.random() * 0.3)
                    continue
                shared.stopping = True
                for one in working:
                    one.result()
    return recovered


def rows(place: Place, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(place.database)) as connection:
        return connection.execute(sql).fetchall()


def test_each_idempotency_key_is_paid_once_however_often_the_node_is_killed(place: Place) -> None:
    with place.sandbox(latency_s=LATENCY_S) as egress:
        place.configure(
            upstreams={"egress": egress},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1000},
            log={"access": False},
        )
        _, key = place.new_key(balance=BALANCE)
        shared = Shared(key["key"])
        assert serve_and_kill(place, shared), "no kill found a call under way"
    paid = {request_id: net for request_id, net in rows(place, NET) if net}
    assert paid == dict.fromkeys(shared.answered.values(), 1)
    assert len(paid) == len(shared.answered), "two keys never share a request"
    (account,) = place.told("account", "list")
    assert (account["balance"], account["held"]) == (BALANCE - len(paid), 0)
    assert {(owner, status) for owner, status in rows(place, CLAIMS)} == {(owner, 200) for owner in paid}
    assert place.told("ledger", "verify")["ok"]
