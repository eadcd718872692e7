"""The dashboard as its owner uses it: a whole life cycle in a browser, by keyboard, on a phone, without JavaScript."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import AXE, DARK, DESKTOP, PHONE, PLAIN, Visit, needed, open_chromium, visiting
from tests.browser.hands import Hands, Keyboard, Mouse
from tests.fakes.calling import call
from tests.gate.matrix import sample
from tests.processes.commands import open_commands
from tests.processes.place import Place, Served

PASSWORD = "a river of small stones"
MOUSE = Mouse()
PAGES = {
    "overview": "",
    "keys": "/keys?new=1",
    "usage": "/usage",
    "transactions": "/transactions",
    "playground": "/playground",
    "call": "/playground?id=github/profile&p.handle=octocat",
    "batch": "/playground?id=prism/post-stats&method=POST",
    "monitors": "/monitors",
    "recipes": "/monitors/new",
    "new monitor": "/monitors/new?recipe=github/profile&p.handle=octocat",
    "events": "/events",
    "webhooks": "/webhooks",
    "new webhook": "/webhooks?new=1",
    "jobs": "/jobs",
    "billing": "/billing?paid=1",
    "discover": "/discover",
    "schedules": "/discover/schedules",
    "cohorts": "/cohorts",
    "account": "/account",
    "confirm": "/confirm",
}
PACKS = """
[[packs]]
name = "starter"
credits = 10000
price_cents = 900
plan = "starter"

