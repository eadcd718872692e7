"""web/scrape with a real Chromium: JavaScript, screenshots, mobile pages, prices, and a dead browser (decisions 21)."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import trio
from PIL import Image

from tests.fakes.chromium import Chromium, open_chromium
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.servers.ports import free_port
from tests.upstreams.web.test_scraping import HOST, page, scrape, serve

TEXT = "Words that a script has written, as many of them as an article has. " * 4
SCRIPTED = page(f"""<!doctype html><html><head><title>By script</title></head><body><main id=m></main><script>
fetch('/data.json').then(r => r.json()).then(d => setTimeout(() => {{
  document.getElementById('m').innerHTML = '<h1>' + d.title + '</h1><p id=p>{TEXT}</p><p class=w>' + innerWidth + '</p>'
}}, 200))</script></body></html>""")
DATA = ScriptedAnswer(200, b'{"title":"From afar"}', {"content-type": "application/json"})
RED = page(
    "<!doctype html><title>Red</title><body style='margin:0;background:rgb(255,0,0)'>"
    f"<p>{TEXT}</p><div style='position:absolute;top:1900px;height:100px;width:100%;background:rgb(0,0,255)'></div>"
)
SCRIPTS = {"/s": SCRIPTED, "/data.json": DATA, "/a": page(), "/red": RED}


def open_node(folder: Path, browser: Chromium, *, failures: int = 5, **web: Any) -> Any:
    """Run a node with this browser, whose circuit opens after so many failures."""
    tables = {"upstreams": {"defaults": {"retries": 0}}, "breaker": {"failures": failures}}
    return open_test_node(folder, web={"browser_url": browser.url, **web}, **tables, patience_s=300)


async def browser_circuit(node: OpenNode) -> str:
    """Return the state of the browser's circuit in the public status."""
    platforms = (await node.get("/v1/status", key=None)).json["data"]["platforms"]
    return str(platforms["web"]["sources"]["browser"]["circuit"])


async def test_javascript_page_is_read_after_its_scripts(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium) as node:
        serve(node, SCRIPTS)
        plain = await scrape(node, "/s")
        assert (plain.status, plain.json["error"]["details"]["reason"]) == (404, "javascript_required")
        assert (await scrape(node, "/s", wait_for=1_500, dry_run=1)).json["data"]["estimated_credits"] == 5
        found = await scrape(node, "/s", wait_for=1_500)
        assert (found.status, found.json["credits_used"]) == (200, 5)
        read = found.json["data"]["page"]
        assert read["content"]["markdown"].startswith("# From afar\n\nWords that a script")
        assert (read["final_url"], read["status_code"]) == (f"https://{HOST}/s", 200)
        assert (await scrape(node, "/s", wait_for=1_500)).headers["x-cache"] == "HIT"
        by_selector = await scrape(node, "/s", wait_for="#m > p#p", formats="text", only_main_content="false")
        assert "1280" in by_selector.json["data"]["page"]["content"]["text"]
        absent = await scrape(node, "/s", wait_for="#never", timeout=6000)
        assert (absent.status, absent.json["error"]["details"]["reason"]) == (404, "selector_absent")
        assert absent.json["credits_used"] == 0
        mobile = await scrape(node, "/s", mobile="true", wait_for=300, formats="text", only_main_content="false")
        assert "980" in mobile.json["data"]["page"]["content"]["text"], "the window is as wide as a phone's"
        await node.assert_sound()


async def test_long_page_and_script_reach_the_browser_complete(tmp_path: Path, chromium: Chromium) -> None:
    """Goal: long messages reach the browser. Method: a page of 1 MB and a script of 3 MB report their lengths."""
    text, letters = "Wörter einer langen Seite. " * 40_000, "ä€" * 600_000
    long = f"const s = '{letters}'; document.title = 'long'; n.textContent = s.length + ' ' + m.textContent.length"
    async with open_node(tmp_path, chromium) as node:
        script = ScriptedAnswer(200, long.encode(), {"content-type": "text/javascript; charset=utf-8"})
        whole = page(f"<!doctype html><meta charset=utf-8><p id=n></p><p id=m>{text}</p><script src=/l.js></script>")
        serve(node, {"/l": whole, "/l.js": script})
        found = await scrape(node, "/l", wait_for="#n:not(:empty)", formats="text", only_main_content="false")
        assert found.status == 200, found.json
        assert f"1200000 {len(text)}" in found.json["data"]["page"]["content"]["text"][:100]


async def test_screenshots_show_the_window_or_the_whole_page(tmp_path: Path, chromium: Chromium) -> None:
    async with open_node(tmp_path, chromium) as node:
        serve(node, SCRIPTS)
        window = _picture(await scrape(node, "/red", formats="screenshot"))
        assert window.size == (1280, 800)
        assert window.getpixel((1270, 790)) == (255, 0, 0)
        whole = _picture(await scrape(node, "/red", screenshot_full_page="true"))
        assert whole.size == (1280, 2000)
        assert (whole.getpixel((1270, 1000)), whole.getpixel((640, 1950))) == ((255, 0, 0), (0, 0, 255))
        telephone = _picture(await scrape(node, "/red", formats="screenshot", mobile="true"))
        assert telephone.size == (780, 1688)
        await node.assert_sound()


