"""Podcasts' recordings as cases, with handmade bodies for lookups, episodes and the current charts.

In the folder `apple_music`, `rss_legacy_albums.json` and `search_song__15.json` are about music, so they are not used.
Of `feeds/*`, only the podcast feeds are used.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, each, ident, rows, table, utc
from upstreams.content import FEED
from upstreams.model.archetypes import byline, collection, post
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.fields import joined, plain

_SEARCH, _LOOKUP = "itunes.apple.com/search", "itunes.apple.com/lookup"
_CHARTS = "rss.marketingtools.apple.com/api/v2/us/podcasts/top/100"
URL = "https://feeds.npr.org/510289/podcast.xml"
_AT = URL.removeprefix("https://")
_YES, _NO = ("yes", "true", "explicit"), ("no", "false", "clean", "cleaned", "notexplicit")
_WORDS = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}


def first(*paths: str) -> Any:
    """Return the first of these members that has a value."""
    return lambda row: next((found for path in paths if (found := at(row, path)) is not None), None)


def explicit(path: str) -> Any:
    return lambda row: _WORDS.get(str(at(row, path)).lower())


def whole(path: str) -> Any:
    return lambda row: None if (found := at(row, path)) is None else int(found)


def known_by(name: str, **more: Any) -> Any:
    """Return the author's byline, or None if there is no author."""
    read = table(byline, **{"id": lambda _row: None, "display_name": name, **more})
    return lambda row: read(row) if at(row, name) is not None else None


def texts(*paths: str) -> Any:
    """Return HTML titles and texts as one plain text."""
    return lambda row: joined(at(row, paths[0]), plain(first(*paths[1:])(row)))


SHOW = table(
    collection, id=ident("collectionId"), url="collectionViewUrl", kind=lambda _row: "podcast", title="collectionName",
    owner=known_by("artistName", id=ident("artistId"), url="artistViewUrl"), items_count="trackCount",
    image_url=first("artworkUrl600", "artworkUrl100"), released_at=utc("releaseDate"),
    ext={"feed_url": "feedUrl", "genre": "primaryGenreName", "categories": "genres",
         "explicit": explicit("collectionExplicitness")},
)  # fmt: skip
FOUND = table(
    post, id=ident("trackId"), url="trackViewUrl", text=texts("trackName", "description", "shortDescription"),
    author=known_by("collectionName", id=ident("collectionId"), url="collectionViewUrl"),
    media_urls=lambda row: [row["episodeUrl"]], thumbnail_url=first("artworkUrl600", "artworkUrl160"),
    duration_seconds=lambda row: row["trackTimeMillis"] // 1000, nsfw=explicit("contentAdvisoryRating"),
    published_at=utc("releaseDate"),
    ext={"guid": "episodeGuid", "feed_url": "feedUrl", "categories": each("genres", "name")},
)  # fmt: skip
_CHARTED = {"id": ident("id"), "url": "url", "ext": {"categories": each("genres", "name")}}
_DATED = utc("releaseDate")
CHART_SHOW = table(
    collection, kind=lambda _row: "podcast", title="name", owner=known_by("artistName"), image_url="artworkUrl100",
    released_at=_DATED, **_CHARTED,
)  # fmt: skip
CHART_EPISODE = table(
    post, text="name", author=known_by("artistName"), thumbnail_url="artworkUrl100", published_at=_DATED, **_CHARTED
)
HEAD = table(
    collection, id=lambda row: at(row, "extra.podcast.guid") or URL, url="url", kind=lambda _row: "podcast",
    title="title", description=lambda row: plain(row["description"]), image_url="image_url",
    owner=lambda row: known_by("name")({"name": first("extra.itunes.owner.name", "author")(row)}),
    ext={"feed_url": lambda _row: URL, "language": "language", "categories": "categories",
         "explicit": explicit("extra.itunes.explicit"), "type": "extra.itunes.type",
         "complete": explicit("extra.itunes.complete"), "new_feed_url": "extra.itunes.new-feed-url",
         "copyright": "copyright", "updated_at": first("updated_at", "published_at")},
)  # fmt: skip
EPISODE = table(
    post, id=lambda row: next(iter([*filter(None, [first("id", "url")(row)]), *each("enclosures", "url")(row)]), None),
    url="url", text=texts("title", "html", "summary"), comments="comments",
    author=known_by("author", url="author_url"), media_urls=each("enclosures", "url"), thumbnail_url="image_url",
    duration_seconds="duration_seconds", nsfw=explicit("extra.itunes.explicit"), published_at="published_at",
    ext={"season": whole("extra.itunes.season"), "episode": whole("extra.itunes.episode"),
         "episode_type": "extra.itunes.episodeType", "categories": "categories", "updated_at": "updated_at",
         "chapters_url": "extra.podcast.chapters.url", "transcript_url": "extra.podcast.transcript.url",
         "comments_url": "comments_url"},
)  # fmt: skip


