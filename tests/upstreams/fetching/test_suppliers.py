"""Suppliers: which failures move a call to the next supplier, what the operator learns, and what customers never see.

All tests run in virtual time. The supplier has an invented name, key, host and words, which no customer may see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Any

import httpx
import pytest
import trio

from limits.breaker import Breaker, BreakerRules
from limits.errors import CircuitOpen, LimitError, Throttled
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import LONG_S, SILENCE, Scripted, ScriptedExchange, http_answer
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import fallbacks_of, plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules, Source
from upstreams.fetching.supplier_costs import CostPlace, SupplierCosts, UnitCost
from upstreams.fetching.suppliers import PartnerSource, Supplier
from upstreams.model.archetypes import DOSSIER
from upstreams.model.endpoint import Endpoint, Fallback, Platform, Read
from upstreams.model.errors import (
    PARTNER,
    DeclarationError,
    InvalidCursor,
    NotFound,
    PartnerUnavailable,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.fields import obj
from upstreams.model.params import Args, State
from upstreams.model.steps import Call, Fetched, Page, Single, Steps
from upstreams.model.supplier_interface import HOLD_S, Interface

trio_run = run_virtually

NAME, HOST, KEY, WORDS = "zq7-supplier", "zq7.example", "zq7-key", "zq7-words"
SECRET = "zq7"
"""Every name, host, key and message of the supplier contains this text."""
INTERFACE = Interface(
    name="zq7_interface",
    base_url=f"https://{HOST}/base",
    headers=lambda key: (("x-api-key", key),),
    docs_url="https://example.org",
    terms_url="https://example.org",
    checked_on=date(2026, 1, 1),
    succeeded="success",
    absent_words=("not found",),
    private_words=("private",),
    charged="credits_charged",
    left="credits_remaining",
    costs={"/costly": 26},
    group_of=lambda path: path,
)
FINE = http_answer({"success": True, "credits_charged": 1, "credits_remaining": 99, "name": "ada"})
DAY = 20_000
EPOCH = DAY * 86_400.0 + 3_600


def refused(status: int, message: str = "", **more: object) -> Scripted:
    """Return an error of the supplier."""
    return http_answer({"success": False, "message": f"{WORDS} {message}", **more}, status)


@dataclass(slots=True)
class Watch:
    """Records what the operator learns."""

    failures: list[UpstreamError] = field(default_factory=list)
    alerts: list[tuple[str, str]] = field(default_factory=list)

    def failed(self, supplier: str, platform: str, failure: UpstreamError) -> None:
        """Record the failure."""
        assert (supplier[: len(NAME)], platform) == (NAME, "some")
        self.failures.append(failure)

    def alert(self, supplier: str, kind: str) -> None:
        """Record the alert."""
        self.alerts.append((supplier, kind))


@dataclass(slots=True)
class Bench:
    """A platform with one endpoint at a chain of suppliers, and what each supplier answers."""

    exchanges: list[ScriptedExchange]
    suppliers: list[Supplier]
    site: Site
    watch: Watch

    async def get(self, path: str = "/profile", *, within_s: float = LONG_S) -> Fetched:
        """Return the answer of the endpoint that calls this path."""
        endpoint = next(one for one in self.site.platform.endpoints if one.resource == path.strip("/"))
        planned = plan(self.site, endpoint, Args({}, None, self.site.credentials), keeps=True)
        return await fetch(planned, trio.current_time() + within_s)

    async def refusal(self, path: str = "/profile", *, within_s: float = LONG_S) -> UpstreamError | LimitError:
        """Return the error of a call, after checking that it contains nothing about the supplier."""
        with pytest.raises((UpstreamError, LimitError)) as caught:
            await self.get(path, within_s=within_s)
        shown: BaseException | None = caught.value
        while shown is not None:  # causes are read too, as by a log of the customer's call
            assert SECRET not in f"{shown} {vars(shown)}"
            shown = shown.__cause__ or shown.__context__
        assert isinstance(caught.value, UpstreamError | LimitError)
        return caught.value


def declared(sources: Mapping[str, str], *endpoints: Endpoint) -> Platform:
    """Return a platform with these sources and endpoints."""
    return Platform(
        slug="some",
        title="Some",
        category="social",
        docs_url="https://example.org/docs",
        terms_url="https://example.org/terms",
        checked_on="2026-01-01",
        sources=sources,
        endpoints=endpoints,
    )


def reading(path: str, source: str = "") -> Read:
    """Return a read that makes one call."""

    def read(_args: Args) -> Steps:
        answer = yield Call(path, source=source)
        return Single({"body": obj(answer.body)})

    return read


def supplier_over(exchange: ScriptedExchange, name: str, watch: Watch, budget: int = 0) -> Supplier:
    """Return a supplier that answers with `exchange`."""
    source = Source(
        name,
        INTERFACE.base_url,
        exchange=exchange,
        breaker=Breaker(BreakerRules(failures=2), trio.current_time, needs_several=True),
        judge=INTERFACE.judge,
        backoff=lambda _answer: None,
        method_of=lambda _path: "",
        rules=Rules(timeout_s=20.0, retries=0),
        rng=Random(1),
        hidden=INTERFACE.hidden_error,
        address_of=INTERFACE.group_of,
    )
    costs = SupplierCosts(lambda: EPOCH + trio.current_time(), budget)
    return Supplier(name, INTERFACE, source, key=KEY, costs=costs, watch=watch)


def bench(*says: Scripted | Sequence[Scripted], budget: int = 0) -> Bench:
    """Return a platform at one supplier for each of `says`. Each falls back to the next one."""
    watch = Watch()
    exchanges = [ScriptedExchange(*(one if isinstance(one, list) else [one])) for one in says]
    names = [NAME if not place else f"{NAME}-{place}" for place in range(len(says))]
    suppliers = [supplier_over(*pair, watch, budget) for pair in zip(exchanges, names, strict=True)]
    endpoints = tuple(
        Endpoint(resource=name, summary="One.", archetype=DOSSIER, read=reading(f"/{name}"), needs=(PARTNER,))
        for name in ("profile", "costly")
    )
    platform = declared({PARTNER: "@zq7_interface"}, *endpoints)
    partner = PartnerSource(PARTNER, "some", suppliers)
    site = Site(platform, {PARTNER: partner}, credentials={PARTNER: KEY}, user_agent="test")
    return Bench(exchanges, suppliers, site, watch)


async def test_call_has_the_suppliers_address_and_key() -> None:
    made = bench(FINE)
    fetched = await made.get()
    (call,) = made.exchanges[0].calls
    assert (call.origin.host, call.target) == (HOST, "/base/profile")
    assert ("x-api-key", KEY) in call.headers
    assert (fetched.source, fetched.place) == (PARTNER, 0)
    assert made.suppliers[0].balance == 99


async def test_kept_body_has_no_data_about_the_operator() -> None:
    fetched = await bench(FINE).get()
    assert fetched.bodies == (("/some/profile", b'{"name":"ada"}'),)


@pytest.mark.parametrize(
    ("says", "kind", "reason", "alerts"),
    [
        (refused(401), PartnerUnavailable, "key_refused", ["key_refused"]),
        (refused(402), PartnerUnavailable, "unpaid", ["unpaid"]),
        (http_answer(b"<html>zq7-words", 402), PartnerUnavailable, "unpaid", ["unpaid"]),
        (refused(403), UpstreamFailed, None, []),
        (refused(404), NotFound, None, []),
        (http_answer(b"<html>zq7-words", 404), NotFound, None, []),
        (refused(400, "private account"), NotFound, "account_private", []),
        (refused(200, "User not found"), NotFound, None, []),
        (refused(200, "something else"), UpstreamFailed, None, []),
        (refused(422), UpstreamFailed, None, []),
        (http_answer({"message": WORDS}, 429, retry_after="7"), UpstreamThrottled, None, []),
        (refused(500), UpstreamFailed, None, []),
        (http_answer({}, 302, location="https://zq7-other.example/"), UpstreamFailed, None, []),
        (http_answer(b"<html>zq7-words", content_type="text/html"), UpstreamFailed, None, []),
        (http_answer(b'{"success":true,"name":"zq7-wor'), UpstreamFailed, None, []),
        (httpx.ConnectError("no address for zq7.example"), UpstreamFailed, None, []),
        (SILENCE, UpstreamFailed, None, []),
    ],
)
async def test_failures_of_the_supplier(says: Scripted, kind: type, reason: str | None, alerts: list[str]) -> None:
    made = bench(says)
    refusal = await made.refusal()
    assert type(refusal) is kind
    assert getattr(refusal, "reason", None) == reason
    assert made.watch.alerts == [(NAME, kind) for kind in alerts]
    assert len(made.watch.failures) == (kind is not NotFound)


async def test_operator_sees_the_suppliers_words() -> None:
    made = bench(refused(400, "Bad region"))
    await made.refusal()
    assert made.watch.failures[0].__notes__ == [f"status 400, {WORDS} Bad region"]


async def test_status_alone_is_not_a_definite_answer() -> None:
    by_object, by_page = await bench(refused(404)).refusal(), await bench(http_answer(b"", 404)).refusal()
    assert isinstance(by_object, NotFound)
    assert isinstance(by_page, NotFound)
    assert (by_object.by_status, by_page.by_status) == (False, True)


async def test_refused_key_stops_all_calls_until_the_hold_ends_or_is_reset() -> None:
    made = bench([refused(401), FINE])
    assert isinstance(await made.refusal(), PartnerUnavailable)
    held = await made.refusal()
    assert isinstance(held, Throttled)
    assert 0 < held.retry_after_s <= HOLD_S
    assert len(made.exchanges[0].calls) == 1
    assert made.suppliers[0].unusable == "key_refused"
    made.suppliers[0].reset()
    await made.get()
    assert made.suppliers[0].unusable is None


async def test_one_call_tries_again_after_the_hold() -> None:
    made = bench([refused(402), FINE])
    await made.refusal()
    await trio.sleep(HOLD_S)
    await made.get()


@pytest.mark.parametrize(
    "says", [refused(401), refused(402), refused(500), refused(429), SILENCE, httpx.ConnectError("away")]
)
async def test_second_supplier_answers_if_the_first_one_fails(says: Scripted) -> None:
    made = bench(says, FINE)
    fetched = await made.get(within_s=30.0)
    assert (fetched.source, fetched.rung_index) == (PARTNER, 0)
    assert [len(one.calls) for one in made.exchanges] == [1, 1]
    assert sum(one.costs.used_today for one in made.suppliers) == 1


async def test_definite_answer_of_the_first_supplier_is_final() -> None:
    made = bench(refused(404), FINE)
    assert isinstance(await made.refusal(), NotFound)
    assert not made.exchanges[1].calls


async def test_failures_of_one_path_do_not_stop_the_others() -> None:
    made = bench(refused(500))
    for _ in range(5):
        await made.refusal("/profile")
    assert made.suppliers[0].source.breaker.state == "closed"
    await made.refusal("/costly")
    assert made.suppliers[0].source.breaker.state == "open"
    assert isinstance(await made.refusal(), CircuitOpen)


async def test_isolated_platform_is_not_called() -> None:
    made = bench(FINE)
    partner = made.site.sources[PARTNER]
    partner.breaker.isolate()
    assert isinstance(await made.refusal(), CircuitOpen)
    assert (partner.breaker.state, made.suppliers[0].source.breaker.state) == ("open", "closed")
    partner.breaker.reset()
    await made.get()


async def test_costs_are_counted_by_endpoint() -> None:
    stated = http_answer({"success": True, "credits_charged": 3})
    answers = [FINE, stated, http_answer({"success": True}), refused(404, credits_charged=1), refused(500)]
    made = bench(answers)
    for _ in range(3):
        await made.get()
    await made.refusal()
    await made.refusal()
    made.exchanges[0].script(http_answer({"success": True}))
    await made.get("/costly")
    assert made.suppliers[0].costs.unstored() == [
        (CostPlace(DAY, "some", "profile"), UnitCost(5, 1, 1 + 3 + 1 + 1)),
        (CostPlace(DAY, "some", "costly"), UnitCost(1, 0, 26)),
    ]


async def test_used_budget_refuses_calls_until_midnight() -> None:
    made = bench(FINE, budget=2)
    await made.get()
    assert isinstance(await made.refusal("/costly"), PartnerUnavailable)  # it would cost 26
    await made.get()
    refusal = await made.refusal()
    assert isinstance(refusal, PartnerUnavailable)
    assert (refusal.reason, refusal.retry_after_s) == ("budget_used", 3_600)
    assert made.suppliers[0].unusable == "budget_used"
    assert len(made.exchanges[0].calls) == 2
    await trio.sleep(86_400)
    await made.get()
    assert made.suppliers[0].unusable is None


async def test_concurrent_calls_together_stay_within_the_budget() -> None:
    made = bench(FINE, budget=3)
    refusals: list[UpstreamError] = []

    async def call() -> None:
        try:
            await made.get()
        except UpstreamError as refusal:
            refusals.append(refusal)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(call)
    assert (len(made.exchanges[0].calls), len(refusals)) == (3, 7)


def test_stored_counts_of_all_nodes_count_against_the_budget() -> None:
    costs, place = SupplierCosts(lambda: EPOCH, 100), CostPlace(DAY, "some", "profile")
    costs.count("some", "profile", UnitCost(1, 0, 10), reserved=0)
    unstored = costs.unstored()
    costs.count("some", "profile", UnitCost(1, 0, 5), reserved=0)
    costs.apply_stored(unstored, DAY, 40)
    assert (costs.unstored(), costs.used_today, costs.left_today) == ([(place, UnitCost(1, 0, 5))], 45, 55)


def laddered(
    official: ScriptedExchange, supplier: ScriptedExchange, *, credentials: Sequence[str], read: Read, below: Read
) -> Site:
    """Return a platform whose endpoint reads its own source first, and then the supplier."""
    endpoint = Endpoint(
        resource="profile",
        summary="One.",
        archetype=DOSSIER,
        read=read,
        own_needs=("token",),
        fallbacks=(Fallback(source=PARTNER, read=below, needs=(PARTNER,)),),
    )
    platform = declared({"official": "https://official.test", PARTNER: "@zq7_interface"}, endpoint)
    assert platform.credentials == ("token",)
    watch = Watch()
    own = supplier_over(official, "official", watch)
    partner = PartnerSource(PARTNER, "some", [supplier_over(supplier, NAME, watch)])
    known = dict.fromkeys(credentials, "x")
    return Site(platform, {"official": own.source, PARTNER: partner}, credentials=known, user_agent="test")


@pytest.mark.parametrize(
    ("credentials", "order"),
    [
        (("token", PARTNER), ["official", PARTNER]),
        (("token",), ["official"]),
        ((PARTNER,), [PARTNER]),
        ((), None),
    ],
)
async def test_ladder_starts_at_the_first_source_with_credentials(
    credentials: tuple[str, ...], order: list[str] | None
) -> None:
    down, up = ScriptedExchange(http_answer({"message": "down"}, 503)), ScriptedExchange(FINE)
    reads = {"read": reading("/me"), "below": reading("/profile", PARTNER)}
    site = laddered(down, up, credentials=credentials, **reads)
    (endpoint,) = site.platform.endpoints
    assert site.offers(endpoint) == (order is not None)
    if order is None:
        assert site.lacks(endpoint) == ["token"]
        return
    planned = plan(site, endpoint, Args({}, None, site.credentials))
    assert (planned.rung_index, fallbacks_of(planned)) == (int("official" not in order), [1] if len(order) > 1 else [])
    if PARTNER in order:
        fetched = await fetch(planned, trio.current_time() + LONG_S)
        assert (fetched.source, fetched.rung_index, fetched.place) == (PARTNER, 1, order.index(PARTNER))


def endpoint_of(**changed: Any) -> Endpoint:
    """Return an endpoint with other fields."""
    usual = {"resource": "profile", "summary": "One.", "archetype": DOSSIER, "read": reading("/profile")}
    return Endpoint(**{**usual, **changed})


@pytest.mark.parametrize(
    ("sources", "changed", "fault"),
    [
        ({"other": "@zq7_interface"}, {"needs": ("other",)}, "must be `partner` or `partner-...`"),
        ({PARTNER: "@zq7_interface"}, {}, "`needs` must contain `partner`"),
        (
            {"official": "https://official.test", PARTNER: "@zq7_interface"},
            {"fallbacks": (Fallback(source=PARTNER, read=reading("/x", PARTNER)),)},
            "`needs` of the fallback `partner` must contain its name",
        ),
    ],
)
def test_faulty_declaration_is_reported(sources: dict[str, str], changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(fault)):
        declared(sources, endpoint_of(**changed))


async def test_cursor_leads_back_to_the_source_that_issued_it() -> None:
    def pages(source: str) -> Read:
        def read(args: Args) -> Steps:
            answer = yield Call("/pages", {"page": args.position("p", 1)}, source=source)
            return Page([{"id": obj(answer.body)["name"]}], next={"p": args.position("p", 1) + 1})

        return read

    official, supplier = ScriptedExchange(http_answer({"name": "own"})), ScriptedExchange(FINE)
    reads = {"read": pages(""), "below": pages(PARTNER)}
    site = laddered(official, supplier, credentials=(PARTNER,), **reads)
    (endpoint,) = site.platform.endpoints

    async def page(at: Site, cursor: State | None) -> Fetched:
        return await fetch(plan(at, endpoint, Args({}, cursor, at.credentials)), trio.current_time() + LONG_S)

    first = await page(site, None)
    assert isinstance(first.result, Page)
    assert first.result.next == {"p": 2, "rung": PARTNER}
    assert supplier.targets == ["/base/pages?page=1"]
    both = laddered(official, supplier, credentials=("token", PARTNER), **reads)
    second = await page(both, first.result.next)
    assert (second.source, supplier.targets[-1], official.calls) == (PARTNER, "/base/pages?page=2", [])
    with pytest.raises(InvalidCursor):
        plan(site, endpoint, Args({}, {"p": 2}, site.credentials))
