"""Pages of private space: no spelling, redirect, sitemap or name server leads a node there (issue 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings
from gateway.node.sites import open_sites
from tests.fakes.scripted_exchange import ScriptedExchange
from tests.scheduler.webhooks.receivers import OTHER_PUBLIC, PUBLIC, Resolver
from tests.upstreams.guard.test_addresses import EVASIONS
from upstreams.fetching.fetch import fetch, plan
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
LONG_S = 20.0


@asynccontextmanager
async def open_web(exchange: ScriptedExchange, resolve: Any) -> AsyncIterator[Site]:
    """The web as a node runs it, over this exchange."""

    @asynccontextmanager
    async def open_exchange(**_settings: Any) -> AsyncIterator[Any]:
        yield exchange

    config = Config(upstreams=UpstreamSettings(platforms={"web": PlatformSettings(retries=0)}))
    async with open_sites(
        config, [make_web()], environ={}, rng=Random(0), open_exchange=open_exchange, resolve=resolve
    ) as (site,):
        yield site


async def read(site: Site, url: str, resource: str = "scrape") -> Any:
    endpoint = next(one for one in site.platform.endpoints if one.resource == resource)
    args = Args(endpoint.canonical({"url": url}), None, site.credentials, 0.0)
    return await fetch(plan(site, endpoint, args), trio.current_time() + LONG_S)


def addresses(exchange: ScriptedExchange) -> list[str]:
    return [call.origin.address for call in exchange.calls]


async def test_no_writing_of_a_private_target_is_called() -> None:
    """Slips behind a public host are mended, as browsers do; then that host is called, and no other."""
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
async def test_a_name_with_a_private_address_is_not_called(found: Sequence[str]) -> None:
    exchange = ScriptedExchange(PAGE)
    async with open_web(exchange, Resolver(found)) as site:
        for url in ("https://a.example.org/", "http://a.example.org:8080/"):
            with pytest.raises(InvalidArgument):
                await read(site, url)
    assert exchange.calls == []


async def test_the_connection_goes_to_the_address_that_was_checked_whatever_the_name_means_by_then() -> None:
    """Goal: DNS rebinding. Method: each further look-up of the name leads inside; robots file and page go to the first."""
    exchange, resolver = ScriptedExchange(ABSENT, PAGE), Resolver([PUBLIC], ["127.0.0.1"])
    async with open_web(exchange, resolver) as site:
        await read(site, "http://a.example.org/")
    assert addresses(exchange) == [PUBLIC, PUBLIC]
    assert len(resolver.asked) == 1


async def test_a_name_that_leads_inside_later_is_refused_then(autojump_clock: Any) -> None:
    """Method: the page redirects to itself, so that no worker process is in play while the clock jumps."""
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
async def test_no_redirect_leads_inside_neither_by_address_nor_by_name(location: str) -> None:
    for target in (location, "http://inside.example.org/"):
        away = HttpAnswer(302, {"location": target}, b"")
        exchange = ScriptedExchange(ABSENT, away, PAGE, PAGE)
        async with open_web(exchange, Resolver([PUBLIC], ["10.0.0.1"])) as site:
            with pytest.raises(UpstreamFailed):
                await read(site, "https://a.example.org/")
        assert addresses(exchange) == [PUBLIC, PUBLIC]


async def test_a_redirect_of_the_robots_file_does_not_lead_inside_either() -> None:
    exchange = ScriptedExchange(HttpAnswer(301, {"location": "http://127.0.0.1/robots.txt"}, b""), PAGE)
    async with open_web(exchange, Resolver([PUBLIC])) as site:
        with pytest.raises(UpstreamFailed):
            await read(site, "https://a.example.org/")
    assert addresses(exchange) == [PUBLIC]


async def test_a_redirect_to_another_public_host_is_checked_and_pinned_by_itself() -> None:
    away = HttpAnswer(302, {"location": "http://b.example.org:8080/x"}, b"")
    exchange = ScriptedExchange(ABSENT, away, ABSENT, PAGE)
    async with open_web(exchange, Resolver([PUBLIC], [OTHER_PUBLIC])) as site:
        await read(site, "https://a.example.org/")
    assert addresses(exchange) == [PUBLIC, PUBLIC, OTHER_PUBLIC, OTHER_PUBLIC]
    assert [call.origin.port for call in exchange.calls] == [443, 443, 8080, 8080]
