"""Sessions of nodes killed with SIGKILL: the browser closes their pages, and the next node settles their credits."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from tests.fakes.chromium import Chromium
from tests.processes.commands import Commands
from tests.processes.place import Place
from tests.processes.waiting import wait_until

KILLS, BALANCE = 8, 10_000


def call(url: str, key: str, body: Any = None, method: str = "GET") -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"x-api-key": key}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def open_session(url: str, key: str) -> None:
    """Open a session and use it until the node dies."""
    body = {"url": "https://example.com/scripts/form", "ttl_seconds": 600}
    try:
        session = call(f"{url}/v1/web/sessions", key, body, "POST")["data"]["session_id"]
        while True:
            actions = [{"type": "type", "selector": "#name", "text": "Ada"}, {"type": "click", "selector": "#send"}]
            back = {"type": "goto", "url": "https://example.com/scripts/form"}
            call(f"{url}/v1/web/sessions/{session}/execute", key, {"actions": [*actions, back]}, "POST")
    except (OSError, urllib.error.URLError):
        return


def pages_open(browser: Chromium) -> int:
    with urllib.request.urlopen(f"{browser.url}/json/list", timeout=30) as answer:
        return sum(one["type"] == "page" and "example.com" in one["url"] for one in json.loads(answer.read()))


def test_sessions_of_killed_nodes_are_closed_and_settled(
    tmp_path: Path, commands: Commands, chromium: Chromium
) -> None:
    place, rng = Place(tmp_path, commands), Random(5)
    place.configure(web={"browser_url": chromium.url})
    account, made = place.new_key(balance=BALANCE)
    key = made["key"]
    for kill in range(KILLS):
        with place.serve("--sandbox") as node:
            workers = [Thread(target=open_session, args=(node.url, key)) for _ in range(2)]
            for worker in workers:
                worker.start()
            time.sleep(rng.uniform(0.0, 2.5))
            if kill == 0:  # at least one kill interrupts an open session
                wait_until(lambda: pages_open(chromium) > 0)
            node.kill()
            for worker in workers:
                worker.join()
        wait_until(lambda: pages_open(chromium) == 0)
    with place.serve("--sandbox") as node:
        sessions = f"{node.url}/v1/web/sessions?limit=100"  # on a shared store, the lease has to expire first
        wait_until(lambda: {one["status"] for one in call(sessions, key)["data"]["items"]} == {"closed"})
        found = call(sessions, key)["data"]["items"]
        assert {one["closed_because"] for one in found} <= {"node_lost", "failed"}
        assert all(one["credits"]["used"] + one["credits"]["refunded"] == one["credits"]["reserved"] for one in found)
        balance = call(f"{node.url}/v1/credits/balance", key)["data"]
        assert balance["held"] == 0
        assert balance["balance"] == BALANCE - sum(one["credits"]["used"] for one in found)
    assert place.json_of("ledger", "verify") == {"ok": True, "violations": []}
    assert account