def fed(body: Any) -> Json:
    """Return the values of a feed."""
    return FEED.read(body.encode() if isinstance(body, str) else body, "")  # type: ignore[no-any-return]


def fed_episodes(*bodies: Any) -> list[Json]:
    """Return the first page of a feed's episodes. An episode without an author has the show's author."""
    feed = fed(bodies[-1])
    return [EPISODE({**item, "author": item["author"] or feed["author"]}) for item in feed["items"]][:20]


def fed_show(*bodies: Any) -> Json:
    return HEAD(fed(bodies[-1]))


def show_of_both(lookup: Any, feed: Any) -> Json:
    """Return the directory's values, completed with the feed's values."""
    known, more = SHOW(lookup["results"][0]), fed_show(feed)
    return {**known, "description": more["description"], "ext": {**more["ext"], **known["ext"]}}


_STORE, _PICTURES = "https://podcasts.apple.com/us", "https://is1.example.com/thumb"
SHOW_BY_HAND = {
    "kind": "podcast", "collectionId": 4711, "collectionName": "Ada talks", "trackCount": 12, "feedUrl": URL,
    "artistId": 815, "artistName": "Ada Radio", "artistViewUrl": f"{_STORE}/artist/ada-radio/815",
    "collectionViewUrl": f"{_STORE}/podcast/ada-talks/id4711", "releaseDate": "2024-05-01T04:00:00Z",
    "collectionExplicitness": "notExplicit", "primaryGenreName": "Technology", "genres": ["Technology", "Podcasts"],
    "artworkUrl100": f"{_PICTURES}/100.jpg", "artworkUrl600": f"{_PICTURES}/600.jpg",
}  # fmt: skip
EPISODE_BY_HAND = {
    "kind": "podcast-episode", "trackId": 1000654, "trackName": "Of queues", "feedUrl": URL, "episodeGuid": "ada-12",
    "trackViewUrl": f"{_STORE}/podcast/of-queues/id4711?i=1000654", "releaseDate": "2024-05-01T04:00:00Z",
    "collectionId": 4711, "collectionName": "Ada talks", "collectionViewUrl": f"{_STORE}/podcast/ada-talks/id4711",
    "description": "<p>How long is a queue?</p>", "episodeUrl": "https://cdn.example.com/queues.mp3",
    "artworkUrl160": f"{_PICTURES}/160.jpg", "artworkUrl600": f"{_PICTURES}/600.jpg", "trackTimeMillis": 1830500,
    "contentAdvisoryRating": "Explicit", "genres": [{"name": "Technology", "id": "1318"}],
}  # fmt: skip
CHARTED_BY_HAND = {
    "id": "4711", "name": "Ada talks", "url": f"{_STORE}/podcast/ada-talks/id4711", "artistName": "Ada Radio",
    "artworkUrl100": f"{_PICTURES}/100.png", "releaseDate": "2024-05-01", "genres": [{"name": "Technology"}],
}  # fmt: skip
FEED_BY_HAND = b"""<?xml version="1.0"?>
<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:slash="http://purl.org/rss/1.0/modules/slash/"
 xmlns:podcast="https://podcastindex.org/namespace/1.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>Ada talks</title><link>https://ada.example.com/</link><description>&lt;b&gt;All&lt;/b&gt; of it.</description>
<language>en</language><copyright>Ada, 2024</copyright><lastBuildDate>Wed, 01 May 2024 05:00:00 GMT</lastBuildDate>
<itunes:author>Ada</itunes:author><itunes:owner><itunes:name>Ada Radio</itunes:name>
<itunes:email>ada@example.com</itunes:email></itunes:owner><itunes:image href="https://ada.example.com/a.jpg"/>
<itunes:category text="Technology"/><itunes:explicit>false</itunes:explicit><itunes:type>episodic</itunes:type>
<itunes:complete>no</itunes:complete><itunes:new-feed-url>https://feeds.example.com/new</itunes:new-feed-url>
<podcast:guid>917393e3-1b1e-5cef-ace4-edaa54e1f810</podcast:guid>
<item><guid isPermaLink="false">ada-12</guid><title>Of queues</title><link>https://ada.example.com/12</link>
<description>&lt;p&gt;How long is a queue?&lt;/p&gt;</description><pubDate>Wed, 01 May 2024 04:00:00 GMT</pubDate>
<atom:updated>2024-05-01T06:00:00Z</atom:updated><author>ada@example.com (Ada)</author><category>queues</category>
<enclosure url="https://cdn.example.com/queues.mp3" length="4711" type="audio/mpeg"/>
<itunes:duration>30:30</itunes:duration><itunes:explicit>Yes</itunes:explicit><itunes:season>2</itunes:season>
<itunes:episode>12</itunes:episode><itunes:episodeType>full</itunes:episodeType><itunes:image href="https://ada.example.com/12.jpg"/>
<podcast:chapters url="https://ada.example.com/12.json" type="application/json+chapters"/>
<podcast:transcript url="https://ada.example.com/12.vtt" type="text/vtt"/>
<comments>https://ada.example.com/12#comments</comments><slash:comments>7</slash:comments></item>
</channel></rss>"""
_PODCASTS = "google_podcast google_podcast_complete google_podcast_episode google_podcast_incomplete podcast_episode"
_APPLES = "duration explicit_clean image_no_href nested_category spaces_in_attributes"
_FEEDS = (
    *(f"podcast__{name}" for name in (*_PODCASTS.split(), "podcast_no_type", "podcastindex")),
    *(f"itunes__{name}" for name in _APPLES.split()),
    *(f"rss2__{name}" for name in ("giantbomb_podcast", "itunes_category", "itunes_feedjira", "itunes_missing_image")),
)
_FOUND, _NAMED, _FED, _HERE = {"query": "economics"}, {"id": "4711"}, {"url": URL}, {"country": "us"}
_KNOWN, _HEARD = {"resultCount": 1, "results": [SHOW_BY_HAND]}, {"results": [EPISODE_BY_HAND]}


