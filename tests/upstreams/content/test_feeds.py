"""Feeds in all formats are parsed to the same members. Other bodies are refused with a message."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.content.feeds import read_feed
from upstreams.model.errors import UNREADABLE, UnexpectedBody

RECORDINGS = Path(__file__).parents[4] / "shared" / "recordings" / "feeds"

RSS = b"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:itunes="http://www.itunes.com/DTDs/Podcast-1.0.dtd" xmlns:atom="http://www.w3.org/2005/Atom"
     xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:slash="http://purl.org/rss/1.0/modules/slash/">
<channel><title>A &amp;amp; B</title><link>https://pod.example</link>
<atom:link rel="self" href="https://pod.example/feed"/><atom:link rel="next" href="/feed?page=2"/>
<description>About</description><language>en</language><itunes:author>Ann</itunes:author>
<itunes:image href="https://pod.example/cover.png"/><lastBuildDate>Mon, 01 Jan 2024 12:00:00 +0100</lastBuildDate>
<item><title>One</title><guid isPermaLink="false">g1</guid><link>/1</link>
<description>&lt;p&gt;Short&lt;/p&gt;</description>
<content:encoded><![CDATA[<p>Long &nbsp; text</p>]]></content:encoded><author>ann@pod.example (Ann Author)</author>
<pubDate>Tue, 02 Jan 2024 03:04:05 GMT</pubDate><category>news</category>
<category>news</category><category>tech</category>
<enclosure url="https://cdn.example/1.mp3" length="1234" type="audio/mpeg"/><itunes:duration>1:02:03</itunes:duration>
<itunes:season>2</itunes:season><slash:comments>7</slash:comments><comments>https://pod.example/1#c</comments></item>
<item><title>Two</title><guid>https://pod.example/2</guid><pubDate>never</pubDate></item>
</channel></rss>"""

ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom" xmlns:yt="http://www.youtube.com/xml/schemas/2015"
  xmlns:media="http://search.yahoo.com/mrss/" xml:base="https://tube.example/">
