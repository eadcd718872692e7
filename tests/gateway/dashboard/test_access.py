"""Access to the dashboard's forms: fixation, CSRF, framing, redirects, hosts, cookies, enumeration (decisions 22)."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from gateway.dashboard.doors import door_of, form_token, has_token, is_own_form, redirect_path
from tests.fakes.node import OpenNode, open_test_node
from tests.gateway.dashboard.owner import PASSWORD, Owner, open_browser, open_owner, rules_of

ELSEWHERE = (
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/dashboard//evil.example",
    "/dashboard/../v1/events",
    "/dashboard\\@evil.example",
    "javascript:alert(1)",
    "/dashboard/keys\r\nset-cookie: a=b",
    "/dashboardevil",
    "https:/dashboard",
    "/dashboard/keys#<script>",
    " /dashboard",
)
FOREIGN = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
)


@pytest.mark.parametrize("path", ELSEWHERE)
def test_redirects_never_leave_the_dashboard(path: str) -> None:
    assert redirect_path(path) == "/dashboard"


def test_redirect_within_the_dashboard_is_accepted() -> None:
    for path in ("/dashboard", "/dashboard/keys?new=1", "/dashboard/playground?id=github/profile&p.handle=a%20b"):
        assert redirect_path(path) == path


@pytest.mark.parametrize(
    ("host", "base_url", "is_known", "is_open"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True, True),
        ("localhost:8080", "http://127.0.0.1:8080", True, True),
        ("[::1]:8080", "http://127.0.0.1:8080", True, True),
        ("api.example.com", "https://api.example.com", True, True),
        ("API.Example.com.:443", "https://api.example.com", True, True),
        ("10.0.0.7:8080", "https://api.example.com", True, True),
        ("10.0.0.7:8080", "http://localhost:8080", True, False),
        ("api.example.com", "http://api.example.com", True, False),
        ("evil.example", "https://api.example.com", False, True),
        ("evil.example", "http://127.0.0.1:8080", False, False),
        ("api.example.com@evil.example", "https://api.example.com", False, True),
        ("api.example.com, evil.example", "https://api.example.com", False, True),
        ("", "https://api.example.com", False, True),
    ],
)
def test_known_host_and_secure_connection_are_detected(host: str, base_url: str, is_known: bool, is_open: bool) -> None:
    door = door_of(host, base_url, base_url)
    assert (door.is_known, door.is_open) == (is_known, is_open)


def test_form_token_matches_its_cookie_and_differs_per_page() -> None:
    tokens = {form_token("cookie") for _ in range(100)}
    assert len(tokens) == 100
    assert all(has_token("cookie", one) for one in tokens)
    for binding, sent in (("other", form_token("cookie")), ("", form_token("")), ("cookie", ""), ("cookie", "é" * 80)):
        assert not has_token(binding, sent)


@pytest.mark.parametrize("headers", FOREIGN)
def test_cross_site_form_is_detected_by_browser_headers(headers: dict[str, str]) -> None:
    door = door_of("api.example.com", "https://api.example.com", "https://api.example.com")
    sent = {name.encode(): value.encode() for name, value in headers.items()}
    assert not is_own_form(sent, door, "api.example.com")
    for own in ({}, {b"sec-fetch-site": b"same-origin"}, {b"origin": b"https://api.example.com"}):
        assert is_own_form(own, door, "api.example.com")


async def test_form_without_token_or_from_another_site_is_rejected(owner: Owner) -> None:
    """Goal: no CSRF. Method: every form, with no token, with another session's token, or with cross-site headers."""
    async with open_owner(owner.node, await owner.node.new_account()) as other:
        await owner.get("/keys")
        await other.get("/keys")
        form_paths = [path.removeprefix("/dashboard") for path in forms_of(owner)]
        assert len(form_paths) > 20
        token = owner.token
        for path, wrong in [*((path, other.token) for path in form_paths), ("/keys", ""), ("/keys", "0" * 80)]:
            answer = await owner.send_fields(path, {"sure": "yes"}, token=wrong)
            assert answer.status_code == 403, path
        for headers in FOREIGN:
            answer = await owner.send_fields("/keys", {"name": "x"}, token=token, **headers)
            assert answer.status_code == 403
        assert len(await owner.node.operate("key.list", account=owner.node.account)) == 1


def forms_of(owner: Owner) -> list[str]:
    """Return the paths of all routes that accept forms, with their parameter names as ids that do not exist."""
    rules = [rule for rule in rules_of(owner) if "POST" in (rule.methods or ())]
    return sorted({rule.rule.replace("<", "").replace(">", "") for rule in rules})


async def test_every_response_forbids_framing_and_only_styles_are_cached(owner: Owner) -> None:
    for path in ("", "/keys", "/sign-in", "/nowhere", "/usage.csv", "/style.css"):
        headers = (await owner.get(path)).headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("private, max-age=300" if path == "/style.css" else "no-store")
        assert "access-control-allow-credentials" not in headers