def charted(read: Any) -> Any:
    return lambda body: rows("feed.results", read)(body)[:20]


CASES = (
    *(Case(f"found in {file}", "search", _FOUND, {_SEARCH: f"apple_music/{file}"}, rows("results", SHOW))
      for file in ("search_podcast.json", "search_podcast__kr.json")),
    Case("found by hand", "search", _FOUND, {_SEARCH: _KNOWN}, rows("results", SHOW), has_more=False),
    Case("found nothing", "search", _FOUND, {_SEARCH: {"resultCount": 0, "results": []}}, rows("results", SHOW)),
    Case("an entity of no kind", "search", _FOUND, {_SEARCH: "apple_music/error__400_resultEntity.json"},
         refused=UpstreamFailed),
    Case("episodes found", "search/episodes", _FOUND, {_SEARCH: _HEARD}, rows("results", FOUND)),
    Case("a show of both", "show", _NAMED, {_LOOKUP: _KNOWN, _AT: FEED_BY_HAND}, show_of_both),
    Case("a show that nobody has", "show", _NAMED, {_LOOKUP: {"resultCount": 0, "results": []}}, refused=NotFound),
    Case("a show by its feed", "show", _FED, {_AT: FEED_BY_HAND}, fed_show),
    Case("episodes by number", "episodes", _NAMED, {_LOOKUP: _KNOWN, _AT: FEED_BY_HAND}, fed_episodes),
    Case("episodes by feed", "episodes", _FED, {_AT: FEED_BY_HAND}, fed_episodes, has_more=False),
    *(Case(f"show in {file}", "show", _FED, {_AT: f"feeds/{file}.json"}, fed_show) for file in _FEEDS),
    *(Case(f"episodes in {file}", "episodes", _FED, {_AT: f"feeds/{file}.json"}, fed_episodes) for file in _FEEDS),
    Case("the charts of an older address", "charts", _HERE,
         {f"{_CHARTS}/podcasts.json": "apple_music/rss_itunes_api_v1_top_podcasts.json"}, charted(CHART_SHOW)),
    Case("charts by hand", "charts", _HERE, {f"{_CHARTS}/podcasts.json": {"feed": {"results": [CHARTED_BY_HAND]}}},
         charted(CHART_SHOW)),
    Case("charts of episodes", "charts/episodes", _HERE,
         {f"{_CHARTS}/podcast-episodes.json": {"feed": {"results": [CHARTED_BY_HAND]}}}, charted(CHART_EPISODE)),
)  # fmt: skip
