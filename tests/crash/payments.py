"""A node is killed repeatedly while Stripe reports payments: each purchase and each reversal counts once.

Buyers begin purchases, and repeat unanswered requests. The stand-in for Stripe sends the events of each purchase in any
order, several concurrently, repeatedly, and until each was answered with 200. Meanwhile credits are spent. After each
kill the store contains every event that was answered with 200. At the end the ledger, the purchases and the feed match
the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson
import trio

from gateway.node.membership import MembershipPace
from gateway.payments.checkout import WEBHOOK_PATH
from tests.crash.dying import PATIENCE_S, NodeDied, ask
from tests.crash.stripe_side import CREDITS, Stripe
from tests.fakes.entries import nets, read_entries
from tests.fakes.outsider import Outsider, open_outsider
from tests.fakes.quick_node import BEAT_S
from tests.fakes.scripted_upstream import ScriptedAnswer, Upstream, open_upstream
from tests.fakes.stores import store_at
from tests.fakes.stripe_stand_in import SECRET_KEY, WEBHOOK_SECRET, StripeStandIn, open_stripe, signature
from tests.processes.commands import Commands
from tests.processes.fleet import Fleet, open_fleet
from tests.processes.place import Place
from tests.processes.process import Process
from tests.servers.ports import free_port
from upstreams.transport.http import Exchange, HttpCall, origin_of
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import open_transport

SENDERS, BUYERS, WAITING_MAX = 6, 2, 40
LOAD_S_MAX, QUIET_S = 0.8, 120.0
ENVIRON: Final = {
    "SLUICE_SECRET": "a secret of tests, long enough",
    "STRIPE_KEY": SECRET_KEY,
    "STRIPE_WEBHOOK": WEBHOOK_SECRET,
}
PACK: Final = f'[[packs]]\nname = "starter"\ncredits = {CREDITS}\nprice_cents = 900\nplan = "starter"\n'


@dataclass
class Report:
    """The result of a run: kills, purchases, events, and all answers."""

    kills: int = 0
    paid: int = 0
    told: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Load:
    """All clients of one process of a node."""

    exchange: Exchange
    public: Origin
    key: str
    stripe: Stripe
    rng: Random
    counts: Counter[str]
    unanswered: list[str]
    """Idempotency keys of unanswered purchases, which the next process receives again."""
    is_killed: bool = False

    async def send(self) -> None:
        """Send events like Stripe, which sends an event again if its answer takes too long."""
        while True:
            id_ = self.stripe.pick()
            if id_ is None:
                await trio.sleep(0.005)
                continue
            body = self.stripe.waiting.get(id_) or self.stripe.told[id_]
            hurry_s = self.rng.random() * 0.02 if self.rng.random() < 0.1 else PATIENCE_S
            with trio.move_on_after(hurry_s) as hurry:
                status, _ = await self._post(WEBHOOK_PATH, body, ("stripe-signature", signature(body)))
                self.counts[f"event {status}"] += 1
                if status == 200:
                    self.stripe.took(id_)
            self.counts["hung up"] += hurry.cancelled_caught

    async def buy(self) -> None:
        """Act as a buyer, who repeats a request under one idempotency key until the answer has a page to pay on.

        A key that a dead node leaves in use is refused for a while, so every other purchase has a new key.
        """
        is_refused = False
        while True:
            if len(self.stripe.waiting) > WAITING_MAX:
                await trio.sleep(0.005)
                continue
            resumed = None if is_refused or not self.unanswered else self.unanswered.pop(0)
            key = resumed or f"order-{self.rng.getrandbits(64):x}"
            try:
                status, answer = await self._post(
                    "/v1/purchases", b'{"pack":"starter"}', ("x-api-key", self.key), ("idempotency-key", key)
                )
            except NodeDied:
                self.unanswered.append(key)
                raise
            self.counts[f"purchase {status}"] += 1
            is_refused = status != 201
            if not is_refused:
                self.stripe.decide(answer["data"]["purchase_id"])
            else:
                assert status in (409, 503), answer
                self.unanswered.append(key)
                await trio.sleep(0.005)

    async def spend(self) -> None:
        """Make calls that are paid with the purchased credits, as long as credits are left."""
        while True:
            target = f"/v1/github/profile?handle=u{self.rng.getrandbits(40):x}"
            status, _ = await self._asked(HttpCall("GET", self.public, target, (("x-api-key", self.key),)))
            assert status in (200, 402, 429), status  # 429 while another call has reserved the last credit
            self.counts[f"call {status}"] += 1
            await trio.sleep(self.rng.random() * 0.01)

    async def _post(self, target: str, body: bytes, *headers: tuple[str, str]) -> tuple[int, Any]:
        named = (("content-type", "application/json"), *headers)
        return await self._asked(HttpCall("POST", self.public, target, named, body))

    async def _asked(self, call: HttpCall) -> tuple[int, Any]:
        answer = await ask(self, call)
        return answer.status, orjson.loads(answer.body)


@dataclass
class CrashRun:
    """A place, its nodes, and both sides of the shop, for all processes of a node."""

    place: Place
    store_url: str
    fleet: Fleet
    rng: Random
    key: str
    stripe: Stripe
    report: Report = field(default_factory=Report)
    _unanswered: list[str] = field(default_factory=list)

    async def live(self, *, to_the_end: bool = False) -> None:
        """Run one process of a node. SIGKILL ends it at any moment, or once everything is bought and reported."""
        started = self._start()
        url = (await started.listening())["url"]
        async with open_transport(max_connections=SENDERS + BUYERS + 1) as transport, trio.open_nursery() as nursery:
            load = Load(
                transport.exchange,
                origin_of(url)[0],
                self.key,
                self.stripe,
                self.rng,
                self.report.counts,
                self._unanswered,
            )
            works = [load.send] * SENDERS + ([] if to_the_end else [load.buy] * BUYERS + [load.spend])
            for work in works:
                nursery.start_soon(partial(_until_it_dies, work))
            if to_the_end:
                await self._wait_quiet()
            else:
                wanted = len(self.stripe.told) + self.rng.randrange(1, 12)
                await trio.sleep(self.rng.random() * LOAD_S_MAX)
                with trio.fail_after(PATIENCE_S):
                    while len(self.stripe.told) < wanted:  # noqa: ASYNC110 - senders only count, and set no event
                        await trio.sleep(0.002)
            load.is_killed = True
            self.fleet.kill(started)
        self.report.kills += 1
        with open_outsider(self.store_url) as store:
            counted = {id_ for (id_,) in store.run("SELECT id FROM payment_events")}
        assert self.stripe.told.keys() <= counted, "an event that was answered with 200 was lost"

    async def _wait_quiet(self) -> None:
        with trio.fail_after(QUIET_S), open_outsider(self.store_url) as store:
            left = "SELECT count(*) FROM charges"
            while self.stripe.waiting or store.run(left)[0][0]:  # noqa: ASYNC110 - another process sets no event
                await trio.sleep(0.02)

    def _start(self) -> Process:
        """Start a node that takes over the previous one's remaining work immediately.

        On a server, it checks for work often.
        """
        pace = None
        if not self.store_url.startswith("sqlite:"):
            pace = MembershipPace(beat_s=BEAT_S)
            with open_outsider(self.store_url) as store:
                store.run("UPDATE nodes SET seen_at = 0")
        environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.place.folder), **ENVIRON}
        return self.fleet.start(self.place.config, environ, pace=pace)


async def crash_run(folder: Path, commands: Commands, *, kills: int, seed: int, store_url: str | None = None) -> Report:
    """Kill a node this many times while payments are reported, and verify the state.

    The seed decides everything except the machine's timing.
    """
    rng, upstream, url = Random(seed), Upstream(), store_url or store_at(folder / "sluice.db")
    upstream.always(ScriptedAnswer(200, b'{"id":1,"login":"octocat"}'))
    place = Place(folder, commands, ENVIRON, admin_port=0 if url.startswith("sqlite:") else free_port())
    with open_fleet(commands) as fleet:
        async with open_upstream(upstream) as egress, open_stripe(StripeStandIn()) as api_url:
            _configure(place, url, egress, api_url)
            account = place.json_of("account", "create", "--name", "buyer", "--credits", "0")["id"]
            key = place.json_of("key", "create", "--account", account)["key"]
            whole = CrashRun(place, url, fleet, rng, key, Stripe(rng))
            for _ in range(kills):
                await whole.live()
            await whole.live(to_the_end=True)
    assert await trio.to_thread.run_sync(place.json_of, "ledger", "verify") == {"ok": True, "violations": []}
    with open_outsider(url) as store:
        check(store, account, whole.stripe)
    whole.report.kills -= 1
    whole.report.told, whole.report.paid = len(whole.stripe.told), len(whole.stripe.paid)
    return whole.report


def _configure(place: Place, store_url: str, egress: str, api_url: str) -> None:
    stripe = {"secret_key_env": "STRIPE_KEY", "webhook_secret_env": "STRIPE_WEBHOOK", "api_url": api_url}
    tables: dict[str, Mapping[str, object]] = {
        "store": {"url": store_url},
        "upstreams": {"egress": egress},
        "limits": {"requests_per_minute": 1_000_000, "concurrent_requests": 1_000},
        "billing.stripe": stripe,
        "log": {"access": False},
    }
    place.configure(**tables)
    with place.config.open("a") as config:
        config.write(PACK)


def check(store: Outsider, account: str, stripe: Stripe) -> None:
    """Compare the purchases, the ledger and the feed with all events of Stripe."""
    due = stripe.paid
    rows = store.run("SELECT id, reversed, taken_back FROM pack_purchases WHERE paid_at IS NOT NULL")
    assert {purchase: reversed_ for purchase, reversed_, _ in rows} == due
    known = {id_ for (id_,) in store.run("SELECT id FROM pack_purchases")}
    assert not known & {purchase for purchase, one in stripe.reversed.items() if one is None}, "they cannot be paid"
    entries = read_entries(store.run)
    bought = [entry.amount for entry in entries if entry.description == "Credit pack starter"]
    assert bought == [CREDITS] * len(due)
    told = store.run("SELECT subject_id FROM events WHERE type = 'billing.pack_purchased'")
    assert sorted(purchase for (purchase,) in told) == sorted(due), "the feed has one event for each"
    spent = sum(cost for request, cost in nets(entries).items() if not request.startswith("reversal_"))
    taken_back = sum(taken for *_, taken in rows)
    assert taken_back <= sum(due.values())
    ((balance, held, mark),) = store.run("SELECT balance, held, mark FROM accounts WHERE id = ?", account)
    assert (balance, held) == (CREDITS * len(due) - taken_back - spent, 0)
    assert mark == "dispute" or not any(one == CREDITS for one in due.values())


async def _until_it_dies(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except NodeDied:
        return
