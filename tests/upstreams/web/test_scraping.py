"""web/scrape over HTTP: a page on any host, its price, refusals, and obstacles such as walls (decisions 21)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trio

from limits.fair_turns import FairTurn
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.upstreams.web.pdfs import pdf_of

HOST = "site.example.org"
TEXT = "A sentence that is long enough to be the text of an article, and then some more of it. " * 4
PAGE = f"<html><head><title>A title</title></head><body><article><h1>A title</h1><p>{TEXT}</p></article></body></html>"
HTML = {"content-type": "text/html; charset=utf-8"}
ABSENT = ScriptedAnswer(404, b"", {"content-type": "text/plain"})


def page(html: str = PAGE, status: int = 200, **headers: str) -> ScriptedAnswer:
    return ScriptedAnswer(
        status, html.encode(), {**HTML, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )


def serve(node: OpenNode, answers: Mapping[str, ScriptedAnswer]) -> None:
    """Serve these paths of the host, and return 404 for all others."""
    node.upstream.script = lambda asked: answers.get(asked.removeprefix(HOST), ABSENT)
    node.upstream.requests.clear()


async def scrape(node: OpenNode, path: str = "/a", headers: Mapping[str, str] | None = None, **values: Any) -> Answered:
    more = "".join(f"&{name}={quote(str(value))}" for name, value in values.items())
    return await node.get(f"/v1/web/scrape?url={quote(f'https://{HOST}{path}', safe='')}{more}", headers=headers)


async def test_page_has_the_requested_formats_and_is_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        serve(node, {"/a": page()})
        first = await scrape(node, formats="markdown,metadata,links")
        found = first.json["data"]["page"]
        assert (first.status, first.json["credits_used"], found["final_url"]) == (200, 1, f"https://{HOST}/a")
        assert found["content"]["markdown"].startswith("# A title\n\nA sentence")
        assert (found["metadata"]["title"], found["status_code"], found["source_type"]) == ("A title", 200, "html")
        assert found["fetch"] == {"cache_state": "miss"}
        assert node.upstream.requests == [f"{HOST}/robots.txt", f"{HOST}/a"]
        again = await scrape(node, formats="markdown,metadata,links")
        assert (again.json["credits_used"], again.headers["x-cache"]) == (0, "HIT")
        assert again.json["data"]["page"]["fetch"] == {"cache_state": "hit"}
        assert {**again.json["data"]["page"], "fetch": None} == {**found, "fetch": None}
        spelled = await node.get(f"/v1/web/scrape?url={HOST.upper()}/b/../%2561%2523x&formats=markdown,metadata,links")
        assert spelled.status == 404, "an encoded number sign does not start a fragment"
        spelled = await node.get(
            f"/v1/web/scrape?url={HOST.upper()}/b/../%2561&formats=markdown,metadata,links&timeout=9000"
        )
        assert spelled.headers["x-cache"] == "HIT", "another spelling at another time is the same page"
        assert len(node.upstream.requests) == 3
        await node.assert_sound()


async def test_answer_older_than_max_age_is_refetched(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        serve(node, {"/a": page()})
        seen = [(await scrape(node, max_age=age)).headers["x-cache"] for age in (0, 60_000, 172_800_000, 0)]
        assert seen == ["MISS", "HIT", "HIT", "MISS"]
        assert (await scrape(node, headers={"cache-control": "no-cache"})).headers["x-cache"] == "MISS"
        assert (await scrape(node, max_age=0, dry_run=1)).json["data"]["estimated_credits"] == 1
        assert (await scrape(node, dry_run=1)).json["data"]["estimated_credits"] == 0
        assert node.upstream.requests.count(f"{HOST}/a") == 3


async def test_pdf_costs_five_credits_and_another_page_one(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        pdf = ScriptedAnswer(200, pdf_of(["Of the paper."]), {"content-type": "application/pdf"})
        serve(node, {"/p": pdf, "/a": page()})
        plain = await scrape(node, "/p")
        assert (plain.status, plain.json["error"]["details"]["reason"], plain.json["credits_used"]) == (404, "pdf", 0)
        assert (await scrape(node, "/p", pdf_parse="true", dry_run=1)).json["data"]["estimated_credits"] == 5
        parsed = await scrape(node, "/p", pdf_parse="true")
        assert (parsed.json["credits_used"], parsed.json["data"]["page"]["page_count"]) == (5, 1)
        assert parsed.json["data"]["page"]["content"]["markdown"] == "Of the paper."
        assert (await scrape(node, "/a", pdf_parse="true")).json["credits_used"] == 1
        guide = (await node.get("/v1/utility/endpoint?id=web/scrape")).json["data"]
        assert guide["credits"]["label"] == "1-5 credits, metered"
        await node.assert_sound()


async def test_redirects_are_followed_but_not_to_private_space(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answers = {
            "/1": page("", 302, location="/2", set_cookie="seen=1; Path=/, other=2; HttpOnly"),
            "/utf-8": page("", 302, location="/caf\u00e9"),
            "/caf%C3%A9": page(),
            "/2": page("", 303, location=f"http://{HOST}:8080/a"),
            ":8080/a": page(),
            "/circle": page("", 307, location="/circle"),
            **{f"/to/{n}": page("", 302, location=to) for n, to in enumerate(INSIDE)},
        }
        serve(node, answers)
        found = await scrape(node, "/1")
        assert found.json["data"]["page"]["final_url"] == f"http://{HOST}:8080/a"
        found = await scrape(node, "/utf-8")
        assert found.json["data"]["page"]["final_url"] == f"https://{HOST}/caf%C3%A9"
        assert (await scrape(node, "/circle")).json["error"]["details"]["reason"] == "redirect_loop"
        for number, _ in enumerate(INSIDE):
            refused = await scrape(node, f"/to/{number}")
            assert (refused.status, refused.json["error"]["type"]) == (502, "UPSTREAM_ERROR"), INSIDE[number]
            assert refused.json["credits_used"] == 0
        hosts = {asked.partition("/")[0] for asked in node.upstream.requests}
        assert hosts == {HOST, f"{HOST}:8080"}
        await node.assert_sound()


INSIDE = (
    "http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data/", "http://localhost/", "//10.0.0.1/",
    "http://2130706433/", "http://0x7f.1/", "https://[::ffff:10.0.0.1]/", "http://intranet/", "file:///etc/passwd",
    f"http://{HOST}:22/", f"https://user:word@{HOST}/", "http://127.0.0.1:8080/", "gopher://127.0.0.1/",
)  # fmt: skip


async def test_robots_files_are_respected_and_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        rules = "User-agent: sluice\nDisallow: /private\nAllow: /private/open\n\nUser-agent: *\nDisallow: /\n"
        robots = ScriptedAnswer(200, rules.encode(), {"content-type": "text/plain"})
        serve(
            node,
            {"/robots.txt": robots, "/a": page(), "/private/open": page(), "/r": page("", 302, location="/private/x")},
        )
        assert (await scrape(node, "/a")).status == (await scrape(node, "/private/open")).status == 200
        for path in ("/private/x", "/r"):
            refused = await scrape(node, path)
            assert (refused.status, refused.json["error"]["details"]["reason"]) == (404, "robots_disallowed")
            assert refused.json["credits_used"] == 0
        assert node.upstream.requests.count(f"{HOST}/robots.txt") == 1
        assert f"{HOST}/private/x" not in node.upstream.requests
    async with open_test_node(tmp_path / "b", web={"respect_robots": False}) as node:
        serve(node, {"/robots.txt": robots, "/private/x": page()})
        assert (await scrape(node, "/private/x")).status == 200
        assert node.upstream.requests == [f"{HOST}/private/x"]


async def test_host_with_a_failing_robots_file_is_not_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        serve(node, {"/robots.txt": ScriptedAnswer(503, b"", {}), "/a": page()})
        refused = await scrape(node)
        assert (refused.status, refused.json["error"]["type"]) == (502, "UPSTREAM_ERROR")
        assert f"{HOST}/a" not in node.upstream.requests


async def test_walls_and_missing_pages_are_reported_for_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        login = '<title>Sign in</title><form><input type="password"></form>'
        walls = {
            "/401": (page("", 401), "login_required"),
            "/form": (page(login), "login_required"),
            "/to": (page("", 302, location="/login"), "login_required"),
            "/cf": (page("<title>Just a moment...</title>", 403, cf_mitigated="challenge"), "challenge"),
            "/503": (page("<script>window._cf_chl_opt={}</script>", 503), "challenge"),
            "/empty": (page('<div id="root"></div>'), "javascript_required"),
            "/nothing": (page(" "), "empty"),
            "/gone": (page("Gone", 410), None),
            "/odd": (page("I'm a teapot", 418), None),
        }
        serve(node, {"/login": page(login), **{path: told for path, (told, _) in walls.items()}})
        for path, (_, reason) in walls.items():
            answer = await scrape(node, path)
            assert answer.status == 404, path
            assert (answer.json["error"].get("details") or {}).get("reason") == reason, path
            assert answer.json["credits_used"] == 0
        await node.assert_sound()


async def test_invalid_values_are_refused_for_free(tmp_path: Path) -> None:
    refused = {
        "url=": "url",
        "url=http://127.0.0.1/": "url",
        "url=https://a.example.org:22/": "url",
        "url=ftp://a.example.org/": "url",
        "url=a.example.org&formats=pdf": "formats",
        "url=a.example.org&include_tags=p%5B": "include_tags",
        "url=a.example.org&exclude_tags=p,%3A%3A(": "exclude_tags",
        "url=a.example.org&timeout=30001": "timeout",
        "url=a.example.org&max_age=-1": "max_age",
    }
    async with open_test_node(tmp_path) as node:
        for query, param in refused.items():
            answer = await node.get(f"/v1/web/scrape?{query}")
            details = answer.json["error"]["details"]
            assert (answer.status, details["param"], details["reason"]) == (400, param, "invalid_param"), query
            assert answer.json["credits_used"] == 0
        assert node.upstream.requests == []


async def test_slow_or_oversized_page_is_an_error_in_time(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, upstreams={"defaults": {"retries": 0}}) as node:
        slow = ScriptedAnswer(200, PAGE.encode(), HTML, delay_s=30)
        serve(node, {"/slow": slow, "/long": ScriptedAnswer(200, b"<p>x</p>" * 1_400_000, HTML), "/a": page()})
        late = await scrape(node, "/slow", timeout=300)
        assert (late.status, late.json["error"]["type"], late.json["credits_used"]) == (502, "UPSTREAM_ERROR", 0)
        assert "10485760 bytes" in (await scrape(node, "/long")).json["error"]["message"]
        assert (await scrape(node)).status == 200


async def test_values_are_extracted_by_a_schema_for_five_credits(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        serve(node, {"/a": page()})
        at = f"/v1/web/extract?url=https://{HOST}/a&schema="
        found = await node.get(at + quote('{"title": "h1"}'))
        assert (found.json["credits_used"], found.json["data"]["page"]["extraction"]) == (5, {"title": "A title"})
        assert found.json["data"]["page"]["metadata"]["title"] == "A title"
        empty = await node.get(at + quote('{"title": ".none"}'))
        assert (empty.status, empty.json["credits_used"]) == (404, 0)
        for query, param, reason in (
            (f"{at}%7B", "schema", "invalid_param"),
            (at + quote('{"a": "p["}'), "schema", "invalid_param"),
            (f"/v1/web/extract?url=https://{HOST}/a&prompt=x", "prompt", "capability_missing"),
            (f"/v1/web/extract?url=https://{HOST}/a", "schema", "invalid_param"),
        ):
            refused = await node.get(query)
            details = refused.json["error"]["details"]
            assert (refused.status, details["param"], details["reason"]) == (400, param, reason)
        await node.assert_sound()


async def test_page_without_worker_capacity_is_refused_before_charging(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        serve(node, {"/a": page()})
        turns, held = node.node.catalog.sites["web"].workers._line._turns, list[FairTurn]()
        while (turn := turns.take_nowait(node.account, 1_000.0, over_at=trio.current_time() + 60)) is not None:
            held.append(turn)
        full = await scrape(node)
        assert (full.status, full.headers["retry-after"], full.json["credits_used"]) == (503, "60", 0)
        assert "nothing was charged" in full.json["error"]["message"]
        assert await node.entries(full.json["request_id"]) == []
        assert node.upstream.requests == []
        assert (await scrape(node, dry_run=1)).status == 200
        key, _ = await node.new_key(await node.new_account())
        other = await node.get(f"/v1/web/scrape?url=https://{HOST}/a", key=key)
        assert (other.status, other.json["credits_used"]) == (200, 1), "another account has its own slots"
        for turn in held:
            turns.end(turn)
        assert (await scrape(node, max_age=0)).status == 200
        await node.assert_sound()
