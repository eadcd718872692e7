"""Refused connections, over real sockets: they close a host that callers name, whichever account made the calls."""

from __future__ import annotations

from random import Random

import pytest
import trio

from limits.breaker import Breaker, BreakerRules
from limits.errors import CircuitOpen
from tests.fakes.scripted_upstream import Upstream, json_answer, open_upstream
from upstreams.fetching.source import Rules, Source
from upstreams.model.errors import UpstreamFailed
from upstreams.model.refusals import by_status
from upstreams.transport.http import HttpCall
from upstreams.transport.pooled import open_transport

pytestmark = pytest.mark.critical
PATIENCE_S = 60.0


async def states(address: str, target: str = "/") -> tuple[list[str], str]:
    """Return whom five failed calls by one account blame, and the circuit's state for another account."""
    async with open_transport(max_connections=5) as transport:
        source = Source(
            "page", address, exchange=transport.exchange, breaker=Breaker(BreakerRules(), trio.current_time,
            needs_several=True), judge=by_status, backoff=lambda _answer: None, method_of=lambda _path: "",
            rules=Rules(retries=0), rng=Random(1), allows_any_host=True, by_page=True,
        )  # fmt: skip
        blames: list[str] = []
        with trio.fail_after(PATIENCE_S):
            for _ in range(5):
                with pytest.raises(UpstreamFailed) as failed:
                    await source.ask(HttpCall("GET", source.origin, target), trio.current_time() + 30, account_id="a")
                blames.append(failed.value.blame)
            try:
                await source.ask(HttpCall("GET", source.origin, "/good"), trio.current_time() + 30, account_id="b")
            except CircuitOpen:
                return blames, "open"
            except UpstreamFailed:
                pass
            return blames, source.breaker.state


async def closed_port() -> int:
    """Return a port on this machine on which nothing listens."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    await listener.aclose()
    return port


async def test_refused_connections_close_the_host() -> None:
    assert await states(f"http://127.0.0.1:{await closed_port()}") == (["source"] * 5, "open")


async def test_server_without_tls_closes_the_host() -> None:
    async with open_upstream(Upstream()) as address:
        assert await states(address.replace("http:", "https:")) == (["source"] * 5, "open")


async def test_failing_pages_do_not_close_the_host() -> None:
    upstream = Upstream()
    async with open_upstream(upstream) as address:
        upstream.script = lambda asked: json_answer({}, 200 if "/good" in asked else 500)
        assert await states(address) == (["request"] * 5, "closed")
        upstream.script = lambda asked: (
            json_answer({"ok": 1}) if "/good" in asked else json_answer({}, 302, location="http://%/")
        )
        assert await states(address) == (["request"] * 5, "closed")


async def test_redirects_to_a_dead_host_do_not_close_their_source() -> None:
    upstream, dead = Upstream(), f"http://127.0.0.1:{await closed_port()}/"
    async with open_upstream(upstream) as address:
        upstream.script = lambda asked: json_answer({}) if "/good" in asked else json_answer({}, 302, location=dead)
        assert await states(address) == (["request"] * 5, "closed")
