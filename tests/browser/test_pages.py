"""The pages as a visitor sees them: light, dark, on a phone, on paper, and without JavaScript."""

import io
from collections.abc import Iterator

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Locator, Page

from tests.browser.chromium import (
    AXE,
    DARK,
    DESKTOP,
    PHONE,
    PLAIN,
    Appearance,
    needed,
    open_chromium,
    open_node,
    visiting,
)
from tests.docs.pictures import LANDING, digest, landing_shot
from tests.gate.matrix import sample
from tests.processes.commands import open_commands
from tests.processes.place import Place, Served

PAGES = {
    "landing": "/",
    "docs": "/docs",
    "guide": "/docs/api",
    "quickstart": "/docs/quickstart",
    "events": "/docs/events",
    "errors": "/docs/errors",
    "reason": "/docs/errors/unknown_consumer",
    "records": "/docs/records",
    "catalog": "/docs/catalog",
    "platform": "/docs/hackernews",
    "endpoint": "/docs/github/repo/issues",
    "search": "/search?q=comments",
    "status": "/status",
}
APPEARANCES: tuple[tuple[Appearance, list[str] | None], ...] = (
    (DESKTOP, None),
    (DARK, ["color-contrast"]),
    (PHONE, ["scrollable-region-focusable", "target-size", "meta-viewport"]),
)
"""How each page is displayed, and which of axe's rules are checked. All rules are checked once, and then only rules
whose result depends on the display."""
SHADE = 2
"""The largest difference between colors that is invisible."""
PAGE_BYTES_MAX = 150_000
_WITHOUT_BUTTONS = """() => {
    const buttons = document.querySelectorAll(".copy");
    buttons.forEach(button => button.remove());
    return buttons.length;
}"""
_BLOCKING = """performance.getEntriesByType("resource")
    .filter(one => one.renderBlockingStatus == "blocking").map(one => new URL(one.name).pathname)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with open_commands() as runner, open_node(Place(tmp_path_factory.mktemp("browser"), runner)) as served:
        yield served


@pytest.mark.parametrize("name", sample(PAGES, share=3))
def test_page_is_readable_small_and_self_contained(name: str, browser: Browser, node: Served) -> None:
    """Goal: no serious axe findings, nothing cut off, and nothing from other hosts.

    There is also nothing that the policy blocks, and no render-blocking script. Method: axe in each look, and the
    browser's list of what it loaded.
    """
    needed(AXE.is_file(), "axe-core")
    with visiting(browser, DESKTOP) as visit:
        answer = visit.page.goto(node.url + PAGES[name])
        assert answer is not None
        assert answer.status == 200
        assert len(answer.body()) < PAGE_BYTES_MAX
        assert visit.page.evaluate(_BLOCKING) == ["/style.css"]
        for appearance, rules in APPEARANCES:
            visit.turn(appearance)
            assert visit.violations(rules) == []
            assert visit.page.evaluate("document.documentElement.scrollWidth") == appearance.width, (
                "the page is wider than its window"
            )
        assert visit.complaints == []
    assert {url for url in visit.requests if not url.startswith(f"{node.url}/")} == set()


def test_axe_finds_text_that_is_hard_to_read(browser: Browser) -> None:
    needed(AXE.is_file(), "axe-core")
    with visiting(browser, DESKTOP) as visit:
        visit.page.set_content('<title>Pale</title><h1 style="color: #ccc">Pale</h1>')
        (found,) = visit.violations(["color-contrast"])
    assert found.startswith("color-contrast (serious): ")


def test_page_is_dark_in_the_dark_theme(browser: Browser, node: Served) -> None:
    colours = []
    with visiting(browser, DESKTOP) as visit:
        visit.page.goto(node.url)
        for appearance in (DESKTOP, DARK):
            visit.turn(appearance)
            colours.append(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(15, 20, 24)"]


@pytest.mark.parametrize("path", [PAGES["landing"], PAGES["endpoint"]])
def test_page_without_javascript_differs_only_in_its_buttons(path: str, browser: Browser, node: Served) -> None:
    shots = []
    for appearance in (DESKTOP, PLAIN):
        with visiting(browser, appearance) as visit:
            visit.page.goto(node.url + path, wait_until="networkidle")  # the font is loaded
            if appearance.scripted:
                assert visit.page.evaluate(_WITHOUT_BUTTONS) > 0
            shots.append(Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB"))
    assert max(ImageChops.difference(*shots).tobytes()) <= SHADE


def test_code_is_copied_as_displayed(browser: Browser, node: Served) -> None:
    """Method: copy the chosen language of tabs, and only the commands of a transcript."""
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=node.url)
        page.goto(node.url + PAGES["endpoint"])
        page.get_by_text("Python", exact=True).click()
        assert copied(page, ".calls .tabs").startswith("import os\n\nimport httpx\n")
        page.goto(f"{node.url}/docs/pagination")
        lines = copied(page, "figure.code").splitlines()
        assert [line.split()[:2] for line in lines] == [["curl", "-s"]] * 2


def copied(page: Page, block: str) -> str:
    """Press the copy button of the first matching block, and return the text on the clipboard."""
    page.locator(block).first.get_by_role("button", name="Copy").click()
    page.locator(block).first.get_by_role("button", name="Copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_chosen_language_applies_to_every_page(browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        page.goto(f"{node.url}/docs/quickstart")
        page.get_by_text("JavaScript", exact=True).first.click()
        page.goto(node.url + PAGES["endpoint"])
        assert [block.is_visible() for block in page.locator(".tabs pre").all()] == [False, False, True]


@pytest.mark.parametrize("path", ["/docs", "/docs/catalog"])
def test_filter_shows_matching_platforms_and_their_categories(path: str, browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        page.goto(node.url + path)
        every = page.locator("[data-item]")
        box = page.locator("main").get_by_role("searchbox")
        total = every.count()
        box.fill("STACK exch")
        assert [one.split()[:2] for one in shown(every)] == [["Stack", "Exchange"]]
        assert [one.splitlines()[0] for one in shown(page.locator("[data-group]"))] == ["Forums"]
        box.fill("forums hack")
        assert [one.split()[:2] for one in shown(every)] == [["Hacker", "News"]]
        box.fill("no such platform")
        assert shown(every) == []
        assert page.get_by_role("status").is_visible()
        box.fill("")
        assert len(shown(every)) == total
        assert not page.get_by_role("status").is_visible()
        box.fill("comments")
        box.press("Enter")
        page.wait_for_url("**/search?q=comments")


def shown(found: Locator) -> list[str]:
    """Return the texts of the visible elements."""
    return [one.inner_text() for one in found.all() if one.is_visible()]


def test_search_has_a_shortcut_and_outline_marks_the_current_section(browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        page.goto(node.url + PAGES["guide"])
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "q"
        page.locator("#errors").evaluate("head => head.scrollIntoView({behavior: 'instant'})")
        page.locator(".outline [aria-current]").get_by_text("Errors", exact=True).wait_for()


def test_heading_links_to_itself(browser: Browser, node: Served) -> None:
    with visiting(browser, PLAIN) as visit:
        visit.page.goto(node.url + PAGES["guide"])
        visit.page.get_by_role("heading", name="Price").get_by_role("link").click()
        assert visit.page.url == f"{node.url}{PAGES['guide']}#price"


def test_search_works_without_javascript(browser: Browser, node: Served) -> None:
    with visiting(browser, PLAIN) as visit:
        page = visit.page
        page.goto(node.url)
        page.get_by_role("searchbox").fill("comments hacker news")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search?q=comments+hacker+news")
        page.get_by_role("link", name="Hacker News: story/comments").click()
        page.wait_for_url("**/docs/hackernews/story/comments")
        assert page.get_by_role("heading", level=1).inner_text() == "Hacker News: story/comments"


def test_call_language_can_be_changed_without_javascript(browser: Browser, node: Served) -> None:
    with visiting(browser, PLAIN) as visit:
        page = visit.page
        page.goto(node.url + PAGES["endpoint"])
        blocks = page.locator(".tabs pre")
        assert [block.is_visible() for block in blocks.all()] == [True, False, False]
        page.get_by_text("Python", exact=True).click()
        assert [block.is_visible() for block in blocks.all()] == [False, True, False]
        page.keyboard.press("ArrowRight")
        assert [block.is_visible() for block in blocks.all()] == [False, False, True]


def test_policy_blocks_injected_script_picture_and_frame(browser: Browser, node: Served) -> None:
    """Goal: the policy holds in a browser. Method: inject a script, a picture and a frame into the page."""
    slipped = """() => new Promise(resolve => {
        const refused = [];
        document.addEventListener("securitypolicyviolation", event => {
            refused.push(event.effectiveDirective);
            if (refused.length == 3) resolve([refused.sort(), window.slipped]);
        });
        const script = document.createElement("script");
        script.textContent = "window.slipped = true";
        document.body.append(script);
        const picture = document.createElement("img");
        picture.src = "http://127.0.0.1:9/elsewhere.png";
        document.body.append(picture);
        const frame = document.createElement("iframe");
        frame.src = "http://127.0.0.1:9/elsewhere";
        document.body.append(frame);
    })"""
    with visiting(browser, DESKTOP) as visit:
        visit.page.goto(node.url)
        assert visit.page.evaluate(slipped) == [["frame-src", "img-src", "script-src-elem"], None]


def test_landing_screenshot_has_the_size_of_the_readme_picture_and_the_current_digest(
    browser: Browser, node: Served
) -> None:
    with Image.open(io.BytesIO(landing_shot(browser, node))) as taken, Image.open(LANDING) as kept:
        assert (taken.size, taken.info["digest"]) == (kept.size, digest())


def test_first_tab_stop_skips_to_the_content(browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        visit.page.goto(node.url + PAGES["guide"])
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "Skip to content"
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("document.activeElement.id") == "main"


def test_print_has_the_text_in_every_language_and_no_menu(browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        page.goto(node.url + PAGES["endpoint"])
        page.emulate_media(media="print")
        assert [block.is_visible() for block in page.locator(".tabs pre").all()] == [True, True, True]
        assert not any(one.is_visible() for one in page.locator("nav, .search, .foot, .copy").all())
        assert page.get_by_role("heading", level=1).is_visible()


def test_unknown_address_shows_a_message_and_a_search_box(browser: Browser, node: Served) -> None:
    with visiting(browser, DESKTOP) as visit:
        answer = visit.page.goto(f"{node.url}/docs/nowhere")
        assert answer is not None
        assert answer.status == 404
        assert visit.page.get_by_role("heading", level=1).inner_text() == "Page not found"
        assert visit.page.get_by_role("searchbox", name="Search terms").is_visible()
