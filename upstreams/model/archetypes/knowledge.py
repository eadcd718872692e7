"""Text pages, web pages, and time series."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url, nests


def article(
    *,
    id: Annotated[str | None, "The page's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the page."],
    title: Annotated[str | None, "Title of the page."],
    text: Annotated[str | None, "Text of the page."],
    description: Annotated[str | None, "A short description."] = None,
    image_url: Annotated[Url, "URL of the main image."] = None,
    language: Annotated[str | None, "The language that the page states."] = None,
    updated_at: Annotated[Instant, "Time of the last change."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A text page, such as a readme or an encyclopedia article."""
    ext = ext or {}
    return locals()


@nests(
    content="The page in the requested formats.",
    media="Pictures of the page.",
    metadata="Metadata that the page contains.",
    fetch="How the page was fetched.",
)
def page(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    url: Annotated[Url, "The requested URL, normalized."],
    final_url: Annotated[Url, "The URL after all redirects."] = None,
    status_code: Annotated[int | None, "The HTTP status of the response."] = None,
    fetched_at: Annotated[Instant, "When the page was read."] = None,
    source_type: Annotated[str | None, "The type of the source: html, pdf, feed or text."] = None,
    page_count: Annotated[int | None, "Number of pages, for a PDF."] = None,
    text: Annotated[str | None, "The text without markup."] = None,
    markdown: Annotated[str | None, "The text as Markdown."] = None,
    html: Annotated[str | None, "The HTML without scripts, with absolute URLs."] = None,
    raw_html: Annotated[str | None, "The original HTML."] = None,
    summary: Annotated[str | None, "A summary. Always null, because no language model is used."] = None,
    links: Annotated[list[str] | None, "The URLs that the page links to, each once."] = None,
    screenshot_url: Annotated[Url, "A screenshot, as a data URL."] = None,
    extraction: Annotated[Record | None, "The values that the schema extracted."] = None,
    title: Annotated[str | None, "Title of the page."] = None,
    description: Annotated[str | None, "A short description."] = None,
    language: Annotated[str | None, "The language that the page states."] = None,
    published_at: Annotated[Instant, "Time of publication, if the page states it."] = None,
    author: Annotated[str | None, "Author of the page."] = None,
    site_name: Annotated[str | None, "Name of the website."] = None,
    image_url: Annotated[Url, "URL of the main image."] = None,
    canonical_url: Annotated[Url, "The canonical URL that the page states."] = None,
    cache_state: Annotated[
        str | None, "hit if the response came from the cache, miss if it was fetched for this call."
    ] = "miss",
) -> Record:
    """A web page."""
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
    t: Annotated[Instant, "Start of the interval that the value covers."],
    value: Annotated[float | None, "The value; intervals without a value are omitted."],
) -> Record:
    """One value of a time series."""
    return locals()


def series(
    *,
    subject: Annotated[str | None, "What the series measures."],
    unit: Annotated[str | None, "The unit of the values."],
    points: Annotated[list[Record] | None, Of(point), "The values, oldest first."] = None,
) -> Record:
    """A time series."""
    points = points or []
    return locals()


ARTICLE = Archetype("Article", "article", article, lookup_rank=50, instead_of_id=("text",))
ARTICLE_LIST = Archetype("ArticleList", "article", article, many=True, row_kind="item")
SERIES = Archetype("Series", "series", series, findings=("points",), kind="analytics")
_STORED = b'"cache_state":"miss"', b'"cache_state":"hit"'
WEB_PAGE = Archetype("WebPage", "page", page, stored_as=_STORED)
WEB_PAGE_LIST = Archetype("WebPageList", "page", page, many=True, stored_as=_STORED)
ARCHETYPES = (ARTICLE, ARTICLE_LIST, SERIES, WEB_PAGE, WEB_PAGE_LIST)
