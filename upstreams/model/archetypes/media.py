"""Albums, playlists and the like."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url


def collection(
    *,
    id: Annotated[str | None, "The platform's own id of the collection."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page."],
    kind: Annotated[str | None, "What it is: album, playlist, podcast."],
    title: Annotated[str | None, "Its title."],
    description: Annotated[str | None, "What it says about itself, as plain text."] = None,
    owner: Annotated[Record | None, Of(byline), "The account that it belongs to."] = None,
    items_count: Annotated[int | None, "How much it holds."] = None,
    followers: Annotated[int | None, "Accounts that follow it."] = None,
    image_url: Annotated[Url, "The address of its picture."] = None,
    released_at: Annotated[Instant, "The time of its publication."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One album, playlist or podcast."""
    ext = ext or {}
    return locals()


COLLECTION = Archetype("Collection", "collection", collection)
COLLECTION_LIST = Archetype("CollectionList", "collection", collection, many=True)
