"""Pages that try to reach private addresses. The guard is the only way out of a real Chromium."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import orjson
import trio

from gateway.config.settings import Config, PlatformSettings, UpstreamSettings, WebSettings
from gateway.node.sites import make_rendering, open_sites
from tests.fakes.chromium import Chromium
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.upstreams.guard.test_addresses import EVASIONS
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.site import Site
from upstreams.guard.table import why_not_public
from upstreams.model.errors import NotFound, UpstreamError
from upstreams.model.params import Args
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.web import make_web

HOST = "https://a.example.org"
WORDS = "Words of a page that looks for ways out. " * 8
HTML = {"content-type": "text/html; charset=utf-8", "access-control-allow-origin": "*"}
LONG_S = 60.0

WAYS = """
const said = document.getElementById("said"), say = text => { said.textContent += text + " | " };
const attempt = async (name, work) => { try { await work(); say(name + " got out") } catch (e) { say(name + " held") } };
const HERE = "http://127.0.0.1:TCP", tell = (o, n) => new Promise((ok, no) => { o.onload = o.onopen = ok; o.onerror = no; n && n(o) });
attempt("fetch", () => fetch(HERE + "/fetch", {mode: "no-cors"}));
attempt("redirect", () => fetch("/inside"));
attempt("image", () => tell(new Image(), i => i.src = HERE + "/image"));
attempt("script", () => tell(document.createElement("script"), s => { s.src = HERE + "/script"; document.head.append(s) }));
attempt("events", () => tell(new EventSource(HERE + "/events")));
attempt("socket", () => tell(new WebSocket("ws://127.0.0.1:TCP/socket")));
attempt("named socket", () => tell(new WebSocket("ws://localhost:TCP/socket")));
attempt("transport", () => new WebTransport("https://127.0.0.1:UDP/transport").ready);
const inWorker = url => `fetch("${url}", {mode: "no-cors"}).then(() => postMessage("out"), () => postMessage("held"))`;
attempt("worker", () => new Promise((ok, no) => {
  const worker = new Worker(URL.createObjectURL(new Blob([inWorker(HERE + "/worker")], {type: "text/javascript"})));
  worker.onmessage = e => e.data === "out" ? ok() : no(); worker.onerror = no;
}));
attempt("shared worker", () => new Promise((ok, no) => {
  const shared = new SharedWorker("/shared.js"); shared.onerror = no; shared.port.onmessage = e => e.data === "out" ? ok() : no();
}));
attempt("service worker", async () => {
  await navigator.serviceWorker.register("/service.js"); await navigator.serviceWorker.ready;
});
navigator.sendBeacon(HERE + "/beacon", "x");
try {
  const peer = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:UDP"},
    {urls: "turn:127.0.0.1:TCP?transport=tcp", username: "a", credential: "b"}]});
  peer.createDataChannel("x"); peer.createOffer().then(offer => peer.setLocalDescription(offer));
  say("peer got out");
} catch (e) { say("peer held") }
open(HERE + "/popup");
for (const url of EVASIONS) { const image = new Image(); image.src = url; fetch(url, {mode: "no-cors"}).catch(() => 0) }
for (const url of [HERE + "/frame", "file:///etc/passwd", "chrome://version/"]) {
  const frame = document.createElement("iframe"); frame.src = url; document.body.append(frame);
}
const form = document.createElement("form"); form.action = HERE + "/form"; form.method = "post"; form.target = "inner";
const inner = document.createElement("iframe"); inner.name = "inner"; document.body.append(inner, form); form.submit();
const link = document.createElement("a"); link.href = "/file.bin"; link.download = "file.bin"; link.click();
for (const kind of ["prefetch", "preconnect", "prerender", "dns-prefetch", "modulepreload"]) {
  const hint = document.createElement("link"); hint.rel = kind; hint.href = HERE + "/" + kind; document.head.append(hint);
}
"""


class Net:
    """An exchange that chooses its answer by path, and records each call."""

    def __init__(self, pages: dict[str, HttpAnswer]) -> None:
        self.pages = pages
        self.calls: list[HttpCall] = []

    async def __call__(self, call: HttpCall, _deadline_at: float) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        self.calls.append(call)
        return self.pages.get(call.target.partition("?")[0], HttpAnswer(404, HTML, b""))


class Listeners:
    """Sockets on private addresses. `reached` contains what they received."""

    def __init__(self) -> None:
        self.reached: list[bytes] = []
        self.tcp = self.udp = 0

    async def listen(self, nursery: trio.Nursery) -> None:
        tcp: list[trio.SocketListener] = await nursery.start(trio.serve_tcp, self._take, 0)
        self.tcp = tcp[0].socket.getsockname()[1]
        udp = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        await udp.bind(("127.0.0.1", 0))
        self.udp = udp.getsockname()[1]
        nursery.start_soon(self._receive_datagrams, udp)

    async def _take(self, stream: trio.SocketStream) -> None:
        self.reached.append(await stream.receive_some(1_000))

    async def _receive_datagrams(self, udp: trio.socket.SocketType) -> None:
        with udp:
            while True:
                self.reached.append((await udp.recvfrom(1_000))[0])


@asynccontextmanager
async def open_web(net: Net, resolve: Any, browser: Chromium) -> AsyncIterator[Site]:
    @asynccontextmanager
    async def open_exchange(**_settings: Any) -> AsyncIterator[Any]:
        yield net

    config = Config(
        upstreams=UpstreamSettings(platforms={"web": PlatformSettings(retries=0)}),
        web=WebSettings(browser_url=browser.url),
    )
    async with open_sites(
        config,
        [make_web()],
        environ={},
        rng=Random(0),
        open_exchange=open_exchange,
        resolve=resolve,
        rendering=make_rendering(config),
    ) as (site,):
        yield site


async def read(site: Site, url: str, **values: Any) -> dict[str, Any]:
    endpoint = next(one for one in site.platform.endpoints if one.resource == "scrape")
    wanted = {"url": url, "wait_for": "0", "formats": "raw_html", "only_main_content": False, **values}
    args = Args(endpoint.canonical(wanted), None, site.credentials, 0.0)
    fetched = await fetch(plan(site, endpoint, args), trio.current_time() + LONG_S)
    record: dict[str, Any] = fetched.result.record  # type: ignore[union-attr]
    return record


def document(body: str) -> HttpAnswer:
    return HttpAnswer(200, HTML, f"<!doctype html><html><head></head><body><p>{WORDS}</p>{body}</body></html>".encode())


async def test_page_cannot_reach_private_space_in_any_way(chromium: Chromium) -> None:
    listeners = Listeners()
    async with trio.open_nursery() as nursery:
        await listeners.listen(nursery)
        urls = [url.replace("https:", scheme, 1) for url in EVASIONS for scheme in ("https:", "http:")]
        script = WAYS.replace("TCP", str(listeners.tcp)).replace("UDP", str(listeners.udp))
        script = f"const EVASIONS = {orjson.dumps(urls).decode()};\n{script}"
        away = f"http://127.0.0.1:{listeners.tcp}/inside"
        javascript = {"content-type": "text/javascript"}
        shared = f'onconnect = e => fetch("{away}", {{mode: "no-cors"}}).then(() => e.ports[0].postMessage("out"), () => e.ports[0].postMessage("held"))'
        net = Net(
            {
                "/": document(f'<p id="said"></p><script>{script}</script>'),
                "/inside": HttpAnswer(302, {"location": away}, b""),
                "/shared.js": HttpAnswer(200, javascript, shared.encode()),
                "/service.js": HttpAnswer(200, javascript, f'fetch("{away}")'.encode()),
                "/file.bin": HttpAnswer(200, {"content-type": "application/octet-stream"}, b"x"),
            }
        )
        async with open_web(net, Resolver([PUBLIC]), chromium) as site:
            found = await read(site, f"{HOST}/", wait_for="5000", timeout=30_000)
        said = found["content"]["raw_html"].partition('id="said">')[2].partition("</p>")[0]
        ways = dict(one.rsplit(" ", 1) if one.endswith("held") else (one, "out") for one in said.split(" | ") if one)
        assert len(ways) >= 10, said
        assert set(ways.values()) == {"held"}, said
        assert listeners.reached == []
        assert {call.origin.address: why_not_public(call.origin.address) for call in net.calls} == {
            PUBLIC: None,
            "1.2.3.4": None,  # the browser treats this spelling as a public address
        }
        nursery.cancel_scope.cancel()


async def test_page_that_navigates_to_private_space_is_refused(chromium: Chromium) -> None:
    moves = (
        '<script>location = "http://169.254.169.254/latest/meta-data/"</script>',
        '<meta http-equiv="refresh" content="0;url=http://10.0.0.1/">',
        '<script>setTimeout(() => location.replace("http://127.0.0.1:8080/"), 100)</script>',
        '<script>location = "/away"</script>',
    )
    for move in moves:
        net = Net({"/": document(move), "/away": HttpAnswer(302, {"location": "http://[::1]/"}, b"")})
        async with open_web(net, Resolver([PUBLIC]), chromium) as site:
            refusal: Exception | None = None
            try:
                await read(site, f"{HOST}/", wait_for="500")
            except UpstreamError as exc:
                refusal = exc
        assert refusal is not None, move
        assert "public" in str(refusal), refusal
        assert {call.origin.address for call in net.calls} == {PUBLIC}


async def test_dns_rebinding_has_no_effect(chromium: Chromium) -> None:
    """Goal: DNS rebinding fails. Method: later lookups return a private address, and the page calls its host again."""
    script = "for (let n = 0; n < 5; n++) setTimeout(() => fetch('/again?' + n), 100 * n)"
    net = Net({"/": document(f"<script>{script}</script>")})
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    async with open_web(net, resolver, chromium) as site:
        await read(site, f"{HOST}/", wait_for="1500")
    assert {call.origin.address for call in net.calls} == {PUBLIC}
    assert sum(call.target.startswith("/again") for call in net.calls) == 5
    assert len(resolver.asked) == 1


async def test_page_navigates_only_where_robots_allows(chromium: Chromium) -> None:
    robots = HttpAnswer(200, {"content-type": "text/plain"}, b"User-agent: *\nDisallow: /private")
    net = Net(
        {"/": document('<script>location = "/private"</script>'), "/private": document(""), "/robots.txt": robots}
    )
    reason = None
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        try:
            await read(site, f"{HOST}/", wait_for="500")
        except NotFound as exc:
            reason = exc.reason
    assert reason == "robots_disallowed"
    assert "/private" not in [call.target for call in net.calls]
