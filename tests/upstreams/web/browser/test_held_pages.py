"""Pages that one connection holds open and others use, as nodes do that share a browser (decisions 21)."""

from __future__ import annotations

import os
import signal
from typing import Any

import httpx
import msgspec
import pytest
import trio

from tests.fakes.chromium import Chromium
from tests.scheduler.webhooks.receivers import PUBLIC, Resolver
from tests.upstreams.web.browser.test_nowhere import HOST, Net, document, open_web
from upstreams.fetching.site import Site
from upstreams.model.errors import UpstreamFailed
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.origin import Origin
from upstreams.web.browser.actions import Action
from upstreams.web.browser.address import ANSWER_S, CONNECT_S
from upstreams.web.browser.browser import Browser
from upstreams.web.browser.held_pages import HeldPages
from upstreams.web.browser.rendering import Rendering
from upstreams.web.browser.wanted import RenderWanted


def pages_of(browser: Chromium, site: Site, net: Net) -> HeldPages:
    rendering = Rendering(Browser(browser.url), pages_max=2)
    rendering.join(site, net)
    return HeldPages(rendering, site)


async def test_node_can_use_a_page_held_by_another_node(chromium: Chromium) -> None:
    here, there = (Net({"/": document("<p id=p>First</p>"), "/b": document("<p id=p>Second</p>")}) for _ in range(2))
    async with open_web(here, Resolver([PUBLIC]), chromium) as site:
        holds, works = pages_of(chromium, site, here), pages_of(chromium, site, there)
        scrape = Action("scrape", formats="text", only_main_content=False)
        async with holds.open(f"{HOST}/", mobile=False) as page:
            goes = Action("goto", url=f"{HOST}/b")
            done = await works.run(page.target_id, [scrape, goes, scrape], account_id="a")
            texts = [row["page"]["content"]["text"] for row in done["results"] if row["type"] == "scrape"]
            assert ["First" in texts[0], "Second" in texts[1], done["url"]] == [True, True, f"{HOST}/b"]
            inward = await works.run(
                page.target_id, [Action("wait", ms=1), Action("click", selector="#p")], account_id="a"
            )
            assert [row["status"] for row in inward["results"]] == ["ok", "ok"]
        with pytest.raises(UpstreamFailed):
            await works.run(page.target_id, [scrape], account_id="a")
    assert [call.target for call in here.calls if call.target in ("/", "/b")] == ["/", "/b"]
    assert there.calls == []


@pytest.mark.parametrize("address", ["http://localhost/", "http://10.0.0.1/"])
async def test_page_that_leads_to_private_space_fails_and_is_not_held(address: str, chromium: Chromium) -> None:
    refreshes = f'<meta http-equiv="refresh" content="0;url={address}">'
    net = Net({"/moved": HttpAnswer(302, {"location": address}, b""), "/refreshes": document(refreshes)})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        pages = pages_of(chromium, site, net)
        for path in ("/moved", "/refreshes"):
            with pytest.raises(UpstreamFailed, match="page: the URL"):
                async with pages.open(f"{HOST}{path}", mobile=False):
                    pytest.fail("the page is open")


async def test_page_with_too_much_traffic_does_not_affect_others(chromium: Chromium) -> None:
    """Goal: one page's traffic does not affect others. Method: it posts 40 MB while another page is read."""
    script = "<script>fetch('/post', {method: 'POST', body: new Uint8Array(40e6)}).catch(() => 0)</script>"
    long = HttpAnswer(200, {"content-type": "text/plain"}, b"x" * 4_000_000)
    fetched = "<script>fetch('/long').then(r => r.text()).then(t => { said.textContent = t.length })</script>"
    net = Net({"/": document(script), "/long": long, "/other": document(f"<p id=said></p>{fetched}")})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        pages, found = pages_of(chromium, site, net), list[Any]()

        async def greedy() -> None:
            try:
                async with pages.open(f"{HOST}/", mobile=False):
                    await trio.sleep(3)
            except UpstreamFailed as failure:
                found.append(str(failure))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy)
            async with pages.open(f"{HOST}/other", mobile=False) as page:
                done = await pages.run(
                    page.target_id,
                    [
                        Action("wait", selector="#said:not(:empty)"),
                        Action("scrape", formats="text", only_main_content=False),
                    ],
                    account_id="a",
                )
        assert "4000000" in done["results"][1]["page"]["content"]["text"]
        assert not [call for call in net.calls if call.target == "/post"]


async def test_busy_browser_is_waited_for(chromium: Chromium) -> None:
    """Goal: a busy browser is not treated as dead. Method: it stalls for longer than a connection may take."""
    net = Net({"/": document("<p>Text</p>")})
    async with open_web(net, Resolver([PUBLIC]), chromium) as site:
        pages = pages_of(chromium, site, net)
        async with pages.open(f"{HOST}/", mobile=False) as page, trio.open_nursery() as nursery:
            os.killpg(chromium.pid, signal.SIGSTOP)

            async def wake() -> None:
                try:
                    await trio.sleep(CONNECT_S + 1)
                finally:
                    os.killpg(chromium.pid, signal.SIGCONT)

            nursery.start_soon(wake)
            done = await pages.run(
                page.target_id, [Action("scrape", formats="text", only_main_content=False)], account_id="a"
            )
        assert "Text" in done["results"][0]["page"]["content"]["text"]


async def test_page_of_a_stalled_browser_fails_soon_after_its_deadline(chromium: Chromium) -> None:
    """Goal: waiting for a busy browser does not extend a call's deadline. Method: a browser that never answers."""
    wanted = RenderWanted(url=f"{HOST}/", status=200, headers={}, body=b"<p>Text</p>")
    call = HttpCall("POST", Origin("https", "browser", 443), "/", body=msgspec.msgpack.encode(wanted))
    rendering = Rendering(Browser(chromium.url), pages_max=2)
    os.killpg(chromium.pid, signal.SIGSTOP)
    try:
        with trio.fail_after(ANSWER_S - CONNECT_S), pytest.raises(httpx.RequestError):
            await rendering.exchange(call, trio.current_time() + 2)
    finally:
        os.killpg(chromium.pid, signal.SIGCONT)
