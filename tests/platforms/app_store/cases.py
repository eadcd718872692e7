"""The App Store's recordings as cases, with handmade bodies for search, lookup and charts, which have no recording."""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import Json, at, below, ident, rows, table, utc
from upstreams.model.archetypes import app, review, reviewer
from upstreams.model.errors import InvalidArgument, NotFound

_HOST = "itunes.apple.com"
_FEED = f"{_HOST}/us/rss/customerreviews"


def number(path: str) -> Any:
    """Parse a number that may be sent as text. A negative number means that the value is unknown."""
    return lambda row: None if at(row, path) is None or float(at(row, path)) < 0 else float(at(row, path))


def is_free(path: str) -> Any:
    """Return whether a price is zero."""
    return lambda row: None if number(path)(row) is None else number(path)(row) == 0


APP = table(
    app,
    id=ident("trackId"),
    store=lambda _row: "app_store",
    url="trackViewUrl",
    title="trackName",
    description="description",
    icon=lambda row: at(row, "artworkUrl512") or at(row, "artworkUrl100"),
    image_urls="screenshotUrls",
    developer_id=ident("artistId"),
    developer_name="artistName",
    developer_url="artistViewUrl",
    developer_website="sellerUrl",
    category="primaryGenreName",
    categories="genres",
    price=number("price"),
    currency="currency",
    price_displayed="formattedPrice",
    is_free=is_free("price"),
    rating="averageUserRating",
    rating_max=lambda row: None if at(row, "averageUserRating") is None else 5,
    rating_count="userRatingCount",
    version="version",
    size=number("fileSizeBytes"),
    minimum_os_version="minimumOsVersion",
    languages="languageCodesISO2A",
    released_at=utc("releaseDate"),
    updated_at=utc("currentVersionReleaseDate"),
    update_notes="releaseNotes",
    ext={"bundle_id": "bundleId", "advisory_rating": "contentAdvisoryRating", "advisories": "advisories"},
)
CHARTED = table(
    app,
    id=ident("id.attributes.im:id"),
    store=lambda _row: "app_store",
    url="id.label",
    title="im:name.label",
    description="summary.label",
    icon=lambda row: at(row, "im:image")[-1]["label"],
    developer_id=lambda row: at(row, "im:artist.attributes.href").rpartition("/id")[2].partition("?")[0],
    developer_name="im:artist.label",
    developer_url="im:artist.attributes.href",
    category="category.attributes.label",
    price=number("im:price.attributes.amount"),
    currency="im:price.attributes.currency",
    is_free=is_free("im:price.attributes.amount"),
    released_at=utc("im:releaseDate.label"),
    ext={"bundle_id": "id.attributes.im:bundleId"},
)
REVIEWER = table(reviewer, id=lambda row: at(row, "uri.label").rpartition("/id")[2], name="name.label", url="uri.label")


def reviews(app_id: str) -> Any:
    """The field table of an app's reviews."""
    read = table(
        review,
        id=ident("id.label"),
        entity_id=lambda _row: app_id,
        url="link.attributes.href",
        title="title.label",
        text="content.label",
        rating=number("im:rating.label"),
        rating_max=lambda _row: 5,
        author=below("author", REVIEWER),
        helpful_votes=lambda row: int(at(row, "im:voteSum.label")),
        published_at=utc("updated.label"),
        ext={"version": "im:version.label", "vote_count": lambda row: int(at(row, "im:voteCount.label"))},
    )
    return rows("feed.entry", read)


SOLD: Json = {
    "wrapperType": "software",
    "trackId": 4711,
    "trackViewUrl": "https://apps.apple.com/us/app/parsers/id4711",
    "trackName": "Parsers",
    "description": "Reads everything.\nEven that.",
    "artworkUrl512": "https://is1.example.com/512.png",
    "artworkUrl100": "https://is1.example.com/100.png",
    "screenshotUrls": ["https://is1.example.com/a.png"],
    "artistId": 815,
    "artistName": "Ada Ltd",
    "artistViewUrl": "https://apps.apple.com/us/developer/ada/id815",
    "sellerUrl": "https://ada.example.com",
    "primaryGenreName": "Developer Tools",
    "genres": ["Developer Tools", "Utilities"],
    "price": 2.99,
    "currency": "USD",
    "formattedPrice": "$2.99",
    "averageUserRating": 4.53846,
    "userRatingCount": 26,
    "version": "1.2.3",
    "fileSizeBytes": "52428800",
    "minimumOsVersion": "16.0",
    "languageCodesISO2A": ["EN", "DE"],
    "releaseDate": "2019-03-01T08:00:00Z",
    "currentVersionReleaseDate": "2025-04-01T17:30:12Z",
    "releaseNotes": "Faster.",
    "bundleId": "com.example.parsers",
    "contentAdvisoryRating": "4+",
    "advisories": ["Infrequent/Mild Horror/Fear Themes"],
}
DEVELOPER: Json = {"wrapperType": "artist", "artistType": "Software Artist", "artistName": "Ada Ltd", "artistId": 815}
ENTRY: Json = {
    "im:name": {"label": "Parsers"},
    "im:image": [{"label": "https://is1.example.com/53.png"}, {"label": "https://is1.example.com/100.png"}],
    "summary": {"label": "Reads everything."},
    "im:price": {"label": "Get", "attributes": {"amount": "0.00", "currency": "USD"}},
    "im:artist": {"label": "Ada Ltd", "attributes": {"href": "https://apps.apple.com/us/developer/ada/id815?uo=2"}},
    "category": {"attributes": {"im:id": "6026", "label": "Developer Tools"}},
    "im:releaseDate": {"label": "2019-03-01T00:00:00-07:00"},
    "id": {
        "label": "https://apps.apple.com/us/app/parsers/id4711?uo=2",
        "attributes": {"im:id": "4711", "im:bundleId": "com.example.parsers"},
    },
}
REVIEW: Json = {
    "author": {"name": {"label": "ada"}, "uri": {"label": "https://itunes.apple.com/us/reviews/id1001"}},
    "updated": {"label": "2025-01-31T12:00:00-07:00"},
    "im:rating": {"label": "5"},
    "im:version": {"label": "1.2.3"},
    "id": {"label": "9001"},
    "title": {"label": "It reads"},
    "content": {"label": "Everything."},
    "link": {"attributes": {"rel": "related", "href": "https://itunes.apple.com/us/review?id=4711"}},
    "im:voteSum": {"label": "-2"},
    "im:voteCount": {"label": "4"},
}
LAST: Json = {"attributes": {"rel": "last", "href": f"https://{_FEED}/page=3/id=4711/sortby=mostrecent/xml"}}
"""The bodies above are handmade, because no recording contains them."""


