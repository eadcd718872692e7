"""Pages on private addresses: no spelling, redirect, sitemap or name server leads a node there (issue 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from random import Random
from typing import Any
from xml.sax.saxutils import escape

import pytest
import trio

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings
from gateway.node.sites import open_sites
from limits.errors import Throttled
from scheduler.jobs.crawl.links import CrawlBounds, LinkRules
from tests.fakes.scripted_exchange import ScriptedExchange
from tests.scheduler.webhooks.receivers import OTHER_PUBLIC, PUBLIC, Resolver
from tests.upstreams.guard.test_addresses import EVASIONS
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.guard.pinned import REMEMBERED_S
from upstreams.model.errors import InvalidArgument, UpstreamError, UpstreamFailed
from upstreams.model.params import Args
from upstreams.transport.http import HttpAnswer
from upstreams.web import make_web

PAGE = HttpAnswer(200, {"content-type": "text/html"}, b"<p>A page with some words in it.</p>")
ABSENT = HttpAnswer(404, {}, b"")
PRIVATE = (
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
)
LONG_S = 60.0


@asynccontextmanager
async def open_web(exchange: ScriptedExchange, resolve: Any) -> AsyncIterator[Site]:
    """Open a node's web platform with this exchange."""

    @asynccontextmanager
    async def open_exchange(**_settings: Any) -> AsyncIterator[Any]:
        yield exchange

    config = Config(upstreams=UpstreamSettings(platforms={"web": PlatformSettings(retries=0)}))
    async with open_sites(
        config, [make_web()], environ={}, rng=Random(0), open_exchange=open_exchange, resolve=resolve
    ) as (site,):
        yield site


async def read(site: Site, url: str, resource: str = "scrape", **values: Any) -> Any:
    endpoint = next(one for one in site.platform.endpoints if one.resource == resource)
    given = {one.name: one.default for one in endpoint.params if one.default is not None}
    args = Args(endpoint.canonical({**given, "url": url, **values}), None, site.credentials, 0.0)
    return await fetch(plan(site, endpoint, args), trio.current_time() + LONG_S)


def addresses(exchange: ScriptedExchange) -> list[str]:
    return [call.origin.address for call in exchange.calls]


async def test_private_target_is_never_called_in_any_spelling() -> None:
    """A malformed end of a public URL is repaired as in browsers. Then only its public host is called."""
    for evasion, reason in EVASIONS.items():
        for url in (evasion, evasion.replace("https:", "http:", 1)):
            exchange = ScriptedExchange(*[ABSENT] * 9)
            async with open_web(exchange, Resolver([PUBLIC])) as site:
                with pytest.raises(InvalidArgument if reason in ("host", "address", "userinfo") else UpstreamError):
                    await read(site, url)
            assert {(call.origin.host, call.origin.address) for call in exchange.calls} <= {("example.com", PUBLIC)}, (
                url
            )


@pytest.mark.parametrize("found", [[address] for address in PRIVATE] + [[PUBLIC, PRIVATE[0]]])
async def test_name_with_a_private_address_is_not_called(found: Sequence[str]) -> None:
    exchange = ScriptedExchange(PAGE)
    async with open_web(exchange, Resolver(found)) as site:
        for url in ("https://a.example.org/", "http://a.example.org:8080/"):
            with pytest.raises(InvalidArgument):
                await read(site, url)
    assert exchange.calls == []


async def test_connection_goes_to_the_checked_address() -> None:
    """Goal: DNS rebinding has no effect. Method: later lookups return a private address, but the first one is used."""
    exchange, resolver = ScriptedExchange(ABSENT, PAGE), Resolver([PUBLIC], ["127.0.0.1"])
    async with open_web(exchange, resolver) as site:
        await read(site, "http://a.example.org/")
    assert addresses(exchange) == [PUBLIC, PUBLIC]
    assert len(resolver.asked) == 1


async def test_name_that_becomes_private_is_refused_on_the_next_lookup(autojump_clock: Any) -> None:
    """Method: the page redirects to itself, so no worker process runs while the clock jumps."""
    circle = HttpAnswer(302, {"location": "/"}, b"")
    exchange, resolver = ScriptedExchange(ABSENT, *[circle] * 20), Resolver([PUBLIC], ["127.0.0.1"])
    async with open_web(exchange, resolver) as site:
        with pytest.raises(UpstreamError):
            await read(site, "https://a.example.org/")
        calls = len(exchange.calls)
        await trio.sleep(REMEMBERED_S + 1)
        with pytest.raises(InvalidArgument):
            await read(site, "https://a.example.org/")
    assert set(addresses(exchange)) == {PUBLIC}
    assert len(exchange.calls) == calls


@pytest.mark.parametrize("location", [f"http://[{one}]/" if ":" in one else f"http://{one}/" for one in PRIVATE])
async def test_redirect_to_private_space_is_refused(location: str) -> None:
    for target in (location, "http://inside.example.org/"):
        away = HttpAnswer(302, {"location": target}, b"")
        exchange = ScriptedExchange(ABSENT, away, PAGE, PAGE)
        async with open_web(exchange, Resolver([PUBLIC], ["10.0.0.1"])) as site:
            with pytest.raises(UpstreamFailed):
                await read(site, "https://a.example.org/")
        assert addresses(exchange) == [PUBLIC, PUBLIC]


