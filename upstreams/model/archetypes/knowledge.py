"""Pages of text."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Record, Url


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


ARTICLE = Archetype("Article", "article", article)
