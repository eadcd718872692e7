"""Feeds with syntax errors, unusual dates, links of several kinds and tags in titles, through a whole node."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from tests.cases.files import case, needs_cases, read_at
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gate.matrix import sample
from upstreams.content.amounts import duration
from upstreams.content.charset import text_of
from upstreams.content.dates import instant_of
from upstreams.content.feed_elements import title_of
from upstreams.content.feeds import read_feed
from upstreams.content.slips import repair_xml
from upstreams.model import fields

XML = {"content-type": "application/xml"}
WHOLE = {
    "url": "https://kitchen.example.org/p?a=1&b=2",
    "media": ["https://media.example.org/e.mp3?u=1&t=2"],
    "text": 'Salt & Pepper\n\nHello there\n"q"',
}
HEAD = (
    '<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:media="http://search.yahoo.com/mrss/"><channel><title>Kitchen talk</title>'
)
ITEM = (
    '<item><title>Salt &amp; Pepper</title><guid isPermaLink="false">2</guid>'
    "<link>https://kitchen.example.org/p?a=1&amp;b=2</link>"
    '<enclosure url="https://media.example.org/e.mp3?u=1&amp;t=2" type="audio/mpeg"/>'
    "<description>&lt;p&gt;Hello &lt;b&gt;there&lt;/b&gt;&lt;/p&gt; &quot;q&quot;</description></item>"
)
TAIL = "</channel></rss>"
hosts = count()


async def episodes(node: OpenNode, raw: bytes, *, host: str = "", items: bool = True) -> Any:
    """Return the episodes of a feed by their ids. Each feed has its own host."""
    address = f"{host or f'h{next(hosts)}.example.org'}/feed.xml"
    answer = await read_at(node, address, ScriptedAnswer(200, raw, XML), "podcasts/episodes")
    if not items:
        return answer
    assert answer.status == 200, answer.json
    return {post["id"]: post for item in answer.json["data"]["items"] for post in [members(item["post"])]}


def members(post: Any) -> dict[str, Any]:
    return {
        "id": post["id"],
        "url": post["url"],
        "text": post["content"]["text"],
        "media": post["content"]["media_urls"],
        "seconds": post["content"]["duration_seconds"],
        "at": post["published_at"],
    }


def assert_has(found: Any, expected: dict[str, Any]) -> None:
    """Check that a feed has exactly these items, and that each item has the expected members."""
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        assert {key: found[name][key] for key in wanted} == wanted, name


CASES: dict[str, dict[str, Any]] = {
    "slip_amp_in_title.xml": {"2": WHOLE},
    "slip_control_char.xml": {"1": {"text": "one"}, "2": WHOLE},
    "slip_named_unknown.xml": {"1": {}, "2": WHOLE},
    "slip_dup_attr.xml": {"1": {"text": "one"}, "2": WHOLE},
    "slip_bad_ncr.xml": {"1": {"text": "one"}, "2": WHOLE},
    "slip_attr_noquote.xml": {"1": {"text": "one"}, "2": WHOLE},
    "slip_late.xml": {"2": WHOLE, "3": {"text": "Q&A"}},
    "bare_ampersand_url.xml": {
        "a": {
            "url": "https://kitchen.example.org/p?a=1&b=2&copy=3",
            "media": ["https://media.example.org/a.mp3?id=1&sig=abc&x=9"],
            "text": "Small item\n\nQ&A and P&L; R&D",
        }
    },
    "bare_ampersand_atom.xml": {"1": {"url": "https://bakery.example.org/of-rye-&-wheat.html", "text": "Rye & Wheat"}},
    "bare_ampersand_title.xml": {"q": {"text": "Market day - & Boats & Tents"}},
    "surrogate_ncr.xml": {"a": {"text": "Small item\n\n\U0001f680 go"}},
    "surrogate_raw.xml": {"a": {"text": "Small item\n\n\U0001f680 go"}},
    "attr_no_space.xml": {"a": {"seconds": 10}},
    "unclosed_media.xml": {"1": {}, "2": {}, "3": {}},
    "unclosed_enclosure.xml": {"1": {"media": ["https://media.example.org/a.mp3"]}, "2": {"media": []}},
    "unclosed_bold.xml": {"1": {"text": "Small item\n\nvery warm"}, "2": {"text": "Small item\n\ncold"}},
    "unclosed_br.xml": {"1": {"text": "one"}, "2": WHOLE},
    "less_than.xml": {"a": {"text": "Small item\n\nif oven < 90 then wait > 5"}},
    "dates.xml": {
        "colon": {"at": "2023-03-13T23:20:30Z"},
        "gmt+7": {"at": "2023-07-06T11:05:00Z"},
        "zone": {"at": None},
        "+1": {"at": "2023-01-16T09:00:00Z"},
    },
    "zero_date.xml": {"a": {"at": None}},
    "duration_comma.xml": {"a": {"seconds": 5_400}, "b": {"seconds": 5_400}},
    "xmlbase_entry.xml": {
        "1": {
            "url": "https://blog.example.org/diary/2019/06/long-days",
            "media": ["https://blog.example.org/diary/2019/06/a.mp3"],
        }
    },
    "xmlbase_root.xml": {"1": {"url": "https://ground.example.org/latest/1.html"}},
    "title_tag_words.xml": {
        "1": {"text": "Parts of the <body> element"},
        "2": {"text": "Why <K> is hard"},
        "3": {"text": "A b c"},
    },
    "links_of_types.xml": {"1": {"url": "https://bakery.example.org/1"}},
}


@needs_cases
async def test_every_sample_feed_is_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for name, expected in CASES.items():
            assert_has(await episodes(node, case(name)), expected)
        assert list(await episodes(node, case("underscore.xml"), host="my_show.example.org")) == ["a"]
        for host in ("a_b.internal", "a_b.localhost", "a_b"):
            node.upstream.requests.clear()
            refused = await episodes(node, case("underscore.xml"), host=host, items=False)
            assert refused.status == 400, host
            assert node.upstream.requests == []
        await node.assert_sound()


ONE = "<item><title>one</title><guid>1</guid>"
SLIPS = {
    "an ampersand in an attribute": '<item><guid isPermaLink="a&b">1</guid><title>one</title></item>',
    "an attribute without a value": "<item><guid isPermaLink>1</guid><title>one</title></item>",
    "an attribute that is never closed": '<item><title>one</title><guid isPermaLink="false>1</guid></item>',
    "attributes without a space": '<item><title>one</title><guid a="1"isPermaLink="false">1</guid></item>',
    "a less-than sign in an attribute": '<item><title>one</title><guid a="1 < 2">1</guid></item>',
    "a prefix that is not declared": "<item><title>one</title><guid>1</guid><foo:bar>x</foo:bar></item>",
    "an end tag too many": "<item><title>one</title></b><guid>1</guid></p></item>",
    "end tags in the wrong order": "<item><title>one<i><b></i></b></title><guid>1</guid></item>",
    "an end tag in other letters": "<item><title>one</Title><guid>1</guid></item>",
    "a title that is never closed": "<item><title>one<guid>1</guid></item>",
    "an item that is never closed": "<item><title>one</title><guid>1</guid>",
    "a description that is never closed": f"{ONE}<description>two <b>three</b></item>",
    "an enclosure that is never closed, first": '<item><enclosure url="https://m.example.org/1.mp3">'
    "<title>one</title><guid>1</guid></item>",
    "a section that is never closed": f"{ONE}<description><![CDATA[x</description></item>",
    "sections that are never closed": (
        "<item><title><![CDATA[one</title><guid>1</guid><description><![CDATA[x]]></description></item>"
    ),
    "a comment that is never closed": "<item><title>one</title><guid>1</guid></item><!-- x",
    "an end of a section in text": f"{ONE}<description>a]]>b</description></item>",
    "a reference without its end": f"{ONE}<description>&#65 &amp &x</description></item>",
    "half of a pair": f"{ONE}<description>&#xD83D;</description></item>",
    "a reference beyond Unicode": f"{ONE}<description>&#99999999999;</description></item>",
    "HTML's names": f"{ONE}<description>&nbsp;&AMP;&LT;&eacute;</description></item>",
    "a tag that begins": f"{ONE}<description>a <b and c</description></item>",
    "an address in brackets": "<item><title>one <https://x.example.org/y></title><guid>1</guid></item>",
    "an empty script": f'{ONE}<description>a <script src="x"></script>b</description></item> & ',
    "several slips": '<item><title>one & <i>two &foo;</title><guid a="1"a="2">1</guid><enclosure url=https://x.example.org>'
    "<category>x<category>y<description>a < b <br> c <hr> d <img src='x'></description></item>",
    "a bare instruction": f"{ONE}<description>a <? b ?> <?c</description></item>",
    "every control character": f"{ONE}<description>"
    f"{''.join(map(chr, [*range(1, 9), 11, 12, *range(14, 32)]))}\ufffe</description></item>",
}


async def test_one_syntax_error_does_not_damage_other_items(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for name, slip in SLIPS.items():
            for inner in (slip + ITEM, ITEM + slip):
                found = await episodes(node, f"{HEAD}{inner}{TAIL}".encode())
                assert_has(found, {"1": {}, "2": WHOLE})
                assert found["1"]["text"].startswith("one"), name


async def test_bytes_before_and_a_cut_after_the_items_are_ignored(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for before in ("Warning: a & b\n", "<br />\n<b>Notice</b>: x<br />\n", "\ufeff \n", "&<!-- x -->"):
            raw = f"{before}<?xml version='1.0'?>{HEAD}{ITEM}{TAIL}"
            assert_has(await episodes(node, raw.encode()), {"2": WHOLE})
        cut = f"{HEAD}{ITEM}<item><guid>1</guid><title>on"
        assert_has(await episodes(node, cut.encode()), {"2": WHOLE, "1": {"text": "on"}})
        half_tag = f'{HEAD}{ITEM}<item><guid>1</guid><title>one</title><enclosure url="https://x'
        assert_has(await episodes(node, half_tag.encode()), {"2": WHOLE, "1": {"text": "one"}})


async def test_cdata_sections_and_declared_entities_are_decoded(tmp_path: Path) -> None:
    doctype = (
        '<!DOCTYPE rss PUBLIC "-//Netscape" "http://n.example.org/rss.dtd" [<!-- <x> --><!ENTITY firm "Salt &amp; Co">'
        "<!ENTITY eur '&#8364;'><!ENTITY loop '&loop;'><!ENTITY file SYSTEM 'file:///etc/passwd'>]>"
    )
    raw = (
        f"<?xml version='1.0'?>{doctype}{HEAD}<item><guid>1</guid><title>&firm; &eur;5 &loop;&file;</title>"
        "<description><![CDATA[<b>&amp;lt;</b> & &firm; <br> &#55357;&#56960;]]></description></item>"
        f"<!-- & <item> --><?php & ?>{ITEM}{TAIL}"
    )
    async with open_test_node(tmp_path) as node:
        found = await episodes(node, raw.encode())
        assert_has(found, {"1": {}, "2": WHOLE})
        assert found["1"]["text"] == "Salt & Co \u20ac5 &loop;&file;\n\n&lt; & &firm;\n\U0001f680"


def test_item_inside_another_item_is_read() -> None:
    nested = f"{HEAD}<item><guid>1</guid><enclosure url='u'><item><guid>2</guid></item></enclosure></item>{TAIL}"
    assert [one["id"] for one in read_feed(nested.encode())["items"]] == ["1", "2"]
    unclosed = HEAD + "<item><guid>x</guid>" * 400
    assert len(read_feed(unclosed.encode())["items"]) == 400
    own = f"{HEAD}<item><guid>1</guid><tags><item>a</item><item>b</item></tags></item>{TAIL}"
    assert [one["id"] for one in read_feed(own.encode())["items"]] == ["1"]


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("Tue, 14 Mar 2023 01:20:30 -03:30", "2023-03-14T04:50:30Z"),
        ("14 Mar 2023 01:20 GMT-0200", "2023-03-14T03:20:00Z"),
        ("Thu, 06 Jul 2023 18:05:00 UTC +5", "2023-07-06T13:05:00Z"),
        ("2023-03-14 01:20:30 +0200 CEST", "2023-03-13T23:20:30Z"),
        ("2023-03-14 01:20:30 +0000 UTC", "2023-03-14T01:20:30Z"), ("2023-03-14+02:00", "2023-03-13T22:00:00Z"),
        ("2023-03-14-05:00", "2023-03-14T05:00:00Z"), ("20230314T012030Z", "2023-03-14T01:20:30Z"),
        ("Thu Jul 06 2023 18:05:00 GMT+0700 (Indochina Time)", "2023-07-06T11:05:00Z"),
        ("Mon Jan 16 10:00:00 UTC 2023", "2023-01-16T10:00:00Z"), ("January 16th, 2023", "2023-01-16T00:00:00Z"),
        ("Mon, 16 Jan 23 10:00 EST", "2023-01-16T15:00:00Z"),
        ("2023-03-14T01:20:30.123456789Z", "2023-03-14T01:20:30.123Z"),
        ("2023-12-02T20:21:00 America/Los_Angeles", None), ("Mon, 16 Jan 2023 10:00:00 IST", None),
        ("Mon, 16 Jan 2023 10:00:00 +9999", None),
        ("Mon, 16 Jan 2023 10:00:00 +0260", None),
        ("Mon, 31 Feb 2023 10:00:00 Z", None),
        ("Wed, 30 Nov -0001 00:00:00 +0000", None), ("0000-00-00 00:00:00", None), ("0001-01-01T00:00:00Z", None),
        ("Mon, 01 Jan 0001 00:00:00 UTC", None),
        ("16 Jan 123 10:00 GMT", None),
        ("01/02/2023", None),
        ("202303140120305", None),
        ("Mon, 16 Jan 2023 10:00:00 PM", None), ("Tue, 14 Mar 2023 1:20:30 PM GMT", None),
        ("2023-03-14 12:20 AM", None),
        ("Tue, 14 Mar 2023 1:2:3 GMT", "2023-03-14T01:02:03Z"),
        ("Tue, 14 Mar 2023 01.20.30 GMT", "2023-03-14T01:20:30Z"),
        ("Tue, 14 Mar 2023 01:20:30 (PST)", "2023-03-14T09:20:30Z"),
        ("Tue, 14 Mar 2023 01:20:30 (Pacific)", None), ("2023-03-14T01:20:30[Europe/Paris]", None),
        ("2023-03-14T01:20:30+01:00[Europe/Paris]", "2023-03-14T00:20:30Z"),
        ("Tue, 14 Mar 2023 01:20:30 +15:00", None), ("Tue, 14 Mar 2023 01:20:30 -24:00", None),
        ("01 Jan 01 00:00 UTC", None), ("Monday, 01-Jan-01 00:00:00 UTC", None),
        ("02 Jan 01 00:00 UTC", "2001-01-02T00:00:00Z"),
        ("1673863200", None), ("", None), ("x" * 1_000, None),
    ],
)  # fmt: skip
def test_date_is_correct_or_missing(written: str, at: str | None) -> None:
    assert instant_of(written) == at


def test_year_one_is_not_a_date_on_any_platform() -> None:
    assert fields.instant({"at": "0001-01-01T00:00:00Z"}, "at") is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5,400", 5_400), ("1,234,567", 1_234_567), ("5400", 5_400), ("5400.5", 5_400), ("5,40", None), ("12,5", None),
     ("5,400.5", None), ("120:00", 7_200), ("90 minutes", 5_400), ("1 hr 5 min", 3_900), ("2 hours 3 secs", 7_203),
     ("00:90:00", 5_400),
     ("00:75", 75), ("01:75", None), ("1:75:00", None), ("1h30", None), ("1 month", None),
     ("1:02:03,5", 3_723), ("1:2:3:4", None), ("12:345", None)],
)  # fmt: skip
def test_duration_is_correct_or_missing(written: str, seconds: int | None) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Use <T> & <U>", "Use <T> & <U>"), ("a <br> b", "a\nb"), ("<b>a</b> <c>", "a <c>"), ("a</b>", "a</b>"),
        ("<i>a <b>b</b></i>", "a b"), ('<a href="x">a</a> <img src="x">', "a"), ("<p>a", "a"), ("1 < 2", "1 < 2"),
        ("<K>a</K> <K>", "a <K>"), ("Map<K, V> of <my-tag>", "Map<K, V> of <my-tag>"),
        ("see <https://x.example.org/y>.", "see <https://x.example.org/y>."),
        ("Ann <ann@example.org>", "Ann <ann@example.org>"),
        ("a<b and c<d", "a<b and c<d"),
        ("Use <img> tags", "Use <img> tags"), ("<!DOCTYPE html> and <?php", "<!DOCTYPE html> and <?php"),
        ("<!-- x -->a", "a"), ("<a title='<b>'>a</a> <T> isn't <U>", "a <T> isn't <U>"),
        ("<script>x</script><svg:g/>", "<svg:g/>"), ("&lt;b&gt;", "<b>"), (None, None), ("", None),
    ],
)  # fmt: skip
def test_tag_in_a_title_is_markup_only_if_closed(written: str | None, title: str | None) -> None:
    assert (title_of(written) or None) == title


def test_link_to_the_page_precedes_links_to_other_types() -> None:
    def url(*links: str) -> str | None:
        entry = "".join(links)
        atom = f'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://b.example.org/x/"><entry>{entry}</entry></feed>'
        found: str | None = read_feed(atom.encode())["items"][0]["url"]
        return found

    page, plain, other = (
        '<link rel="alternate" type="text/html; charset=utf-8" href="page"/>',
        '<link href="plain"/>',
        '<link type="application/activity+json" href="other"/>',
    )
    assert url(other, plain, page) == "https://b.example.org/x/page"
    assert url(other, plain) == "https://b.example.org/x/plain"
    assert url(other) == "https://b.example.org/x/other"
    assert url('<link rel="self" href="me"/>') is None
    assert url('<link xml:base="/y/" href="plain"/>') == "https://b.example.org/y/plain"
    assert url('<link rel="ALTERNATE" href="http://[::1"/>') == "http://[::1"


def test_feed_address_is_the_default_base_of_its_links() -> None:
    links = '<link rel="self" href="https://b.example.org/x/feed"/><link href="/home"/><entry><link href="1"/></entry>'
    feed = read_feed(f'<feed xmlns="http://www.w3.org/2005/Atom">{links}</feed>'.encode())
    assert (feed["url"], feed["items"][0]["url"]) == ("https://b.example.org/home", "https://b.example.org/x/1")
    based = f'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="y/">{links}</feed>'
    assert read_feed(based.encode())["items"][0]["url"] == "https://b.example.org/x/y/1"


async def test_lone_surrogates_and_bare_line_ends_do_not_break_a_json_feed(tmp_path: Path) -> None:
    item = rb'{"id":"1","title":"\ud83d\ude80 \ud83d \\ud83d","content_text":"a ' + b'\n\x01b"}'
    raw = b'{"version":"https://jsonfeed.org/version/1.1","title":"\\udc00","items":[' + item + b"]}"
    async with open_test_node(tmp_path) as node:
        found = await episodes(node, raw)
        assert found["1"]["text"].startswith("\U0001f680 \ufffd \\ud83d\n\na")
        await node.assert_sound()


async def test_text_that_looks_like_markup_hides_no_content(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        declared = (
            f"{HEAD}<item><guid>1</guid><title><![CDATA[What <?xml version='1.0'?> is]]></title></item>{ITEM}{TAIL}"
        )
        assert_has(await episodes(node, declared.encode()), {"1": {}, "2": WHOLE})
        inner = '<p>a<script src="x"></script> b</p>'
        script = f"{HEAD}<item><guid>1</guid><title>one</title><description>{inner}</description></item>{ITEM}{TAIL}"
        assert_has(await episodes(node, script.encode()), {"1": {"text": "one\n\na b"}, "2": WHOLE})


def test_windows_character_references_are_decoded() -> None:
    for slip in ("", " & "):
        title = f"{slip}It&#146;s &#0128;5 &#x85; &#129;"
        feed = read_feed(f"{HEAD}<item><guid>1</guid><title>{title}</title></item>{TAIL}".encode())
        assert feed["items"][0]["title"].removeprefix("& ") == "It\u2019s \u20ac5 \u2026 \ufffd"


def test_surrogate_pair_is_one_character_in_any_spelling() -> None:
    assert text_of(b"x \xed\xa0\xbd\xed\xba\x80 \xe9".replace(b"\xe9", b"\xc3\xa9")) == "x \U0001f680 \xe9"
    korean = "\uae40\uce58\ubcf6\uc74c\ubc25 \ub9cc\ub4dc\ub294 \ubc95 ".encode("cp949") * 40
    assert "\uae40\uce58" in text_of(korean, "text/html; charset=euc-kr")
    assert fields.plain("&#55357;&#56960; &#xD83D;&#xDE80; &#55357;") == "\U0001f680 \U0001f680 \ufffd"
    assert repair_xml("<a>&#55357;&#56960;&#xD83D;</a>") == "<a>\U0001f680\ufffd</a>"


HOSTILE = {
    "open elements": ("<rss>&", "<b>", ""),
    "open containers": ("<rss>&", "<item><entry>", "</rss>"),
    "items without an end": ("<rss><channel>&", "<item><title>x", ""),
    "ends of nothing": ("<rss>&" + "<b>" * 2_000, "</c></b>", ""),
    "sections without an end": ("<rss>&<a>", "<![CDATA[x</a>", ""),
    "sections in sections": ("<rss>&<a>", "<![CDATA[x</a>", "]]>"),
    "comments without an end": ("<rss>&", "<!--", ""),
    "instructions without an end": ("<rss>&", "<?", ""),
    "quotes": ("<rss>&<a ", "\"'", ""),
    "tags in quotes": ("<rss>", '<a x="< ', ""),
    "attributes": ("<rss>&<a ", "x=1 ", ">"),
    "blanks in a value": ('<rss>&<a x="', " ", '" y=1>'),
    "names in a value": ('<rss>&<a x="', " a=", '" y=1>'),
    "less-than signs": ("<rss>", "<", ""),
    "references": ("<rss>", "&x;", ""),
    "halves of pairs": ("<rss>", "&#55357;", ""),
    "digits": ("<rss>&#", "9", ";</rss>"),
    "brackets of a DOCTYPE": ("<!DOCTYPE rss [", "] ", "<rss>&"),
    "declarations": ("<!DOCTYPE rss [<!ENTITY ", "a ", "><rss>&"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_repair_takes_linear_time(name: str) -> None:
    begin, piece, end = HOSTILE[name]

    def seconds(letters: int) -> float:
        words = begin + piece * (letters // len(piece)) + end
        started = process_time()
        repair_xml(words)
        return process_time() - started

    seconds(1_000)
    short = min(seconds(25_000) for _ in range(2))
    assert any(seconds(200_000) < 8 * 4 * max(short, 0.005) for _ in range(3))


@pytest.mark.critical
def test_declared_entities_expand_within_a_limit() -> None:
    value = "x" * 100
    raw = f'<!DOCTYPE rss [<!ENTITY e "{value}">]>{HEAD}<item><title>{"&e;" * 100_000}</title></item>{TAIL}'
    title = read_feed(raw.encode())["items"][0]["title"]
    assert len(title) < 600_000
    assert re.match("x{100}", title)


@pytest.mark.parametrize("letters", [b"&", b"<", b">", b'"', b"\0", b"\xff", b"]]>", b""])
def test_any_syntax_error_keeps_the_next_item(letters: bytes) -> None:
    raw = ITEM.encode()
    for place in sample(range(len(raw))):
        broken = raw[:place] + letters + raw[place + 1 :]
        last = read_feed(HEAD.encode() + broken + raw + TAIL.encode())["items"][-1]
        assert (last["id"], last["url"]) == ("2", WHOLE["url"]), broken