<title type="html">T &lt;b&gt;bold&lt;/b&gt;</title><link rel="self" href="feed"/><link href="/channel"/><id>f</id>
<author><name>Bob</name><uri>/bob</uri></author><updated>2024-01-01T12:00:00+01:00</updated>
<entry><id>v1</id><yt:videoId>v1</yt:videoId><title>1 &lt; 2</title><link rel="alternate" href="/watch?v=v1"/>
<author><name>Cy</name></author><published>2024-01-01T00:00:00Z</published><summary>a &lt; b</summary>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">in <b>div</b></div></content>
<media:group><media:thumbnail url="https://i.example/1.jpg"/><media:content url="https://v.example/1" duration="61"/>
<media:community><media:statistics views="99"/></media:community></media:group></entry></feed>"""

JSON_FEED = {
    "version": "https://jsonfeed.org/version/1.1", "title": "J", "home_page_url": "https://j.example", "next_url": "n",
    "authors": [{"name": "Dee", "url": "https://j.example/dee"}], "_own": {"x": 1},
    "items": [
        {"id": 5, "title": "One", "content_text": "hi", "tags": ["a"], "date_published": "2024-01-01T00:00:00Z",
         "attachments": [{"url": "https://j.example/1.mp3", "mime_type": "audio/mpeg", "duration_in_seconds": 9.5}]},
    ],
}  # fmt: skip


def test_rss_is_parsed_with_podcast_elements() -> None:
    feed = read_feed(RSS)
    one, two = feed["items"]
    assert (feed["title"], feed["url"], feed["description"]) == ("A & B", "https://pod.example", "About")
    assert (feed["feed_url"], feed["next_url"]) == ("https://pod.example/feed", "https://pod.example/feed?page=2")
    assert (feed["author"], feed["image_url"]) == ("Ann", "https://pod.example/cover.png")
    assert (feed["language"], feed["updated_at"]) == ("en", "2024-01-01T11:00:00Z")
    assert (one["id"], one["url"], one["title"]) == ("g1", "https://pod.example/1", "One")
    assert (one["summary"], one["html"]) == ("<p>Short</p>", "<p>Long &nbsp; text</p>")
    assert (one["author"], one["published_at"]) == ("Ann Author", "2024-01-02T03:04:05Z")
    assert (one["categories"], one["duration_seconds"], one["comments"]) == (["news", "tech"], 3_723, 7)
    assert one["comments_url"] == "https://pod.example/1#c"
    enclosure = {"url": "https://cdn.example/1.mp3", "type": "audio/mpeg", "bytes": 1234, "duration_seconds": None}
    assert one["enclosures"] == [enclosure]
    assert one["extra"]["itunes"] == {"duration": "1:02:03", "season": "2"}
    assert (two["url"], two["published_at"], two["enclosures"]) == ("https://pod.example/2", None, [])


@pytest.mark.parametrize(
    ("zone", "at"),
    [(" CEST", "07:00"), (" aest", "23:00"), ("BST", "08:00"), (" PDT", "16:00"), (" GMT", "09:00"), ("", "09:00"),
     (" +0200 (XYZ)", "07:00"), (" XYZ", None), (" IST", None), (" PM", None)],
)  # fmt: skip
def test_known_zone_is_parsed_and_unknown_zone_has_no_time(zone: str, at: str | None) -> None:
    told = read_feed(RSS.replace(b"03:04:05 GMT", b"09:00:00" + zone.encode()))["items"][0]["published_at"]
    assert told == (at and f"2024-01-0{1 if at > '22' else 2}T{at}:00Z")


def test_atom_is_parsed_with_youtube_elements() -> None:
    feed = read_feed(ATOM)
    (one,) = feed["items"]
    assert (feed["title"], feed["url"]) == ("T bold", "https://tube.example/channel")
    assert (feed["author"], feed["updated_at"]) == ("Bob", "2024-01-01T11:00:00Z")
    assert (one["title"], one["summary"]) == ("1 < 2", "a &lt; b")
    assert one["html"] == "<div>in <b>div</b></div>"
    assert (one["url"], one["image_url"]) == ("https://tube.example/watch?v=v1", "https://i.example/1.jpg")
    assert (one["author"], one["duration_seconds"]) == ("Cy", 61)
    assert one["extra"]["yt"] == {"videoId": "v1"}
    assert one["extra"]["media"]["group"]["community"]["statistics"]["views"] == "99"


def test_json_feed_has_the_same_members() -> None:
    feed = read_feed(json.dumps(JSON_FEED).encode())
    (one,) = feed["items"]
    assert (one["id"], one["author"], one["html"], one["duration_seconds"]) == ("5", "Dee", "hi", 9)
    assert (feed["author"], feed["extra"]) == ("Dee", {"own": {"x": 1}})
    for other in (read_feed(RSS), read_feed(ATOM)):
        assert other.keys() == feed.keys()
        assert other["items"][0].keys() == one.keys()


def test_rss_1_items_next_to_the_channel_are_found() -> None:
    rdf = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>R</title></channel><item rdf:about="https://r.example/1">
    <title>One</title><dc:creator>Eve</dc:creator><dc:date>2024-01-01</dc:date></item></rdf:RDF>"""
    (one,) = read_feed(rdf)["items"]
    assert (one["id"], one["author"], one["published_at"]) == ("https://r.example/1", "Eve", "2024-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "broken",
    [
        RSS.replace(b"</description>", b"", 1),
        RSS[: RSS.index(b"<item><title>Two")],
        RSS.replace(b' xmlns:itunes="http://www.itunes.com/DTDs/Podcast-1.0.dtd"', b""),
        b"\n\n " + RSS.replace(b'<?xml version="1.0" encoding="UTF-8"?>', b'<?xml version="1.0" encoding="bogus"?>'),
        RSS.replace(b"About", b"caf\xe9 \x01 &eacute; &bogus; & more"),
        RSS.replace(b"<channel>", b"<channel><!-- -- bad -- comment -->"),
    ],
)
def test_feed_error_affects_only_one_member(broken: bytes) -> None:
    one = read_feed(broken)["items"][0]
    assert (one["id"], one["published_at"], one["duration_seconds"]) == ("g1", "2024-01-02T03:04:05Z", 3_723)


