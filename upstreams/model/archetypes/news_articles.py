"""Articles that news searches find."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url, nests


@nests(source="The publisher.")
def news_article(
    *,
    id: Annotated[str | None, "The article's ID, if the search has one."],  # noqa: A002 - the field's own name
    title: Annotated[str | None, "Headline of the article."],
    url: Annotated[Url, "URL of the article."],
    source_name: Annotated[str | None, "Name of the publisher."] = None,
    source_domain: Annotated[str | None, "Host name of the publisher's website."] = None,
    snippet: Annotated[str | None, "An excerpt from the article, as plain text."] = None,
    image_url: Annotated[Url, "URL of the main image."] = None,
    author: Annotated[str | None, "Name of the author."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    rank: Annotated[int | None, "Position in the results, starting at 1."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A news article that a search found."""
    return {
        "id": id,
        "title": title,
        "url": url,
        "source": {"name": source_name, "domain": source_domain},
        "snippet": snippet,
        "image_url": image_url,
        "author": author,
        "published_at": published_at,
        "rank": rank,
        "ext": ext or {},
    }


NEWS_ARTICLE_LIST = Archetype(
    "NewsArticleList",
    "article",
    news_article,
    many=True,
    kind="search",
    roles=(Contract("news_search", "search", takes=("query",)),),
)
ARCHETYPES = (NEWS_ARTICLE_LIST,)
