"""Pages that use as much CPU and memory as they can, in a real Chromium, next to another account's pages."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio

from tests.fakes.chromium import Chromium
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.upstreams.web.browser.test_nowhere import HOST, Net, document, open_web
from tests.upstreams.web.browser.test_rendering import TEXT, browser_circuit, open_node
from tests.upstreams.web.test_scraping import HOST as HOST_OF_SITE
from tests.upstreams.web.test_scraping import page, scrape, serve
from upstreams.fetching.site import Site
from upstreams.model.errors import InvalidArgument, PageTooCostly, WorkersBusy
from upstreams.transport.http import HttpCall
from upstreams.transport.origin import Origin
from upstreams.web.browser.actions import Action
from upstreams.web.browser.browser import Browser
from upstreams.web.browser.held_pages import HeldPages
from upstreams.web.browser.processes import LocalBrowser, local_browser
from upstreams.web.browser.renderers import PageBounds
from upstreams.web.browser.rendering import Rendering
from upstreams.web.browser.wanted import RenderedPage, RenderWanted

LONG_S = 240.0
LOOP = "<script>for (;;);</script>"
IN_WORKER = "new Worker(URL.createObjectURL(new Blob([`%s`], {type: 'text/javascript'})))"
FILL = (
    "const all = []; for (let n = 0; n < 64; n++) { const one = new Uint8Array(2 ** 24); one.fill(7); all.push(one) }"
)
"""Use a gigabyte in typed arrays, which are not part of the script's heap."""
BOUNDS = PageBounds(cpu_s=0.5, cpu_share=0.0, memory_bytes=400_000_000)
DIALOGS = "<script>for (;;) alert(1)</script>"
FRAMES = "<script>setInterval(() => { const f = document.createElement('iframe'); document.body.append(f); f.remove() })</script>"
VISITS = "<script>setInterval(() => { location.href = '/?' + Math.random() })</script>"


def rendering_of(browser: Chromium, site: Site, net: Net, *, pages_max: int = 4) -> Rendering:
    rendering = Rendering(Browser(browser.url, bounds=BOUNDS), pages_max=pages_max)
    rendering.join(site, net)
    return rendering


def call_of(body: str, account_id: str = "a", **wanted: int) -> HttpCall:
    """Return the request to render a page with this body."""
    html = document(body).body
    asked = RenderWanted(url=f"{HOST}/", status=200, headers={}, body=html, account_id=account_id, **wanted)  # type: ignore[arg-type]
    return HttpCall("POST", Origin("https", "browser", 443), "/", body=msgspec.msgpack.encode(asked))


async def render(rendering: Rendering, body: str, account_id: str = "a", **wanted: int) -> RenderedPage:
    answer = await rendering.exchange(call_of(body, account_id, **wanted), trio.current_time() + LONG_S)
    return msgspec.msgpack.decode(answer.body, type=RenderedPage)


@pytest.mark.critical
async def test_endless_scripts_of_one_account_do_not_block_another(chromium: Chromium) -> None:
    """Goal: an account does not wait for another account's scripts.

    Method: the attacker requests more pages than exist.
    """
    net, ended = Net({}), list[RenderedPage]()
    async with open_web(net, Resolver([PUBLIC]), chromium) as site, trio.open_nursery() as nursery:
        rendering = rendering_of(chromium, site, net, pages_max=2)

        async def attack() -> None:
            ended.append(await render(rendering, "<p></p>", "hostile", wait_ms=200_000))

        for _ in range(4):
            nursery.start_soon(attack)
        while rendering.browser.pages_open < 1:  # noqa: ASYNC110 - a page sets no event
            await trio.sleep(0.05)
        with trio.fail_after(LONG_S / 2):
            shown = await render(rendering, "<p>Other</p>", "other")
        assert ("Other" in shown.html, shown.is_costly, ended) == (True, False, [])
        assert rendering.browser.pages_open == 1, "a hostile account has at most one of the two pages"
        nursery.cancel_scope.cancel()


@pytest.mark.critical
async def test_endless_pages_are_stopped_and_costly(chromium: Chromium) -> None:
    net = Net({})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        rendering = rendering_of(chromium, site, net)
        for body in (LOOP, f"<script>{IN_WORKER % 'for (;;);'}</script>", DIALOGS, FRAMES, VISITS):
            net.pages["/"] = document(body)
            rendered = await render(rendering, body, wait_ms=30_000)
            assert (rendered.is_costly, rendered.is_absent) == (True, True), body
        await _wait_until_gone(rendering)


async def _wait_until_gone(rendering: Rendering) -> None:
    """Wait until all of the browser's renderers are idle."""
    local = rendering.browser.renderers.local
    assert local is not None, "the tests must run as the browser's user"
    with trio.fail_after(LONG_S):
        while True:
            first = {pid: used.cpu_s for pid, used in local.renderers().items()}
            await trio.sleep(1.0)
            if all(used.cpu_s < first.get(pid, 0.0) + 0.4 for pid, used in local.renderers().items()):
                return