BOMB = b"<!DOCTYPE a [" + b"".join(
    b'<!ENTITY e%d "%s">' % (at, b"&e%d;" % (at - 1) * 10 if at else b"lol" * 10) for at in range(10)
)  # fmt: skip


@pytest.mark.parametrize(
    "entities",
    [
        BOMB + b"]>",
        b'<!DOCTYPE a [<!ENTITY e9 "' + b"x" * 100_000 + b'">]>',
        b'<!DOCTYPE a [<!ENTITY e9 SYSTEM "file:///etc/passwd">]>',
        b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]>',
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/p">',
    ],
)
def test_entities_are_not_expanded_and_nothing_is_fetched(entities: bytes) -> None:
    body = (
        entities + b"<rss><channel><title>x</title><item><title>" + b"&e9;" * 1_000 + b"</title></item></channel></rss>"
    )
    assert len(json.dumps(read_feed(body))) < 20_000


NO_FEEDS = {
    "a page": b"<!DOCTYPE html><html><head><title>Not found</title></head><body><p>404</body></html>",
    "JSON": b'{"error": "no"}',
    "a list": b"[1]",
    "text": b"not found",
    "nothing but a tag": b"<",
    "zeros": b"\0" * 1_000,
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "depth": b"<a>" * 100_000,
    "too many elements": b"<rss>" + b"<i/>" * 300_000,
    "too many references": b"<rss>" + b"&x;" * 600_000,
    "too many declarations": b"<!DOCTYPE a [" + b"<!ENTITY e 'x'>" * 200 + b"]><rss/>",
    "too many items": b"<rss><channel>" + b"<item/>" * 10_001,
    "too long": b"<rss>" + b"x" * 7_000_000,
    "cut JSON": json.dumps(JSON_FEED).encode()[:100],
    "JSON of one depth": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("name", NO_FEEDS)
def test_body_that_is_not_a_usable_feed_is_refused(name: str) -> None:
    with pytest.raises(UnexpectedBody):
        read_feed(NO_FEEDS[name])


@given(st.binary(max_size=400), st.sampled_from([b"<rss><channel><item>", b"<feed><entry>", b'{"version":', b""]))
def test_any_bytes_are_a_feed_or_unreadable(raw: bytes, before: bytes) -> None:
    try:
        feed = read_feed(before + raw)
    except UNREADABLE:
        return
    assert isinstance(feed["items"], list)


def recorded() -> list[Any]:
    return sorted(RECORDINGS.glob("*.json"))


NO_FEED_AT_ALL = {
    "broken__json_invalid", "broken__unknown_root", "broken__unrecognized_root", "jsonfeed__scripting_news",
    "encoding__iso_bytes_utf8_prolog", "jsonfeed__allthis_partial",
}  # fmt: skip


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recorded feeds are not available")
def test_recorded_feeds_are_parsed() -> None:
    unread = set()
    for file in recorded():
        response = json.loads(file.read_text())["response"]
        body = response["body"]
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if "body_base64" in response:
            raw = base64.b64decode(response["body_base64"])
        try:
            items = read_feed(raw, (response["headers"] or {}).get("Content-Type", ""))["items"]
        except UNREADABLE:
            unread.add(file.stem)
            continue
        assert len(items) >= raw.count(b"<pubDate>") // 2 or len(items) == raw.count(b"<item>"), file.stem
        assert all("\N{REPLACEMENT CHARACTER}" not in (item["title"] or "") for item in items), file.stem
    assert unread == NO_FEED_AT_ALL