def _picture(answer: Any) -> Image.Image:
    assert answer.status == 200, answer.json
    address = answer.json["data"]["page"]["media"]["screenshot_url"]
    kind, data = address.split(";base64,")
    assert kind == "data:image/png"
    return Image.open(BytesIO(b64decode(data))).convert("RGB")


async def test_body_that_needs_no_browser_costs_one_credit(tmp_path: Path) -> None:
    async with open_node(tmp_path, Chromium()) as node:
        serve(node, {"/t": ScriptedAnswer(200, b"Some plain text of a file.", {"content-type": "text/plain"})})
        found = await scrape(node, "/t", wait_for=100)
        assert (found.status, found.json["credits_used"]) == (200, 1)
        for value in ("30001", "-1", "p[", "::x("):
            refused = await scrape(node, "/t", wait_for=value)
            assert (refused.status, refused.json["error"]["details"]["param"]) == (400, "wait_for"), value
        await node.assert_sound()


async def test_endless_page_is_blamed_instead_of_the_browser(tmp_path: Path, chromium: Chromium) -> None:
    """The call is refunded only if the machine is so busy that the page could not use its time."""
    async with open_node(tmp_path, chromium, failures=1) as node:
        serve(node, {**SCRIPTS, "/loop": page(f"<p>{TEXT}</p><script>setTimeout(() => {{ for(;;); }}, 50)</script>")})
        late = await scrape(node, "/loop", wait_for=10, timeout=3000)
        assert (late.status, late.json["credits_used"]) in ((404, 5), (404, 0), (502, 0)), late.json
        assert (await scrape(node, "/s", wait_for=300)).status == 200
        assert await browser_circuit(node) == "closed"
        await node.assert_sound()


async def test_dead_browser_fails_calls_for_free_until_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    async with open_node(tmp_path, Chromium(port), failures=1, browser_pages=2) as node:
        serve(node, SCRIPTS)
        with open_chromium(port=port) as browser:
            assert (await scrape(node, "/s", wait_for=300)).status == 200
            answers = []

            async def call() -> None:
                answers.append(await scrape(node, "/s", wait_for=25_000, max_age=0))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                while node.upstream.requests.count(f"{HOST}/data.json") < 2:  # noqa: ASYNC110 - a page sets no event
                    await trio.sleep(0.05)
                browser.kill()
            (lost,) = answers
            assert (lost.status, lost.json["error"]["type"], lost.json["credits_used"]) == (502, "UPSTREAM_ERROR", 0)
            assert "browser" in lost.json["error"]["message"]
        away = await scrape(node, "/s", wait_for=300, max_age=0)
        assert (away.status, away.json["credits_used"]) == (503, 0), "its circuit is open, like that of any source"
        assert await browser_circuit(node) == "open"
        assert (await scrape(node, "/a")).status == 200, "pages without the browser are still read"
        await node.operate("platform.reset", platform="web")
        with open_chromium(port=port):
            assert (await scrape(node, "/s", wait_for=300, max_age=0)).status == 200
        await node.assert_sound()


async def test_browser_without_its_required_flag_is_a_permanent_503(tmp_path: Path) -> None:
    """Goal: the operator is informed, and nothing is retried. Method: more calls than it takes to open a circuit."""
    with open_chromium(("--headless", "--no-sandbox", "--disable-gpu", "about:blank")) as browser:
        async with open_node(tmp_path, browser, failures=1) as node:
            serve(node, SCRIPTS)
            for _ in range(2):
                refused = await scrape(node, "/s", wait_for=300)
                error = refused.json["error"]
                assert (refused.status, error["type"], refused.json["credits_used"]) == (503, "SERVICE_UNAVAILABLE", 0)
                assert "retry-after" not in refused.headers
                assert "must be started with --webrtc-ip-handling-policy=disable_non_proxied_udp" in error["message"]
            assert await browser_circuit(node) == "closed"
            (logged,) = node.log_events("browser_unusable")
            assert (logged["url"], "must be started with" in logged["problem"]) == (browser.url, True)
            await node.assert_sound()


async def test_sandbox_pages_are_rendered(tmp_path: Path, chromium: Chromium) -> None:
    at = "/v1/web/scrape?formats=text,screenshot&only_main_content=false&url=https://example.com/scripts"
    async with open_node(tmp_path, chromium) as node:
        shown = (await node.get(f"{at}/page&wait_for=main%20h1")).json["data"]["page"]
        assert len(shown["content"]["text"]) > 200
        inward = (await node.get(f"{at}/inward&wait_for=500")).json["data"]["page"]
        assert "Nothing came back." in inward["content"]["text"]
        hello = (await node.get(f"{at}/hello%3Fname%3DAda&mobile=true")).json["data"]["page"]
        assert "Hello, Ada" in hello["content"]["text"]
