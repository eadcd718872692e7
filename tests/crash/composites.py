"""A node is killed repeatedly during composites and batches. All credits that were reserved are used or refunded.

The legs are fast, fail, are cut off or hang. Clients disconnect at any moment, also from streams. At the end, each
request was charged at most once, costs at most the credits that were reserved, and matches its answer if that was
received. No credits stay reserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import orjson
import trio

from tests.crash.dying import PATIENCE_S, NodeDied, ask
from tests.crash.lives import ENVIRON, start
from tests.crash.seen import Life
from tests.fakes.entries import EntryRow, nets, read_entries
from tests.fakes.outsider import open_outsider
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from upstreams.transport.http import Exchange, HttpCall, origin_of
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import open_transport

BALANCE: Final = 10_000_000
CLIENTS: Final = 12
LOAD_S_MAX, RECOVERED_S = 0.8, 60.0
TABLES: Final[Mapping[str, dict[str, object]]] = {
    "server": {"request_timeout_s": 2},
    "limits": {"requests_per_minute": 1_000_000, "concurrent_requests": 1000},
    "breaker": {"failures": 100_000},
    "log": {"access": False},
}
_ON: Final = "platforms=discourse,github,mastodon"
TARGETS: Final = (
    f"/v1/prism/creator-card?{_ON}&handle=u{{}}",
    f"/v1/prism/handle-audit?{_ON}&handle=u{{}}",
    "/v1/prism/voice?platforms=discourse,mastodon&handle=u{}",
    f"/v1/search/everywhere?{_ON}&query=trio{{}}",
    f"/v1/prism/leads?{_ON}&competitor=trio{{}}",
    f"/v1/prism/crisis-radar?{_ON}&brand=trio{{}}&confirm=true",
    "/v1/prism/comments?url=https%3A%2F%2Fmastodon.social%2F%40u%2F{}&max=200",
    "/v1/prism/org-radar?org=u{}&repos=3",
    "/v1/mastodon/profile/full?handle=u{}",
    "/v1/hackernews/omni-search?query=trio{}&threads=3",
)
"""Composites with fixed prices, with price ranges, and with walks."""
STATS: Final = "/v1/prism/post-stats"
_POSTS: Final = ("https://mastodon.social/@u/{}", "https://news.ycombinator.com/item?id={}", "https://bit.ly/{}")


@dataclass
class Report:
    """The result of a run: kills, recovered charges, and the responses of all clients."""

    kills: int = 0
    recovered: int = 0
    proved: int = 0
    """The number of responses that arrived completely, so that the ledger must have exactly their price."""
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Load:
    """The clients of one process of a node, which record their responses."""

    exchange: Exchange
    public: Origin
    key: str
    rng: Random
    counts: Counter[str]
    life: Life = field(default_factory=Life)
    is_killed: bool = False

    async def run(self) -> None:
        """Run one client: composites or batches one after the other, until the node dies."""
        while True:
            call, sent = self._call(), self.life.sent()
            hurry_s = self.rng.random() * 0.4 if self.rng.random() < 0.25 else PATIENCE_S
            with trio.move_on_after(hurry_s) as hurry:
                answer = await ask(self, call)
            if hurry.cancelled_caught:
                self.counts["hung up"] += 1
                continue
            self._note(answer.body, sent)

    def _note(self, body: bytes, sent: int) -> None:
        envelope = orjson.loads(body.rpartition(b"\ndata: ")[2] if body.startswith(b"event:") else body)
        self.counts["ok" if envelope["success"] else envelope["error"]["type"]] += 1
        if envelope["success"] and envelope["credits_used"]:
            data = envelope["data"]
            rows = data["legs"] if data["legs"] else data["results"]
            assert sum(one["credits_used"] for one in rows) == envelope["credits_used"], envelope
            self.counts["partly"] += bool(data.get("partial_failure"))
        self.life.charged(envelope["request_id"], envelope["credits_used"], sent=sent)

    def _call(self) -> HttpCall:
        number = self.rng.randrange(10_000, 10_000_000)
        accept = "text/event-stream" if self.rng.random() < 0.3 else "application/json"
        headers = (("x-api-key", self.key), ("accept", accept))
        if self.rng.random() < 0.2:
            urls = [self.rng.choice(_POSTS).format(number + place) for place in range(self.rng.randint(1, 20))]
            named = (*headers, ("content-type", "application/json"))
            return HttpCall("POST", self.public, STATS, named, orjson.dumps({"urls": urls}))
        return HttpCall("GET", self.public, self.rng.choice(TARGETS).format(number), headers)


def random_answers(rng: Random, upstream: Upstream) -> Callable[[str], ScriptedAnswer | None]:
    """An upstream whose answers arrive soon, late or never, or are failures or truncated."""

    def script(_asked: str) -> ScriptedAnswer | None:
        dice, delay_s = rng.random(), rng.random() * 0.05
        if dice < 0.15:
            return ScriptedAnswer(500, b"{}", delay_s=delay_s)
        if dice < 0.22:
            return ScriptedAnswer(404, b"{}", delay_s=delay_s)
        if dice < 0.27:
            return ScriptedAnswer(200, b'{"x": 1}' * 9, delay_s=delay_s, ending="cut")
        if dice < 0.30:
            return ScriptedAnswer(delay_s=30.0)
        upstream.behaviour.latency_s = delay_s
        return None

    return script


async def crash_run(folder: Path, commands: Commands, *, kills: int, seed: int) -> Report:
    """Kill a node this many times during composites, and verify its ledger.

    Kills continue until as many answers prove what their call cost. A slow machine needs more kills for that. The seed
    decides everything except the machine's timing.
    """
    rng, upstream, report = Random(seed), Upstream(), Report()
    upstream.script = random_answers(Random(rng.random()), upstream)
    exact, settling = dict[str, int](), dict[str, int]()
    place = Place(folder, commands, ENVIRON)
    with open_fleet(commands) as fleet:
        async with open_upstream(upstream) as egress:
            place.configure(**TABLES, upstreams={"egress": egress, "defaults": {"retries": 0}})
            account, made = place.new_key(balance=BALANCE)
            key = made["key"]
            while report.kills < kills or len(exact) < kills:
                life = await _killed(place, fleet, Random(rng.random()), key, report)
                exact |= dict(life.answers[: life.sure])
                settling |= dict(life.answers[life.sure :])
            await _recovered(place, fleet, report)
    verified = await trio.to_thread.run_sync(place.json_of, "ledger", "verify")
    assert verified == {"ok": True, "violations": []}
    with open_outsider(place.store_url) as store:
        entries = read_entries(store.run)
        (balance,) = store.run("SELECT balance FROM accounts WHERE id = ?", account)[0]
    check(entries, balance, exact, settling)
    report.proved = len(exact)
    return report


def check(entries: list[EntryRow], balance: int, exact: Mapping[str, int], settling: Mapping[str, int]) -> None:
    """Compare the ledger with the responses.

    A kill may have interrupted the settlement of the responses in `settling`.
    """
    taken = Counter(entry.request_id for entry in entries if entry.kind == "deduction")
    assert set(taken.values()) <= {1}, "no request is charged twice"
    reserved = {entry.request_id: entry.amount for entry in entries if entry.kind == "deduction"}
    net = nets(entries)
    for request_id, used in net.items():
        assert 0 <= used <= reserved.get(request_id, 0), request_id
    for request_id, used in exact.items():
        assert net.get(request_id, 0) == used, request_id
    for request_id, used in settling.items():
        assert net.get(request_id, 0) in (0, used), request_id
    assert balance == BALANCE - sum(net.values())


async def _recovered(place: Place, fleet: Fleet, report: Report) -> None:
    """Start a last node that refunds the charges left open by the previous ones."""
    started = start(place, fleet)
    await started.listening()
    with trio.fail_after(RECOVERED_S), open_outsider(place.store_url) as store:
        while store.run("SELECT count(*) FROM charges")[0][0]:  # noqa: ASYNC110 - another process sets no event
            await trio.sleep(0.05)
    fleet.kill(started)
    report.recovered += sum(event["charges"] for event in started.events("recovered"))


async def _killed(place: Place, fleet: Fleet, rng: Random, key: str, report: Report) -> Life:
    """Run one process of a node under load, ended by SIGKILL."""
    started = start(place, fleet)
    line = await started.listening()
    async with open_transport(max_connections=CLIENTS) as transport:
        load = Load(transport.exchange, origin_of(line["url"])[0], key, rng, report.counts)
        wanted = report.counts.total() + CLIENTS
        async with trio.open_nursery() as nursery:
            for _ in range(CLIENTS):
                nursery.start_soon(partial(_until_it_dies, load))
            await trio.sleep(rng.random() * LOAD_S_MAX)
            with trio.move_on_after(RECOVERED_S):
                while report.counts.total() < wanted:  # noqa: ASYNC110 - clients only count, and set no event
                    await trio.sleep(0.005)
            load.is_killed = True
            fleet.kill(started)
    report.kills += 1
    report.recovered += sum(event["charges"] for event in started.events("recovered"))
    return load.life


async def _until_it_dies(load: Load) -> None:
    try:
        await load.run()
    except NodeDied:
        return
