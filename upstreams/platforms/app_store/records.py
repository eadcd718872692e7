"""Map the App Store's JSON to our records: rows of search and lookup, and labels in the feeds."""

from __future__ import annotations

import re
from typing import Any

from upstreams.model.archetypes import app, review, reviewer
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.readers import of

_ACCOUNT = re.compile(r"/id(\d+)")


def _is_free(price: float | None) -> bool | None:
    return None if price is None else price == 0


def _priced(price: float | None) -> float | None:
    """Return a price. It is None if the price is negative, which means that the app is not for sale."""
    return price if price is not None and price >= 0 else None


def _scale(rating: float | None) -> int | None:
    return None if rating is None else 5


def _account_of(address: str | None) -> str | None:
    found = _ACCOUNT.search(address or "")
    return found and found[1]


def _largest(images: Any) -> str | None:
    """Return the last picture in a feed's list, which is the largest."""
    rows = [image for image in images if isinstance(image, dict)] if isinstance(images, list) else []
    label = rows[-1].get("label") if rows else None
    return label if isinstance(label, str) and label else None


_PRICE, _MEAN = of(_priced, read.fraction("price")), read.fraction("averageUserRating")
app_of = record_map(
    app,
    id=read.ident("trackId"),
    store=read.always("app_store"),
    url=read.text("trackViewUrl"),
    title=read.text("trackName"),
    description=read.text("description"),
    icon=read.text("artworkUrl512", "artworkUrl100"),
    image_urls=read.texts("screenshotUrls"),
    developer_id=read.ident("artistId"),
    developer_name=read.text("artistName"),
    developer_url=read.text("artistViewUrl"),
    developer_website=read.text("sellerUrl"),
    category=read.text("primaryGenreName"),
    categories=read.texts("genres"),
    price=_PRICE,
    currency=read.text("currency"),
    price_displayed=read.text("formattedPrice"),
    is_free=of(_is_free, _PRICE),
    rating=_MEAN,
    rating_max=of(_scale, _MEAN),
    rating_count=read.count("userRatingCount"),
    version=read.text("version"),
    size=read.count("fileSizeBytes"),
    minimum_os_version=read.text("minimumOsVersion"),
    languages=read.texts("languageCodesISO2A"),
    released_at=read.instant("releaseDate"),
    updated_at=read.instant("currentVersionReleaseDate"),
    update_notes=read.text("releaseNotes"),
    ext={
        "bundle_id": read.text("bundleId"),
        "advisory_rating": read.text("contentAdvisoryRating"),
        "advisories": read.texts("advisories"),
    },
)
"""An app, as returned by search and lookup."""

_CHART_PRICE = of(_priced, read.fraction("im:price.attributes.amount"))
chart_app_of = record_map(
    app,
    id=read.ident("id.attributes.im:id"),
    store=read.always("app_store"),
    url=read.text("id.label"),
    title=read.text("im:name.label"),
    description=read.text("summary.label"),
    icon=of(_largest, "im:image"),
    developer_id=of(_account_of, read.text("im:artist.attributes.href")),
    developer_name=read.text("im:artist.label"),
    developer_url=read.text("im:artist.attributes.href"),
    category=read.text("category.attributes.label"),
    price=_CHART_PRICE,
    currency=read.text("im:price.attributes.currency"),
    is_free=of(_is_free, _CHART_PRICE),
    released_at=read.instant("im:releaseDate.label"),
    ext={"bundle_id": read.text("id.attributes.im:bundleId")},
)
"""An app in a chart."""

_ADDRESS, _STARS = read.text("author.uri.label"), read.fraction("im:rating.label")
review_of = record_map(
    review,
    id=read.ident("id.label"),
    entity_id=read.given("app_id"),
    url=read.text("link.attributes.href"),
    title=read.text("title.label"),
    text=read.text("content.label"),
    rating=_STARS,
    rating_max=of(_scale, _STARS),
    author=record_map(reviewer, id=of(_account_of, _ADDRESS), name=read.text("author.name.label"), url=_ADDRESS).here(),
    helpful_votes=read.number("im:voteSum.label"),
    published_at=read.instant("updated.label"),
    ext={"version": read.text("im:version.label"), "vote_count": read.count("im:voteCount.label")},
)
"""A review. Some feeds omit its time. A negative vote total means that most votes are against the review."""
