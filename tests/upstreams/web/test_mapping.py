"""web/map over HTTP: a site's pages, from sitemaps in every format up to a limit, and from the links on its page."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.upstreams.web.test_scraping import ABSENT, HOST, HTML, serve
from upstreams.web.reading.sitemaps import ENTRIES_MAX, UNPACKED_MAX, Scope, fitness, read_sitemap

XML = {"content-type": "application/xml"}
SITE = f"https://{HOST}"


def urlset(*places: str) -> bytes:
    rows = "".join(f"<url><loc>{place}</loc><lastmod>2026-05-03</lastmod></url>" for place in places)
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'.encode()


def index(*places: str) -> bytes:
    rows = "".join(f"<sitemap><loc>{place}</loc></sitemap>" for place in places)
    return f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</sitemapindex>'.encode()


def robots(*sitemaps: str) -> ScriptedAnswer:
    return ScriptedAnswer(
        200, "".join(f"Sitemap: {one}\n" for one in sitemaps).encode(), {"content-type": "text/plain"}
    )


async def map_(node: OpenNode, path: str = "/", **values: Any) -> Answered:
    more = "".join(f"&{name}={quote(str(value))}" for name, value in values.items())
    return await node.get(f"/v1/web/map?url={quote(SITE + path, safe='')}{more}")


def paths(answer: Answered) -> list[str]:
    return [item["page"]["url"].removeprefix(SITE) for item in answer.json["data"]["items"]]


def read(raw: bytes, **scope: Any) -> list[str]:
    found = read_sitemap(raw, "", f"{SITE}/sitemap.xml", {"host": HOST, **scope})
    return [url for url, _ in found["pages"]]


LINKS = '<a href="/linked">The linked page</a><a href="b?x=1#y">B</a><a href="https://else.example.net/">Else</a><a href="mailto:a@b">M</a>'


async def test_site_is_mapped_by_sitemaps_from_robots_and_links(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answers: Mapping[str, ScriptedAnswer] = {
            "/robots.txt": robots(f"{SITE}/index.xml", "/plain.txt"),
            "/index.xml": ScriptedAnswer(
                200, index(f"{SITE}/one.xml.gz", f"{SITE}/two.xml", f"{SITE}/index.xml", f"{SITE}/gone.xml"), XML
            ),
            "/one.xml.gz": ScriptedAnswer(
                200, gzip.compress(urlset(f"{SITE}/a", f"{SITE}/a?page=2")), {"content-type": "application/gzip"}
            ),
            "/two.xml": ScriptedAnswer(
                200,
                urlset(f"{SITE}/b", f"http://www.{HOST}/w", f"https://sub.{HOST}/s", "https://else.example.net/e"),
                XML,
            ),
            "/plain.txt": ScriptedAnswer(
                200, f"{SITE}/t1\n{SITE}/t2\nno address\n".encode(), {"content-type": "text/plain"}
            ),
            "/": ScriptedAnswer(200, LINKS.encode(), HTML),
        }
        serve(node, answers)
        whole = await map_(node)
        assert whole.json["credits_used"] == 1
        assert paths(whole) == ["/t1", "/t2", "/a", "/b", f"http://www.{HOST}/w", f"https://sub.{HOST}/s", "/linked"]
        assert whole.json["data"]["items"][-1]["page"]["metadata"]["title"] == "The linked page"
        assert whole.json["pagination"] == {"next_cursor": None, "has_more": False, "page_size": 7}
        only = await map_(node, sitemap="only", include_subdomains="false", ignore_query_parameters="false")
        assert paths(only) == ["/t1", "/t2", "/a", "/a?page=2", "/b", f"http://www.{HOST}/w"]
        assert paths(await map_(node, sitemap="skip")) == ["/linked", "/b"]
        assert paths(await map_(node, limit=3)) == ["/t1", "/t2", "/a"]
        assert (await map_(node, limit=3)).headers["x-cache"] == "HIT"
        assert (await map_(node, limit=3, fresh="true")).headers["x-cache"] == "MISS"
        assert paths(await map_(node, search="linked page")) == ["/linked"]
        await node.assert_sound()


async def test_site_without_a_sitemap_is_mapped_by_links_or_reported_as_empty(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        serve(node, {"/": ScriptedAnswer(200, LINKS.encode(), HTML)})
        assert paths(await map_(node)) == ["/linked", "/b"]
        assert node.upstream.requests == [f"{HOST}/robots.txt", f"{HOST}/sitemap.xml", f"{HOST}/"]
        assert paths(await map_(node, sitemap="only")) == []
        absent = await map_(node, "/nothing")
        assert (absent.status, absent.json["credits_used"]) == (404, 0)
        serve(node, {"/": ScriptedAnswer(200, b"<!-- a note -->", HTML)})
        empty = await map_(node, fresh="true")
        assert (empty.status, empty.json["credits_used"]) == (404, 0)
        assert empty.json["error"]["details"]["reason"] == "empty"
        serve(
            node, {"/": ScriptedAnswer(200, b"", HTML), "/sitemap.xml": ScriptedAnswer(200, urlset(f"{SITE}/a"), XML)}
        )
        assert paths(await map_(node, fresh="true")) == ["/a"]


async def test_sitemap_in_private_space_is_not_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        inside = (
            "http://127.0.0.1/s.xml",
            "http://169.254.169.254/s.xml",
            "http://localhost/s.xml",
            "file:///etc/passwd",
        )
        answers = {
            "/robots.txt": robots(*inside, f"{SITE}/index.xml", f"{SITE}/away.xml"),
            "/index.xml": ScriptedAnswer(200, index(*inside), XML),
            "/away.xml": ScriptedAnswer(302, b"", {"location": "http://10.0.0.1/s.xml"}),
        }
        serve(node, answers)
        assert (await map_(node, sitemap="only")).status == 200
        assert {asked.partition("/")[0] for asked in node.upstream.requests} == {HOST}


def test_sitemap_of_any_form_is_read_up_to_its_limit() -> None:
    many = [f"{SITE}/{number}" for number in range(ENTRIES_MAX + 10)]
    assert len(read(urlset(*many), limit=10**6)) == ENTRIES_MAX
    assert len(read("\n".join(many).encode(), limit=10**6)) == ENTRIES_MAX
    assert read(gzip.compress(urlset(f"{SITE}/a"))[:-12]) in ([f"{SITE}/a"], []), (
        "a truncated sitemap is read up to its end"
    )
    assert read(b"<urlset><url><loc> /a </loc></url><url><loc>/b</loc>") == [f"{SITE}/a", f"{SITE}/b"]
    rss = f"<rss><channel><link>{SITE}/</link><item><link>{SITE}/i</link></item></channel></rss>"
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>urn:1</id><link href="{SITE}/e"/></entry></feed>'
    assert (read(rss.encode()), read(atom.encode())) == ([f"{SITE}/i"], [f"{SITE}/e"])
    for odd in (
        b"",
        b"<html><p>Not found</p></html>",
        b"\x1f\x8b\x08rubbish",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><urlset>&a;",
    ):
        assert read(odd) == []
    bomb = gzip.compress(b"<urlset>" + b" " * (UNPACKED_MAX + 1), 1)
    assert read(bomb) == []


def test_pages_matching_more_words_come_first() -> None:
    places = [
        f"{SITE}/{path}" for path in ("about", "garden-tools", "tools", "blog/the-garden-in-spring", "gardening/tools")
    ]
    found = read(urlset(*places), search="garden tools")
    assert found[0] == f"{SITE}/garden-tools"
    assert f"{SITE}/about" not in found
    assert fitness(["garden"], f"{SITE}/x", "Our Garden") > fitness(["garden"], f"{SITE}/gardening", "") > 0


def test_only_the_host_and_its_subdomains_belong_to_a_site() -> None:
    scope = Scope(host=f"www.{HOST}")
    inside: Iterable[str] = (f"{SITE}/", f"https://www.{HOST}/", f"http://a.b.{HOST}/x")
    outside: Iterable[str] = (
        f"https://not{HOST}/",
        f"https://{HOST}.evil.net/",
        "https://example.org/",
        "http://127.0.0.1/",
    )
    assert all(scope.spelled(one) for one in inside)
    assert not any(scope.spelled(one) for one in outside)
    assert ABSENT.status == 404
