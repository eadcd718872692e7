"""The outbound proxy of a platform, on sites that a node opens from its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings
from gateway.node.sites import open_sites
from limits.errors import CircuitOpen
from tests.fakes.outbound_proxy import OutboundProxy, Serve, open_outbound_proxy
from tests.fakes.platform_fields import FIELDS
from tests.fakes.upstream_server import UpstreamServer, always, open_upstream_server, reply
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Platform
from upstreams.model.errors import UpstreamFailed
from upstreams.model.steps import Answer, Call
from upstreams.transport.origin import Origin

SECRET = "s3cr3t"
JSON = always(reply(b"{}", "Content-Type: application/json"))


class Scene:
    """A platform with a fixed host, on a node whose settings contain a proxy."""

    def __init__(self, server: UpstreamServer, proxy: OutboundProxy) -> None:
        self.server = server
        self.proxy = proxy
        self.reports: list[tuple[str, str]] = []
        self.platform = Platform(
            slug="odd",
            title="Odd",
            sources={"main": f"http://odd.example:{server.origin.port}/v1"},
            endpoints=(),
            **FIELDS,
        )
        proxy.names["odd.example"] = "127.0.0.1"

    @asynccontextmanager
    async def open_site(self, *, egress: str = "", proxied: bool = True) -> AsyncIterator[Site]:
        settings = PlatformSettings(proxy=self.proxy.url if proxied else "", retries=0)
        config = Config(upstreams=UpstreamSettings(egress=egress, platforms={"odd": settings}))
        async with open_sites(
            config,
            [self.platform],
            environ={},
            rng=Random(0),
            report_proxy=lambda slug, problem: self.reports.append((slug, problem)),
        ) as (site,):
            yield site


@asynccontextmanager
async def scene(scheme: str, serve: Serve | None = None, *, user: str = "ada") -> AsyncIterator[Scene]:
    with trio.fail_after(20):
        async with (
            open_upstream_server(JSON) as server,
            open_outbound_proxy(scheme, serve, user=user, password=SECRET) as proxy,
        ):
            yield Scene(server, proxy)


async def ask(site: Site) -> object:
    return await site.call(Call("/x"), trio.current_time() + 10)


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
async def test_calls_of_a_platform_go_through_its_proxy(scheme: str) -> None:
    async with scene(scheme) as there, there.open_site() as site:
        assert isinstance(await ask(site), Answer)
        assert there.proxy.asked == [("odd.example", there.server.origin.port)]
        (request,) = there.server.requests
        assert request.startswith(b"GET /v1/x HTTP/1.1\r\nHost: odd.example")
        assert SECRET.encode() not in request
        assert b"roxy" not in request


async def test_egress_replaces_the_proxy() -> None:
    async with scene("http") as there, there.open_site(egress=there.server.url) as site:
        assert isinstance(await ask(site), Answer)
        assert there.proxy.asked == []
        assert there.server.requests[0].startswith(b"GET /odd.example")


async def test_failures_of_the_proxy_leave_the_circuit_closed_and_are_reported() -> None:
    """Method: eight calls, more than the five failures that open a circuit."""

    async def forbid(_proxy: OutboundProxy, client: trio.SocketStream) -> None:
        await client.send_all(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    async with scene("http", forbid) as there, there.open_site() as site:
        for _ in range(8):
            with pytest.raises(UpstreamFailed, match="the outbound proxy refused the connection: status 403") as caught:
                await ask(site)
            assert caught.value.blame == "node"
            assert SECRET not in str(caught.value)
            assert "127.0.0.1" not in str(caught.value)
        assert site.sources["main"].breaker.statistics().failures == 0
        assert there.reports == [("odd", "the outbound proxy refused the connection: status 403")]


async def test_unreachable_host_behind_a_proxy_opens_the_circuit() -> None:
    async with scene("socks5h") as there:
        free = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        there.server.origin = Origin("http", "127.0.0.1", free.socket.getsockname()[1])
        await free.aclose()
        gone = Scene(there.server, there.proxy)
        async with gone.open_site() as site:
            for _ in range(5):
                with pytest.raises(UpstreamFailed, match=r"cannot connect to odd\.example: connection refused"):
                    await ask(site)
            with pytest.raises(CircuitOpen):
                await ask(site)
        assert gone.reports == []
