"""An operator's credential is sent only to its platform's fixed hosts, whatever the call or redirect."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import product
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
import trio

from gateway.config.settings import Config, PlatformSettings, SupplierSettings, UpstreamSettings
from gateway.node.sites import open_sites
from gateway.node.suppliers import open_suppliers
from limits.errors import LimitError
from tests.fakes.scripted_exchange import LONG_S
from tests.platforms.each import every_platform
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import UpstreamError
from upstreams.model.params import Args, Value
from upstreams.platforms import load_platform
from upstreams.sandbox.rehearse import example_values
from upstreams.sandbox.site import answer, request_of
from upstreams.sandbox.stand_ins import load_routes
from upstreams.suppliers import resolve_address
from upstreams.transport.http import HttpAnswer, HttpCall

ROUTES = load_routes()
NOW_AT = 1_735_689_600.0
ELSEWHERE = "elsewhere.example"


def secret(name: str) -> str:
    """Return a credential that looks like nothing else in a call."""
    return f"sEcr3t/{name}+value"


def holds_secret(call: HttpCall, names: tuple[str, ...]) -> bool:
    """Return whether a call contains a credential, either plain, percent-encoded or in Basic authentication."""
    sent = repr((call.target, call.headers, call.body))
    values = [secret(name) for name in names]
    in_base64 = [b64encode(value.encode()).decode().rstrip("=")[:-2] for value in values]
    return any(word in sent for value in values for word in (value, quote(value), quote(value, safe=""))) or any(
        word in sent for word in in_base64
    )


class Recorder:
    """Answers like the stand-ins, or redirects each GET to another host. Records the calls."""

    def __init__(self) -> None:
        self.calls: list[HttpCall] = []
        self.failing: tuple[str, ...] = ()
        self.leads_away = False

    async def exchange(self, call: HttpCall, deadline_at: float) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        self.calls.append(call)
        if call.origin.host in self.failing:
            return HttpAnswer(503, {}, b"")
        if self.leads_away and call.method == "GET" and ELSEWHERE not in call.origin.authority:
            return HttpAnswer(302, {"location": f"https://{ELSEWHERE}/x"}, b"")
        reply = answer(ROUTES, request_of(call.method, call.origin.host, call.target, call.body))
        body = reply.body.encode() if isinstance(reply.body, str) else orjson.dumps(reply.body)
        return HttpAnswer(reply.status, {name.lower(): value for name, value in reply.headers.items()}, body)


@asynccontextmanager
async def open_recorded(platform: Platform) -> AsyncIterator[tuple[Site, Recorder]]:
    """Return a platform in the form in which a node runs it, with all of its credentials."""
    recorder = Recorder()

    @asynccontextmanager
    async def open_exchange(**_settings: Any) -> AsyncIterator[Any]:
        yield recorder.exchange

    async def resolve(*_name: Any) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["93.184.215.14"]

    settings = PlatformSettings(retries=0, credentials={name: f"TEST_{name}" for name in platform.credentials})
    suppliers = {
        interface: SupplierSettings(interface=interface, key_env=f"TEST_{name}", retries=0)
        for name, interface in platform.partners.items()
    }
    config = Config(upstreams=UpstreamSettings(platforms={platform.slug: settings}), suppliers=suppliers)
    environ, rng = {f"TEST_{name}": secret(name) for name in secrets_of(platform)}, Random(0)
    async with (
        open_suppliers(config, environ=environ, rng=rng, now=lambda: NOW_AT, open_exchange=open_exchange) as opened,
        open_sites(
            config,
            [platform],
            environ=environ,
            rng=rng,
            open_exchange=open_exchange,
            resolve=resolve,
            chain_of=opened.chain,
        ) as (site,),
    ):
        assert site.credentials == {name: secret(name) for name in secrets_of(platform)}
        yield site, recorder


def secrets_of(platform: Platform) -> tuple[str, ...]:
    """Return the names of a platform's secrets: its credentials, and the keys of its suppliers."""
    return (*platform.credentials, *platform.partners)


def requests_of(endpoint: Endpoint) -> Iterator[dict[str, Value]]:
    """Return an endpoint's example values, and copies that name another host in each host parameter."""
    example = example_values(endpoint)
    yield example
    for param in endpoint.params:
        if param.is_host:
            yield {**example, param.name: "somebody.example"}


async def run(site: Site, endpoint: Endpoint, values: dict[str, Value]) -> None:
    args = Args(values, None, site.credentials, NOW_AT)
    with suppress(UpstreamError, LimitError):  # a failure does not matter here, only the calls do
        await fetch(plan(site, endpoint, args), trio.current_time() + LONG_S)


@every_platform
async def test_credentials_are_sent_only_to_their_own_hosts(platform: Platform, autojump_clock: Any) -> None:
    """Method: each endpoint with all its sources, without its first source, and with redirects to another host."""
    addresses = {name: resolve_address(url) for name, url in platform.sources.items()}
    own = {urlsplit(url).netloc for name, url in addresses.items() if platform.host_of(name) is None}
    first = urlsplit(next(iter(addresses.values()))).netloc
    modes = (((), False), ((first,), False), ((), True))
    for endpoint, (failing, leads_away) in product(platform.endpoints, modes):
        async with open_recorded(platform) as (site, recorder):  # opened again, because failures delay later calls
            recorder.failing, recorder.leads_away = failing, leads_away
            for values in requests_of(endpoint):
                await run(site, endpoint, values)
            assert recorder.calls
            for call in recorder.calls:
                if holds_secret(call, secrets_of(platform)):
                    assert call.origin.authority in own, call


async def test_check_detects_a_sent_credential(autojump_clock: Any) -> None:
    """Goal: prove that the test above can fail. Method: GitHub's token is sent to GitHub."""
    platform = load_platform("github")
    async with open_recorded(platform) as (site, recorder):
        await run(site, platform.endpoints[0], example_values(platform.endpoints[0]))
        assert all(holds_secret(call, platform.credentials) for call in recorder.calls)