def feed(*entries: Json) -> Json:
    """Return a feed whose list has three pages."""
    return {"feed": {"entry": list(entries), "link": [LAST]}}


_SEARCHES = tuple(
    f"search__{term}.json" for term in ["bbedit", "bear", "deliveries", "nonexistent_empty", "things", "tweetbot"]
)
_LOOKUPS = ("lookup__fantastical.json", "lookup__slack_2025.json", "lookup__things.json")
_SOLD = rows("results", APP)


def _lone(body: Json) -> Json:
    return APP(body["results"][0])


CASES: tuple[Case, ...] = (
    Case(
        "fifty reviews",
        "app-reviews",
        {"app_id": "284815942", "country": "us", "sort_by": "mosthelpful"},
        {f"{_FEED}/id=284815942/sortby=mosthelpful/json": "reviews_rss__50.json"},
        reviews("284815942"),
        has_more=True,
    ),
    Case(
        "reviews without times",
        "app-reviews",
        {"app_id": "1404176564", "country": "jp", "sort_by": "mostrecent"},
        {f"{_HOST}/jp/rss/customerreviews/id=1404176564/sortby=mostrecent/json": "reviews_rss__jp_page1_of_8.json"},
        reviews("1404176564"),
        has_more=True,
    ),
    Case(
        "a storefront that is not there",
        "app-reviews",
        {"app_id": "4711", "country": "uk", "sort_by": "mostrecent"},
        {f"{_HOST}/uk/rss/customerreviews/id=4711/sortby=mostrecent/json": "reviews_rss__400_empty_body.json"},
        refused=InvalidArgument,
    ),
    Case(
        "reviews by hand",
        "app-reviews",
        {"app_id": "4711", "country": "us", "sort_by": "mostrecent"},
        {f"{_FEED}/id=4711/sortby=mostrecent/json": feed(REVIEW, {**REVIEW, "id": {"label": "9002"}})},
        reviews("4711"),
        has_more=True,
    ),
    *(
        Case(f"a recorded search: {file}", "app-search", {"query": "x"}, {f"{_HOST}/search": f"itunes/{file}"}, _SOLD)
        for file in _SEARCHES
    ),
    *(
        Case(f"a recorded app: {file}", "app-info", {"app_id": "4711"}, {f"{_HOST}/lookup": f"itunes/{file}"}, _lone)
        for file in _LOOKUPS
    ),
    Case(
        "apps that a search found",
        "app-search",
        {"query": "parsers"},
        {f"{_HOST}/search": {"resultCount": 1, "results": [SOLD]}},
        _SOLD,
        has_more=False,
    ),
    Case("an app", "app-info", {"app_id": "4711"}, {f"{_HOST}/lookup": {"resultCount": 1, "results": [SOLD]}}, _lone),
    Case(
        "an app that is not there",
        "app-info",
        {"app_id": "404"},
        {f"{_HOST}/lookup": {"resultCount": 0, "results": []}},
        refused=NotFound,
    ),
    Case(
        "a developer's apps",
        "developer-apps",
        {"developer_id": "815"},
        {f"{_HOST}/lookup": {"resultCount": 2, "results": [DEVELOPER, SOLD]}},
        lambda body: [APP(row) for row in body["results"] if row["wrapperType"] == "software"],
        has_more=False,
    ),
    Case(
        "a chart",
        "app-list",
        {"country": "us", "app_collection": "topfreeapplications"},
        {f"{_HOST}/us/rss/topfreeapplications/limit=100/json": feed(ENTRY, {**ENTRY})},
        rows("feed.entry", CHARTED),
        has_more=False,
    ),
)
