"""A node that is killed under load: the ledger holds, nothing stays held, and nobody pays for what was not answered.

Method: clients make billed calls over kept connections until the node dies under them. A charge is taken durably before
its call and settled behind the answer, so with `answered` credits named by answers and `paid` credits gone from the
balance, `paid` can lack at most each client's last answer, and can never exceed `answered`.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from random import Random
from urllib.parse import urlsplit

import orjson

from tests.fakes.sluice_process import Place, Served
from tests.fakes.waiting import wait_until

ROUNDS = 6
CLIENTS = 12
LATENCY_S = 0.02
PATHS = ("/v1/github/repo/dossier?url=https://github.com/python-trio/trio", "/v1/github/profile?handle=octocat")
CREDITS_MAX = 5


def call_until_it_dies(node: Served, key: str, path: str) -> int:
    """Credits that the answers named as used, until there are no more answers."""
    used = 0
    headers = {"x-api-key": key, "cache-control": "no-cache"}
    with closing(HTTPConnection(urlsplit(node.url).netloc, timeout=10)) as connection:
        while True:
            try:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                envelope = orjson.loads(answer.read())
            except (HTTPException, OSError):
                return used
            assert answer.status == 200, envelope
            used += envelope["credits_used"]


def load_until_killed(node: Served, key: str, *, after_s: float) -> int:
    """Credits that all clients' answers named as used; the node is killed so long after the first answer."""
    with ThreadPoolExecutor(CLIENTS) as threads:
        calls = [threads.submit(call_until_it_dies, node, key, PATHS[n % len(PATHS)]) for n in range(CLIENTS)]
        try:
            wait_until(lambda: b'sluice_requests_total{code="OK"' in node.admin("/metrics").body)
            time.sleep(after_s)
        finally:
            node.popen.kill()
        return sum(call.result() for call in calls)


def test_a_node_killed_under_load_never_overcharges(place: Place) -> None:
    rng = Random(7)
    with place.sandbox(latency_s=LATENCY_S) as egress:
        place.configure(
            upstreams={"egress": egress},
            limits={"requests_per_minute": 1_000_000, "concurrent_requests": 1000},
            log={"access": False},
        )
        balance = 1_000_000
        _, key = place.new_key(balance=balance)
        answered = recovered = 0
        for _ in range(ROUNDS):
            with place.serve() as node:
                (account,) = place.told("account", "list")
                paid, balance = balance - account["balance"], account["balance"]
                assert answered - CLIENTS * CREDITS_MAX <= paid <= answered
                assert account["held"] == 0
                assert place.told("ledger", "verify")["ok"]
                (record,) = place.told("key", "list")
                assert record["used"] == 1_000_000 - balance
                recovered += sum(event["charges"] for event in node.events("recovered"))
                answered = load_until_killed(node, key["key"], after_s=rng.random() * 0.4)
                assert answered
        assert recovered
        assert place.told("ledger", "verify")["ok"]