async def test_planted_session_never_becomes_valid(owner: Owner) -> None:
    """Goal: no session fixation. Method: the session token changes at sign-in, and the previous one opens nothing."""
    first = owner.client.cookies["sluice-session"]
    owner.client.cookies.set("sluice-session", "planted", domain="127.0.0.1")
    owner.client.cookies.delete("sluice-session", domain="127.0.0.1")
    owner.client.cookies.set("sluice-session", first, domain="127.0.0.1")
    await owner.get("/confirm")
    await owner.send("/confirm", password=PASSWORD)
    second = owner.client.cookies["sluice-session"]
    assert second != first
    async with open_browser(owner.node) as attacker:
        attacker.client.cookies.set("sluice-session", first, domain="127.0.0.1")
        assert (await attacker.get("/keys")).headers["location"].startswith("/dashboard/sign-in")
        await attacker.get("/sign-in")
        attacker.email = owner.email
        await attacker.sign_in()
        assert attacker.client.cookies["sluice-session"] not in (first, second)


async def test_signing_out_ends_the_session_on_the_node(owner: Owner) -> None:
    token = owner.client.cookies["sluice-session"]
    await owner.get("")
    answer = await owner.send("/sign-out")
    assert answer.headers["location"] == "/dashboard/sign-in?done=signed_out"
    owner.client.cookies.set("sluice-session", token, domain="127.0.0.1")
    assert (await owner.get("/keys")).status_code == 303


async def test_only_sign_in_pages_open_without_a_session(node: OpenNode) -> None:
    async with open_browser(node) as stranger:
        for path in ("", "/keys", "/usage.csv", "/monitors/mon_1", "/events/new", "/account", "/confirm"):
            answer = await stranger.get(path)
            assert answer.headers["location"].startswith("/dashboard/sign-in?next=%2Fdashboard"), path
        answer = await stranger.get("/sign-in?next=https://evil.example")
        assert "evil.example" not in answer.text


async def test_forged_hosts_are_rejected_and_change_no_link(owner: Owner) -> None:
    for host in ("evil.example", "127.0.0.1@evil.example", "evil.example:80"):
        answer = await owner.get("/keys", host=host)
        assert answer.status_code in (400, 421)
        assert "set-cookie" not in answer.headers or "session" not in answer.headers["set-cookie"]
    answer = await owner.get("/keys", **{"x-forwarded-host": "evil.example", "forwarded": "host=evil.example"})
    assert answer.status_code == 200
    assert "evil.example" not in answer.text


async def test_cookies_are_bound_to_their_host_behind_a_proxy_with_tls(tmp_path: Path) -> None:
    """Goal: cookies have `__Host-` and `Secure` if the owner uses TLS, and there is no sign-in without TLS."""
    server = {"server": {"trusted_proxies": ["127.0.0.0/8"]}}
    async with open_test_node(tmp_path, **server) as node, open_browser(node) as stranger:
        over_tls = {"host": "api.example.com", "x-forwarded-proto": "https"}
        cookie = (await stranger.get("/sign-in", **over_tls)).headers["set-cookie"]
        assert cookie.startswith("__Host-sluice-form=")
        for flag in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
            assert flag in cookie
        assert "domain" not in cookie.lower()
        answer = await stranger.get("/sign-in", host="api.example.com")
        assert answer.status_code == 403
        assert "https" in stranger.words


async def test_unknown_email_and_wrong_password_are_indistinguishable(owner: Owner) -> None:
    """Goal: no enumeration. Method: compare whole responses, and CPU times of alternating attempts."""
    async with open_browser(owner.node) as stranger:
        texts, spent = set(), {owner.email: [], "nobody@example.com": []}  # type: ignore[var-annotated]
        for _ in range(4):
            for email, times in spent.items():
                await stranger.get("/sign-in")
                token, began = stranger.token, time.process_time()
                answer = await stranger.send("/sign-in", token=token, email=email, password="wrong wrong wrong")
                times.append(time.process_time() - began)
                text = answer.text.replace(stranger.token, "").replace(email, "")
                texts.add((answer.status_code, text))
        assert len(texts) == 1
        known, unknown = (statistics.median(times) for times in spent.values())
        assert 0.4 < known / unknown < 2.5


async def test_guessing_stops_after_ten_attempts(owner: Owner) -> None:
    async with open_browser(owner.node) as stranger:
        stranger.email = owner.email
        statuses = [(await stranger.sign_in(f"guess number {number}")).status_code for number in range(11)]
        assert statuses == [400] * 10 + [429]
        assert (await stranger.sign_in()).status_code == 429
        assert (await owner.get("/keys")).status_code == 200
        refused = owner.node.log_events("sign_in_refused")
        assert [one["status"] for one in refused] == [400] * 10 + [429] * 2
        assert owner.email not in owner.node.log.getvalue().decode()


async def test_oversized_form_is_rejected(owner: Owner) -> None:
    await owner.get("/keys")
    assert (await owner.send("/keys", name="x" * 300_000)).status_code == 413


async def test_disabled_dashboard_does_not_exist(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, dashboard={"enabled": False}) as node:
        answer = await node.client.get(f"{node.url}/dashboard/sign-in")
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "ENDPOINT_NOT_FOUND"
