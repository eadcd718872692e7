"""Sitemaps with syntax errors, in other encodings and forms, and sites whose page fails, through a whole node."""

from __future__ import annotations

import gzip
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import quote

import pytest

from tests.cases.files import ABSENT, case, needs_cases
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from upstreams.web.reading.sitemaps import read_sitemap

XML = {"content-type": "application/xml"}
CASES = {
    "sitemap_bare_ampersand.xml": ["/salt%20&%20pepper", "/ok?a=1&b=2"],
    "sitemap_utf16.xml": ["/1"],
    "sitemap_atom_replies.xml": ["/p1"],
}
HOST = "site.example.org"
SITE = f"https://{HOST}"


async def map_(node: OpenNode, host: str, answers: dict[str, ScriptedAnswer], **values: Any) -> Answered:
    node.upstream.script = lambda asked: answers.get(asked.removeprefix(host), ABSENT)
    more = "".join(f"&{name}={quote(str(value))}" for name, value in values.items())
    return await node.get(f"/v1/web/map?url={quote(f'https://{host}/', safe='')}&fresh=true{more}")


def paths(answer: Answered, host: str) -> list[str]:
    assert answer.status == 200, answer.json
    return [item["page"]["url"].removeprefix(f"https://{host}") for item in answer.json["data"]["items"]]


def read(raw: bytes | str, content_type: str = "application/xml") -> list[str]:
    whole = raw.encode() if isinstance(raw, str) else raw
    found = read_sitemap(whole, content_type, f"{SITE}/sitemap.xml", {"host": HOST, "drops_queries": False})
    return [url.removeprefix(SITE) for url, _ in found["pages"]]


def urlset(*places: str) -> str:
    rows = "".join(f"<url><loc>{SITE}{place}</loc></url>" for place in places)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'


@needs_cases
async def test_every_sample_sitemap_is_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for name, expected in CASES.items():
            host = f"{name.removesuffix('.xml').replace('_', '-')}.example.org"
            told = {"/sitemap.xml": ScriptedAnswer(200, case(name), XML)}
            answer = await map_(node, host, told, sitemap="only", ignore_query_parameters="false")
            assert paths(answer, host) == expected
        await node.assert_sound()


async def test_map_keeps_sitemap_pages_if_the_page_fails(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for status in (404, 403, 410, 500, 302):
            host = f"fails{status}.example.org"
            places = [f"/{number}" for number in range(500)]
            root = ScriptedAnswer(status, b"no", {"content-type": "text/html", "location": "https://10.0.0.1/"})
            sitemap = ScriptedAnswer(200, urlset(*places).replace(HOST, host).encode(), XML)
            answer = await map_(node, host, {"/sitemap.xml": sitemap, "/": root}, limit=5_000)
            assert paths(answer, host) == places
            assert "The page itself could not be read" in answer.json["data"]["_warnings"][-1]
            assert answer.json["credits_used"] == 1
            alone = await map_(node, host, {"/": root})
            assert alone.status != 200
            assert alone.json["credits_used"] == 0
        await node.assert_sound()


async def test_map_keeps_sitemap_pages_if_the_page_cannot_be_parsed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for body in (b"", b"<", b"<a>" * 10_000):
            answers = {
                "/sitemap.xml": ScriptedAnswer(200, urlset("/1").encode(), XML),
                "/": ScriptedAnswer(200, body, {"content-type": "text/html"}),
            }
            assert paths(await map_(node, HOST, answers), HOST) == ["/1"]


def test_one_syntax_error_does_not_damage_other_urls() -> None:
    whole = urlset("/1", "/a?x=1&amp;y=2", "/3")
    expected = ["/1", "/a?x=1&y=2", "/3"]
    assert read(whole) == expected
    for slip in ("&", "&nbsp;", "\x0b", "<br>", "</b>", "<x a=1 a=1/>", "<", "&#0;"):
        assert read(whole.replace("<url>", f"{slip}<url>", 1)) == expected, slip
    assert read(whole.replace("</url>", "", 1)) == expected
    assert read(whole.replace("</url>", "")) == expected
    assert read(whole.replace("</loc>", "", 1)) == expected
    assert read(whole[: whole.index("</urlset>")]) == expected
    assert read(whole.replace("&amp;", "&")) == expected
    for before in ("Warning: x\n", "<br />\n<b>Notice</b>: x & y<br />\n", "\n \n"):
        assert read(f"{before}<?xml version='1.0'?>{whole}") == expected, before
    entity = f"<!DOCTYPE urlset [<!ENTITY site '{SITE}'>]>"
    assert read(entity + whole.replace(SITE, "&site;")) == expected


def test_each_member_of_a_compressed_sitemap_is_read() -> None:
    raw = urlset("/1", "/2").encode()
    assert read(b"".join(gzip.compress(raw[at : at + 20]) for at in range(0, len(raw), 20)) + b"junk") == ["/1", "/2"]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("declared", ["utf-16", "iso-8859-1", ""])
@pytest.mark.parametrize("packed", [False, True])
def test_sitemap_is_read_in_any_encoding(codec: str, declared: str, packed: bool) -> None:
    head = f'<?xml version="1.0" encoding="{declared}"?>' if declared else '<?xml version="1.0"?>'
    raw = (head + urlset("/1", "/2")).encode(codec)
    assert read(gzip.compress(raw) if packed else raw) == ["/1", "/2"]


def test_plain_text_sitemap_is_read_in_any_encoding() -> None:
    lines = f"{SITE}/1\n{SITE}/2\n"
    assert read(lines.encode("utf-16"), "text/plain") == read(lines, "text/plain") == ["/1", "/2"]


def test_feeds_contribute_only_links_to_pages() -> None:
    def of(links: str, attributes: str = "") -> list[str]:
        return read(f'<feed xmlns="http://www.w3.org/2005/Atom"{attributes}><entry>{links}</entry></feed>')

    for relation in ("replies", "edit", "self", "enclosure", "via", "related", "Replies", "http://x.example.org/rel"):
        assert of(f'<link rel="{relation}" href="{SITE}/c"/><link href="{SITE}/p"/>') == ["/p"], relation
    assert of(f'<link rel="alternate" type="application/json" href="{SITE}/p.json"/><link href="{SITE}/p"/>') == ["/p"]
    assert of('<link href="p"/>', f' xml:base="{SITE}/x/"') == ["/x/p"]
    item = f"<guid>{SITE}/g</guid><link>{SITE}/p</link><comments>{SITE}/c</comments>"
    assert read(f"<rss><channel><item>{item}</item></channel></rss>") == ["/p"]


@pytest.mark.critical
def test_long_sitemap_with_a_syntax_error_takes_bounded_time() -> None:
    started = process_time()
    found = read("<urlset>&" + f"<url><loc>{SITE}/x</loc></url>" * 20_000 + "<" * 1_000_000)
    assert found == ["/x"]
    assert process_time() - started < 10