[[packs]]
name = "welcome"
credits = 50
price_cents = 0
"""
CARDS = {"STRIPE_KEY": "sk_test_of_nobody", "STRIPE_WEBHOOK": "whsec_of_nobody"}
PAGE_BYTES_MAX = 150_000
LIVE_S = 20_000


@dataclass(slots=True)
class Receiver:
    """A receiver of webhooks on loopback."""

    url: str
    bodies: list[bytes] = field(default_factory=list)


@contextmanager
def open_checkout() -> Iterator[str]:
    """Run a stand-in for Stripe that only starts payments."""
    session = {"id": "cs_test_1", "url": "https://checkout.stripe.com/c/pay/cs_test_1", "expires_at": 2_000_000_000}
    with open_receiver(json.dumps(session).encode()) as receiver:
        yield receiver.url.removesuffix("/hook")


@contextmanager
def open_receiver(answer: bytes = b"") -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@dataclass(slots=True)
class House:
    """A node on which the test can invite owners."""

    place: Place
    node: Served

    def invited(self, name: str) -> str:
        """Return a one-time link for the owner of a new account with a key and 1,000 credits."""
        account, _ = self.place.new_key(balance=1_000)
        email = f"{name}@example.com"
        told = self.place.run("user", "invite", "--account", account, "--email", email, "--json")
        return str(json.loads(told.out)["url"])

    def address(self, path: str) -> str:
        return f"{self.node.url}/dashboard{path}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_commands() as runner:
        place = Place(tmp_path_factory.mktemp("house"), runner, CARDS)
        with open_checkout() as stripe:
            cards = {"secret_key_env": "STRIPE_KEY", "webhook_secret_env": "STRIPE_WEBHOOK", "api_url": stripe}
            place.configure(webhooks={"allow_insecure_targets": True}, **{"billing.stripe": cards})
            with place.config.open("a") as config:
                config.write(PACKS)
            with place.serve("--sandbox") as node:
                yield House(place, node)


def welcome(page: Page, link: str, hands: Hands = MOUSE) -> None:
    page.goto(link)
    hands.write(page.get_by_label("Password", exact=True), PASSWORD)
    hands.write(page.get_by_label("Repeat password"), PASSWORD)
    hands.press(page.get_by_role("button", name="Set password"))
    expect(page.get_by_role("link", name="Overview")).to_be_visible()


def make_key(page: Page, house: House, hands: Hands = MOUSE, **fields: str) -> str:
    page.goto(house.address("/keys"))
    hands.press(page.get_by_role("button", name="Create key"))
    for label, text in fields.items():
        hands.write(page.get_by_label(label.replace("_", " ")), text)
    hands.press(page.get_by_role("button", name="Create key"))
    return page.locator(".note .code code").inner_text()


def call_profile(page: Page, house: House, handle: str, name: str, hands: Hands = MOUSE) -> None:
    page.goto(house.address(f"/playground?id=github/profile&p.handle={handle}"))
    option = page.get_by_label("API key").locator("option", has_text=name).inner_text()
    hands.choose(page.get_by_label("API key"), option)
    hands.press(page.get_by_role("button", name="Call", exact=True))


def set_limit(page: Page, house: House, name: str, limit: str, hands: Hands = MOUSE) -> None:
    page.goto(house.address("/keys"))
    key = page.get_by_role("listitem").filter(has_text=name)
    hands.write(key.get_by_label("Limit", exact=True), limit)
    hands.press(key.get_by_role("button", name="Save limit"))


@pytest.mark.parametrize("way", ["keyboard", "phone", "plain"])
def test_owner_life_cycle_from_invitation_to_revoked_key(browser: Browser, house: House, way: str) -> None:
    """The steps from an invitation to the revocation of a key.

    In between: a key, a call, its usage, a limit and its 402, a raised limit, and a Monitor whose alert is delivered
    twice. The steps are done by keyboard alone, with a mouse on a phone, and without JavaScript.
    """
    seen = {"phone": PHONE, "plain": PLAIN}.get(way, DESKTOP)
    with visiting(browser, seen) as visit, open_receiver() as receiver:
        page = visit.page
        hands = Keyboard(page) if way == "keyboard" else MOUSE
        welcome(page, house.invited(f"life-{way}"), hands)
        key = make_key(page, house, hands, Name="life", Credit_limit="1")
        call_profile(page, house, f"{way}-cat", "life", hands)
        expect(page.get_by_role("heading", name="Response")).to_contain_text("200")
        page.goto(house.address("/usage"))
        expect(page.get_by_role("cell", name="/v1/github/profile")).to_be_visible()
        call_profile(page, house, f"{way}-dog", "life", hands)
        expect(page.get_by_role("heading", name="Response")).to_contain_text("402")
        set_limit(page, house, "life", "100", hands)
        expect(page.get_by_role("status")).to_contain_text("next call")
        call_profile(page, house, f"{way}-dog", "life", hands)
        expect(page.get_by_role("heading", name="Response")).to_contain_text("200")
        hands.press(page.get_by_role("link", name="Create Monitor"))
        hands.write(page.get_by_label("Webhook"), receiver.url)
        hands.press(page.get_by_text("Alerts", exact=True))
        hands.write(page.get_by_label("Alert metric").first, "author.followers")
        hands.write(page.get_by_label("value").first, "1")
        hands.tick(page.get_by_label("Run now"))
        hands.press(page.get_by_role("button", name="Create Monitor"))
        expect(page.get_by_text("whsec_")).to_be_visible()
        hands.press(page.get_by_role("link", name="Open Monitor"))
        await_text(page, "delivered")
        monitor = page.url
        expect(page.get_by_role("cell", name="author.followers")).to_be_visible()
        assert json.loads(receiver.bodies[0])["alerts_fired"]
        hands.press(page.get_by_role("button", name="Redeliver"))
        expect(page.get_by_role("status")).to_contain_text("queued again")
        wait_until(page, lambda: len(receiver.bodies) == 2)
        assert receiver.bodies[0] == receiver.bodies[1]
        assert call(f"{house.node.url}/v1/credits/balance", headers={"x-api-key": key}).status == 200
        page.goto(house.address("/keys"))
        hands.press(page.get_by_role("listitem").filter(has_text="life").get_by_role("button", name="Revoke"))
        hands.press(page.get_by_role("button", name="Revoke"))
        expect(page.get_by_role("status")).to_contain_text("refused")
        assert call(f"{house.node.url}/v1/credits/balance", headers={"x-api-key": key}).status == 401
        page.goto(monitor)
        hands.press(page.get_by_role("button", name="Pause"))
        expect(page.get_by_role("status")).to_contain_text("paused")
        hands.press(page.get_by_role("button", name="Sign out"))
        hands.write(page.get_by_label("E-mail"), f"life-{way}@example.com")
        hands.write(page.get_by_label("Password"), PASSWORD)
        hands.press(page.get_by_role("button", name="Sign in"))
        expect(page.get_by_role("link", name="Overview")).to_be_visible()
        assert [one for one in visit.complaints if "status of 40" not in one] == []


def await_text(page: Page, text: str) -> None:
    """Reload until the page shows a text."""
    for _ in range(60):
        if page.get_by_text(text).count():
            return
        page.wait_for_timeout(500)
        page.reload()
    raise AssertionError(f"the page never showed {text}: {page.inner_text('main')}")


def wait_until(page: Page, is_so: object) -> None:
    assert callable(is_so)
    for _ in range(60):
        if is_so():
            return
        page.wait_for_timeout(500)
    raise AssertionError("the condition never became true")


def test_events_appear_on_the_open_page_without_reload(browser: Browser, house: House) -> None:
    with visiting(browser, DESKTOP) as visit:
        page = visit.page
        welcome(page, house.invited("live"))
        page.goto(house.address("/events"))
        expect(page.get_by_text("No events yet")).to_be_visible()
        (key_id,) = {
            one["id"] for one in house.place.json_of("key", "list") if one["account_id"] == account_of(page, house)
        }
        house.place.run("key", "revoke", key_id)
        expect(page.get_by_text("key.revoked")).to_be_visible(timeout=LIVE_S)
        assert visit.complaints == []


def account_of(page: Page, house: House) -> str:
    other = page.context.new_page()
    other.goto(house.address("/account"))
    account = other.locator("main code").first.inner_text()
    other.close()
    return account


@pytest.fixture(scope="module")
def owner(browser: Browser, house: House) -> Iterator[Visit]:
    """Sign in as an owner with a call, a Monitor and an event."""
    with visiting(browser, DESKTOP) as visit:
        welcome(visit.page, house.invited("looks"))
        make_key(visit.page, house, Name="looks")
        call_profile(visit.page, house, "octocat", "looks")
        visit.page.get_by_role("link", name="Create Monitor").click()
        visit.page.get_by_label("Run now").check()
        visit.page.get_by_role("button", name="Create Monitor").click()
        await_text(visit.page, "ok")
        yield visit


@pytest.mark.parametrize("name", sample(PAGES, share=3))
def test_page_is_readable_small_and_fits_a_phone(name: str, owner: Visit, house: House) -> None:
    """Goal: no serious axe findings in light, dark and at 390 px; nothing cut off; nothing loaded from other hosts."""
    needed(AXE.is_file(), "axe-core")
    owner.complaints.clear()
    owner.requests.clear()
    look_at(owner, house.address(PAGES[name]))
    assert owner.complaints == []
    assert {url for url in owner.requests if not url.startswith(f"{house.node.url}/")} == set()


def test_monitor_page_is_readable(owner: Visit, house: House) -> None:
    needed(AXE.is_file(), "axe-core")
    owner.page.goto(house.address("/monitors"))
    place = owner.page.get_by_role("link", name="github/profile monitor").get_attribute("href")
    look_at(owner, f"{house.node.url}{place}")
    owner.page.get_by_text("Add an alert").click()
    owner.page.get_by_label("Alert metric").fill("author.followers")
    owner.page.get_by_label("value").fill("many")
    owner.page.get_by_role("button", name="Save alerts").click()
    expect(owner.page.get_by_text("must be a finite number")).to_be_visible()
    for appearance in (DESKTOP, DARK, PHONE):
        owner.turn(appearance)
        assert owner.violations() == []
    assert owner.page.locator("img.chart").evaluate("image => image.naturalWidth") > 0


def test_webhook_page_is_readable(owner: Visit, house: House) -> None:
    needed(AXE.is_file(), "axe-core")
    page = owner.page
    owner.turn(DESKTOP)
    with open_receiver() as receiver:
        page.goto(house.address("/webhooks?new=1"))
        page.get_by_label("Address").fill(receiver.url)
        page.get_by_label("Description").fill("on call")
        page.get_by_role("button", name="Create webhook").click()
        expect(page.get_by_text("whsec_")).to_be_visible()
        page.get_by_role("button", name="Send a test").click()
        await_text(page, "Delivered,")
        look_at(owner, page.url.partition("?")[0])


def test_purchase_and_payment_pages_are_readable(owner: Visit, house: House) -> None:
    needed(AXE.is_file(), "axe-core")
    page = owner.page
    house.place.json_of("pack", "grant", account_of(page, house), "welcome")
    page.goto(house.address("/billing"))
    page.get_by_role("button", name="Buy").click()
    link = page.get_by_role("link", name="Pay with Stripe")
    expect(link).to_have_attribute("href", re.compile("checkout.stripe.com"))
    look_through(owner)
    look_at(owner, house.address("/billing"))
    expect(page.get_by_text("granted by the operator.")).to_be_visible()
    expect(page.get_by_text("open", exact=True)).to_be_visible()


def test_pages_of_long_work_are_readable(owner: Visit, house: House) -> None:
    """Check the pages of a run with its rows, a schedule of runs, a cohort, and a query with its coverage."""
    needed(AXE.is_file(), "axe-core")
    owner.turn(DESKTOP)
    key = make_key(owner.page, house, Name="long work")

    def send(method: str, path: str, body: object) -> Any:
        answer = call(
            f"{house.node.url}/v1/{path}", method=method, headers={"x-api-key": key}, body=json.dumps(body).encode()
        )
        assert answer.status < 300, answer.body
        return json.loads(answer.body)["data"]

    search = {"keywords": ["python"], "platforms": ["hackernews"], "max_credits": 2}
    run = send("POST", "prism/discover/runs", search)["run_id"]
    schedule = send("POST", "prism/discover/schedules", {"run": search, "cadence": "daily"})["schedule_id"]
    cohort = send("POST", "cohorts", {"name": "Panel"})["id"]
    send("PUT", f"cohorts/{cohort}/members", {"members": [{"platform": "bluesky", "handle": "bsky.app"}]})
    bounds = {"max_credits": 50, "max_items_per_identity": 10, "max_pages_per_identity": 2}
    asked = {"keywords": ["the"], "date_from": "2020-01-01T00:00:00Z", **bounds}
    query = send("POST", f"cohorts/{cohort}/queries", asked)["query_id"]
    owner.page.goto(house.address(f"/cohorts/queries/{query}"))
    await_text(owner.page, "Coverage")
    places = (f"/discover/runs/{run}", f"/discover/schedules/{schedule}", f"/cohorts/{cohort}")
    for path in (*places, f"/cohorts/queries/{query}", "/discover", "/discover/schedules", "/cohorts"):
        look_at(owner, house.address(path))


def test_second_factor_page_is_readable_with_a_large_qr_code(owner: Visit, house: House) -> None:
    needed(AXE.is_file(), "axe-core")
    page = owner.page
    for appearance in (DESKTOP, DARK, PHONE):
        owner.turn(appearance)
        page.goto(house.address("/account"))
        page.get_by_role("button", name="Turn on").click()
        expect(page.get_by_role("heading", name="Turn on the second factor")).to_be_visible()
        assert owner.violations(None if appearance is DESKTOP else ["color-contrast"]) == []
        size = page.get_by_role("img", name="QR code").bounding_box()
        assert size is not None
        assert size["width"] >= 180


def test_operator_pages_are_readable(browser: Browser, house: House) -> None:
    needed(AXE.is_file(), "axe-core")
    with visiting(browser, DESKTOP) as visit:
        page, admin_url = visit.page, house.node.admin_url
        look_at(visit, f"{admin_url}/admin")
        visit.turn(DESKTOP)
        page.get_by_label("Admin token").fill(house.place.run("admin", "token").out.strip())
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Name").fill("a team")
        page.get_by_role("button", name="Create account").click()
        page.get_by_label("E-mail").fill("team@example.com")
        page.get_by_role("button", name="Invite").click()
        link = page.locator(".note .code code").inner_text()
        page.get_by_label("Credits").fill("1000")
        page.get_by_role("button", name="Grant").click()
        expect(page.get_by_text("1,100").first).to_be_visible()
        for path in (page.url.removeprefix(admin_url), "/admin", "/admin/pages/platforms"):
            look_at(visit, f"{admin_url}{path}")
        assert visit.complaints == []
        page.goto(link)
        expect(page.get_by_text("team@example.com")).to_be_visible()


def look_at(visit: Visit, url: str) -> None:
    visit.turn(DESKTOP)
    answer = visit.page.goto(url)
    assert answer is not None
    assert answer.status == 200
    assert len(answer.body()) < PAGE_BYTES_MAX
    look_through(visit)


def look_through(visit: Visit) -> None:
    """Check the open page in every size and color scheme."""
    for appearance, rules in ((DESKTOP, None), (DARK, ["color-contrast"]), (PHONE, ["target-size", "meta-viewport"])):
        visit.turn(appearance)
        assert visit.violations(rules) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") == appearance.width, "wider than its window"
