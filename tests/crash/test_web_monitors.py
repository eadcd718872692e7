"""A node with web monitors under repeated SIGKILL: each check is charged once and reported once."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from time import time
from typing import Any, Final

import httpx
import orjson
import trio

from tests.crash.lives import ENVIRON, settle, start
from tests.fakes.entries import nets, read_entries
from tests.fakes.outsider import open_outsider
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place

KILLS, BALANCE = 8, 10_000
HTML: Final = {"content-type": "text/html"}
CHANGING, STILL, FAILING = "changing", "still", "failing"
HOSTS: Final = (*(f"{CHANGING}{number}" for number in range(3)), STILL, f"{FAILING}0", f"{FAILING}1")
CHECK_CREDITS: Final = 2
"""A page, and the check that reads it."""
CADENCE_S: Final = 300.0
LEFT: Final = (
    "SELECT (SELECT COUNT(*) FROM runs WHERE status IN ('pending', 'running'))"
    " + (SELECT COUNT(*) FROM monitors WHERE next_slot_at <= ?)"
)


def pages() -> Any:
    """Serve pages: some change at each read, some never do, and some fail."""
    versions = count()

    def page(asked: str) -> ScriptedAnswer:
        if asked.endswith("robots.txt"):
            return ScriptedAnswer(404, b"", HTML)
        if asked.startswith(FAILING):
            return ScriptedAnswer(500, b"", HTML)
        version = next(versions) if asked.startswith(CHANGING) else 0
        text = f"It has a text that is long enough to be told, and this is version number {version} of it."
        return ScriptedAnswer(200, f"<title>A page</title><body><main><p>{text}</p></main></body>".encode(), HTML)

    return page


async def test_each_check_of_a_killed_node_is_charged_and_reported_once(tmp_path: Path, commands: Commands) -> None:
    """Goal: at any SIGKILL, a check that read its page costs 2 credits, and each check is reported by one event.

    Checks that did not read their page are free. Method: each process has a clock that is one cadence ahead of the
    previous one, so that all checks run.
    """
    rng, upstream = Random(11), Upstream()
    upstream.script = pages()
    with trio.fail_after(300), open_fleet(commands) as fleet:
        async with open_upstream(upstream) as egress:
            place = Place(tmp_path, commands, ENVIRON)
            place.configure(upstreams={"egress": egress, "defaults": {"retries": 0}}, breaker={"failures": 100_000})
            account = place.json_of(
                "account", "create", "--name", "t", "--plan", "enterprise", "--credits", str(BALANCE)
            )["id"]
            await _made(place, fleet, place.json_of("key", "create", "--account", account)["key"])
            life, met = 0, 0
            while life < KILLS or not met:
                life += 1
                node = start(place, fleet, ahead_s=life * CADENCE_S)
                await node.listening()
                await trio.sleep(rng.random() * 1.5)
                fleet.kill(node)
                met += _open_charges(place)
            for calm in (life, life + 1):  # two undisturbed processes, so that each page is read twice
                ahead_s = calm * CADENCE_S
                await settle(place, fleet, LEFT, time() + ahead_s, ahead_s=ahead_s)
    _check(place, account)
    assert place.json_of("ledger", "verify") == {"ok": True, "violations": []}


async def _made(place: Place, fleet: Fleet, key: str) -> None:
    """Create monitors of all pages. The first check of each is in progress when the node is killed."""
    node = start(place, fleet)
    url = (await node.listening())["url"]
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": key}, timeout=30) as client:
        for host in HOSTS:
            body = {"url": f"https://{host}.example.com/", "cadence_minutes": 5, "run_now": True}
            answer = await client.post("/v1/web/monitors", content=orjson.dumps(body))
            assert answer.status_code == 201, answer.content
    fleet.kill(node)


def _open_charges(place: Place) -> int:
    """Return the number of checks that were charged and in progress when the node was killed."""
    place.bury()
    with open_outsider(place.store_url) as store:
        return int(store.run("SELECT COUNT(*) FROM charges")[0][0])


def _check(place: Place, account: str) -> None:
    place.bury()
    with open_outsider(place.store_url) as store:
        runs = store.run(
            "SELECT runs.id, runs.status, runs.credits_used, monitors.web, runs.monitor_id FROM runs "
            "JOIN monitors ON monitors.id = runs.monitor_id ORDER BY runs.scheduled_for"
        )
        events = store.run("SELECT type, body FROM events WHERE type IN ('web.changed', 'web.check_failed')")
        entries = read_entries(store.run)
        (balance,) = store.run("SELECT balance FROM accounts WHERE id = ?", account)[0]
    told = Counter((kind, orjson.loads(body)["data"]["check_id"]) for kind, body in events)
    due = Counter[tuple[str, str]]()
    seen, done = set[str](), 0
    for run, status, used, web, monitor in runs:
        assert used == (CHECK_CREDITS if status == "ok" else 0), (run, status, used)
        done += status == "ok"
        if status != "ok":
            due["web.check_failed", run] += 1
        elif CHANGING in web and monitor in seen:
            due["web.changed", run] += 1
        seen |= {monitor} if status == "ok" else set()
    assert told == due, "only changes and failures are reported, each of them once"
    assert {kind for kind, _ in due} == {"web.changed", "web.check_failed"}
    assert Counter(net for net in nets(entries).values() if net) == {CHECK_CREDITS: done}, "each check is charged once"
    taken = Counter(entry.request_id for entry in entries if entry.kind == "deduction")
    assert set(taken.values()) == {1}
    assert balance == BALANCE - CHECK_CREDITS * done
