"""Pages of text, places on the map, and numbers over time."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url, nests


def article(
    *,
    id: Annotated[str | None, "The platform's own id of the page."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its address."],
    title: Annotated[str | None, "Its title."],
    text: Annotated[str | None, "Its text."],
    description: Annotated[str | None, "A line or two about it."] = None,
    image_url: Annotated[Url, "The address of its main picture."] = None,
    language: Annotated[str | None, "The language that it says it is in."] = None,
    updated_at: Annotated[Instant, "The time of its last change."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One page of text: a readme, an encyclopedia page."""
    ext = ext or {}
    return locals()


@nests(rating="The mean of all ratings.")
def place(
    *,
    id: Annotated[str | None, "The platform's own id of the place."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page."],
    name: Annotated[str | None, "Its name."],
    address: Annotated[str | None, "Its address as people write it."] = None,
    latitude: Annotated[float | None, "Degrees north."] = None,
    longitude: Annotated[float | None, "Degrees east."] = None,
    distance_m: Annotated[float | None, "Metres from where the request asked."] = None,
    category: Annotated[str | None, "The kind of place that it is."] = None,
    rating: Annotated[float | None, "The mean."] = None,
    rating_count: Annotated[int | None, "How many rated it."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One place."""
    return {
        "id": id,
        "url": url,
        "name": name,
        "address": address,
        "latitude": latitude,
        "longitude": longitude,
        "distance_m": distance_m,
        "category": category,
        "rating": {"value": rating, "count": rating_count},
        "ext": ext or {},
    }


@nests(
    content="The page in the formats that were asked for.",
    media="Pictures of the page.",
    metadata="What the page says of itself.",
    fetch="How it was had.",
)
def page(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    url: Annotated[Url, "The address that was asked for, in one spelling."],
    final_url: Annotated[Url, "The address at the end of all redirects."] = None,
    status_code: Annotated[int | None, "The status that its host answered with."] = None,
    fetched_at: Annotated[Instant, "The time at which it was read."] = None,
    source_type: Annotated[str | None, "What it is: html, pdf, feed or text."] = None,
    page_count: Annotated[int | None, "Pages of a PDF."] = None,
    text: Annotated[str | None, "Its text, without markup."] = None,
    markdown: Annotated[str | None, "Its text as Markdown."] = None,
    html: Annotated[str | None, "Its HTML without scripts, addresses in full."] = None,
    raw_html: Annotated[str | None, "Its HTML as it came."] = None,
    summary: Annotated[str | None, "A summary; null, since no language model is asked."] = None,
    links: Annotated[list[str] | None, "The addresses that it links to, each once."] = None,
    screenshot_url: Annotated[Url, "A screenshot, as a data address."] = None,
    extraction: Annotated[Record | None, "The values that a schema found in it."] = None,
    title: Annotated[str | None, "Its title."] = None,
    description: Annotated[str | None, "A line or two about it."] = None,
    language: Annotated[str | None, "The language that it says it is in."] = None,
    published_at: Annotated[Instant, "The time of its publication, where it tells it."] = None,
    author: Annotated[str | None, "Its author."] = None,
    site_name: Annotated[str | None, "The name of its site."] = None,
    image_url: Annotated[Url, "The address of its main picture."] = None,
    canonical_url: Annotated[Url, "The address that it says is its own."] = None,
    cache_state: Annotated[
        str | None, "hit where the answer was stored, miss where it was fetched for this call."
    ] = "miss",
) -> Record:
    """One page of the web."""
    return {
        "url": url,
        "final_url": final_url,
        "status_code": status_code,
        "fetched_at": fetched_at,
        "source_type": source_type,
        "page_count": page_count,
        "content": {"text": text, "markdown": markdown, "html": html, "raw_html": raw_html, "summary": summary},
        "links": links,
        "media": {"screenshot_url": screenshot_url},
        "extraction": extraction,
        "metadata": {
            "title": title,
            "description": description,
            "language": language,
            "published_at": published_at,
            "author": author,
            "site_name": site_name,
            "image_url": image_url,
            "canonical_url": canonical_url,
        },
        "fetch": {"cache_state": cache_state},
    }


def point(
    *,
    t: Annotated[Instant, "The beginning of the time that it is for."],
    value: Annotated[float | None, "The value; times without one are left out."],
) -> Record:
    """One value of a series."""
    return locals()


def series(
    *,
    subject: Annotated[str | None, "The thing that is measured."],
    unit: Annotated[str | None, "The unit of the values."],
    points: Annotated[list[Record] | None, Of(point), "The values, oldest first."] = None,
) -> Record:
    """One number over time."""
    points = points or []
    return locals()


ARTICLE = Archetype("Article", "article", article)
ARTICLE_LIST = Archetype("ArticleList", "article", article, many=True)
PLACE_LIST = Archetype("PlaceList", "place", place, many=True)
SERIES = Archetype("Series", "series", series, findings=("points",))
_STORED = b'"cache_state":"miss"', b'"cache_state":"hit"'
WEB_PAGE = Archetype("WebPage", "page", page, stored_as=_STORED)
WEB_PAGE_LIST = Archetype("WebPageList", "page", page, many=True, stored_as=_STORED)