async def test_robots_redirect_to_private_space_is_refused() -> None:
    exchange = ScriptedExchange(HttpAnswer(301, {"location": "http://127.0.0.1/robots.txt"}, b""), PAGE)
    async with open_web(exchange, Resolver([PUBLIC])) as site:
        with pytest.raises(UpstreamFailed):
            await read(site, "https://a.example.org/")
    assert addresses(exchange) == [PUBLIC]


async def test_redirect_to_a_public_host_is_checked_separately() -> None:
    away = HttpAnswer(302, {"location": "http://b.example.org:8080/x"}, b"")
    exchange = ScriptedExchange(ABSENT, away, ABSENT, PAGE)
    async with open_web(exchange, Resolver([PUBLIC], [OTHER_PUBLIC])) as site:
        await read(site, "https://a.example.org/")
    assert addresses(exchange) == [PUBLIC, PUBLIC, OTHER_PUBLIC, OTHER_PUBLIC]
    assert [call.origin.port for call in exchange.calls] == [443, 443, 8080, 8080]


def robots(*lines: str) -> HttpAnswer:
    return HttpAnswer(200, {"content-type": "text/plain"}, "\n".join(("User-agent: *", *lines)).encode())


def targets(*outside: str) -> list[str]:
    """Every spelling of a private target, every kind of private address, and some more."""
    private = [f"http://[{one}]/" if ":" in one else f"http://{one}/" for one in PRIVATE]
    return [*EVASIONS, *private, *outside]


async def test_sitemap_cannot_lead_to_private_space() -> None:
    """Method: robots files that name every evasion, sitemaps that redirect to it, and indexes that list it."""
    inside = "http://inside.example.org/sitemap.xml"

    async def resolve(host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ["10.0.0.1"] if host == "inside.example.org" else [PUBLIC]

    every = targets(inside)
    entries = "".join(f"<sitemap><loc>{escape(one)}</loc></sitemap>" for one in every)
    listed = HttpAnswer(200, {"content-type": "text/xml"}, f"<sitemapindex>{entries}</sitemapindex>".encode())
    for begin in range(0, len(every), 40):
        some = every[begin : begin + 40]
        away = [HttpAnswer(302, {"location": one.encode("utf-8", "replace").decode("latin-1")}, b"") for one in some]
        named = robots(*(f"Sitemap: {one}" for one in some))
        led = robots(*(f"Sitemap: https://a.example.org/{place}.xml" for place in range(len(some))))
        for answers in ([named, ABSENT], [led, *away, ABSENT], [robots("Sitemap: /index.xml"), listed, ABSENT]):
            exchange = ScriptedExchange(*answers)
            async with open_web(exchange, resolve) as site:
                with suppress(UpstreamError):
                    await read(site, "https://a.example.org/", "map", sitemap="only")
            assert {call.origin.address for call in exchange.calls} == {PUBLIC}
            assert {call.origin.host for call in exchange.calls} <= {"a.example.org", "example.com"}


async def test_crawl_link_cannot_lead_to_private_space() -> None:
    """Method: the crawl finds each evasion as a link, in the spelling that it would store."""
    bounds, kept = CrawlBounds("https://a.example.org/", 1_000, external=True, backward=True), 0
    for link in targets("http://inside.example.org/"):
        page = LinkRules(bounds).page_of(link)
        if page is None:
            continue
        kept += 1
        exchange = ScriptedExchange(*[ABSENT] * 9)
        inside = "10.0.0.1" if "inside" in page else PUBLIC
        async with open_web(exchange, Resolver([inside])) as site:
            with pytest.raises(UpstreamError):
                await read(site, page)
        assert set(addresses(exchange)) <= {PUBLIC}, page
        assert not any(call.origin.host[-1].isdigit() for call in exchange.calls), f"{page} is a spelling of a number"
    assert kept > 10, "a crawl leaves most spellings to the guard"


@pytest.mark.parametrize(("lines", "apart_s"), [(("Crawl-delay: 5",), 5.0), (("Request-rate: 1/7",), 7.0)])
async def test_calls_to_a_host_respect_its_crawl_delay(
    autojump_clock: Any, lines: Sequence[str], apart_s: float
) -> None:
    exchange = ScriptedExchange(robots(*lines), ABSENT)
    async with open_web(exchange, Resolver([PUBLIC])) as site:
        for place in range(4):
            with pytest.raises(UpstreamError):
                await read(site, f"https://a.example.org/{place}")
    pages = exchange.asked_at[1:]
    assert len(pages) == 4
    assert [round(later - sooner, 3) >= apart_s for sooner, later in pairwise(pages)] == [True] * 3


async def test_call_with_too_long_a_delay_is_refused_with_the_wait(autojump_clock: Any) -> None:
    """Calls respect a delay of up to 30 s, and a crawl waits for it."""
    exchange = ScriptedExchange(robots("Crawl-delay: 900"), ABSENT)
    async with open_web(exchange, Resolver([PUBLIC])) as site:
        with pytest.raises(UpstreamError):
            await read(site, "https://a.example.org/1")
        with pytest.raises(Throttled) as told:
            await read(site, "https://a.example.org/2")
    assert told.value.retry_after_s == 30
