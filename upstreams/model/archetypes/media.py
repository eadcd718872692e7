"""Albums, playlists and the like, and the words of videos."""

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


def cue(
    *,
    text: Annotated[str, "Its words."],
    language: Annotated[str | None, "Its language."] = None,
    start_ms: Annotated[int | None, "Milliseconds into the video at which it begins."] = None,
    end_ms: Annotated[int | None, "Milliseconds into the video at which it ends."] = None,
) -> Record:
    """One piece of what is said."""
    return locals()


def transcript(
    *,
    transcript: Annotated[str | None, "All that is said, as one text."],
    transcripts: Annotated[list[Record] | None, Of(cue), "The pieces of it, in their order."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """The words of a video, which stand in the data themselves."""
    transcripts, ext = transcripts or [], ext or {}
    return locals()


COLLECTION = Archetype("Collection", "collection", collection)
COLLECTION_LIST = Archetype("CollectionList", "collection", collection, many=True)
TRANSCRIPT = Archetype("Transcript", "", transcript)