@pytest.mark.critical
@pytest.mark.parametrize("script", [FILL, IN_WORKER % FILL], ids=["page", "worker"])
async def test_page_with_too_much_memory_is_stopped_and_costly(script: str, chromium: Chromium) -> None:
    """Goal: a script cannot exceed a page's memory limit, even in a worker, whose memory DevTools does not report."""
    most = 0
    async with open_web(net := Net({}), Resolver([PUBLIC]), chromium) as site, trio.open_nursery() as nursery:
        rendering = rendering_of(chromium, site, net)

        async def measure() -> None:
            nonlocal most
            while True:
                used = [one.memory_bytes or 0 for one in rendering.browser.renderers.usage.values()]
                most = max([most, *used])
                await trio.sleep(0.05)

        nursery.start_soon(measure)
        hog = await render(rendering, f"<script>{script}</script>", wait_ms=200_000)
        assert (hog.is_costly, hog.reason) == (True, "page_too_costly")
        assert "Other" in (await render(rendering, "<p>Other</p>", "other")).html
        nursery.cancel_scope.cancel()
    assert 0 < most < 1_000_000_000


@pytest.mark.critical
async def test_costly_page_is_charged_without_blaming_the_browser(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium, failures=1) as node:
        serve(node, {"/d": page(f"<p>{TEXT}</p>{DIALOGS}"), "/a": page(f"<p>{TEXT}</p>")})
        for credits_used in (5, 0):
            refused = await scrape(node, "/d", wait_for=10)
            told = (refused.status, refused.json["error"]["details"]["reason"], refused.json["credits_used"])
            assert told == (404, "page_too_costly", credits_used)
        assert node.upstream.requests.count(f"{HOST_OF_SITE}/d") == 1, "the page is remembered as costly"
        assert (await scrape(node, "/a", wait_for=10)).status == 200
        assert await browser_circuit(node) == "closed"
        await node.assert_sound()


@pytest.mark.critical
async def test_session_of_a_page_that_uses_up_its_time_is_ended(chromium: Chromium) -> None:
    net = Net({"/": document("<script>setTimeout(() => { for (;;); }, 1_000)</script>")})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        pages = HeldPages(rendering_of(chromium, site, net), site)
        with trio.fail_after(LONG_S), pytest.raises(PageTooCostly):
            async with pages.open(f"{HOST}/", mobile=False):
                await trio.sleep_forever()


async def test_selector_invalid_in_the_browser_names_its_parameter(tmp_path: Path, chromium: Chromium) -> None:
    """Goal: the caller's mistake is reported, for free.

    Method: selectors that our parser accepts but Chromium does not.
    """
    async with open_node(tmp_path, chromium) as node:
        serve(node, {"/a": page(f"<p>{TEXT}</p>")})
        for css in ('p:contains("a")', "p[a!=b]"):
            refused = await scrape(node, "/a", wait_for=css)
            error, details = refused.json["error"], refused.json["error"]["details"]
            assert (refused.status, details["reason"], details["param"]) == (400, "invalid_param", "wait_for")
            assert (css in error["message"], refused.json["credits_used"]) == (True, 0)
        await node.assert_sound()
    net = Net({"/": document("<p>Text</p>")})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        pages = HeldPages(rendering_of(chromium, site, net), site)
        async with pages.open(f"{HOST}/", mobile=False) as held:
            actions = [Action("wait", ms=1), Action("click", selector="p[a!=b]")]
            with pytest.raises(InvalidArgument) as refused_action:
                await pages.run(held.target_id, actions, account_id="a")
            assert refused_action.value.param == "actions[1].selector"


async def test_wait_for_a_slot_is_not_blamed_on_the_browser(chromium: Chromium) -> None:
    """Goal: the browser is not blamed for a wait in an account's own queue.

    Method: the account occupies the only page.
    """
    net = Net({})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site, trio.open_nursery() as nursery:
        rendering = rendering_of(chromium, site, net, pages_max=1)
        nursery.start_soon(lambda: render(rendering, "<p></p>", "a", wait_ms=200_000))
        while not rendering.browser.pages_open:  # noqa: ASYNC110 - a page sets no event
            await trio.sleep(0.05)
        with pytest.raises(WorkersBusy):
            await rendering.exchange(call_of(""), trio.current_time() + 1.5)
        nursery.cancel_scope.cancel()


def test_only_renderers_of_our_browser_are_ended(chromium: Chromium) -> None:
    local = local_browser(chromium.pid, chromium.port)
    assert local is not None
    assert local.zygotes
    assert local_browser(os.getpid(), chromium.port) is None, "another process listens on that port"
    assert local_browser(chromium.pid, chromium.port + 1) is None
    others = {os.getpid(), os.getppid(), chromium.pid, *local.zygotes, 2**22 - 1}
    assert [local.end(pid) for pid in others] == [False] * len(others)
    stranger = LocalBrowser(2**22 - 1, local.zygotes)
    assert not any(stranger.end(pid) for pid in local.renderers())
