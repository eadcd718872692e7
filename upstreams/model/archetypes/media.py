"""Albums, playlists and similar collections, and video transcripts."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url


def collection(
    *,
    id: Annotated[str | None, "The collection's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the collection."],
    kind: Annotated[str | None, "The type of collection: album, playlist or podcast."],
    title: Annotated[str | None, "Title of the collection."],
    description: Annotated[str | None, "Description of the collection, as plain text."] = None,
    owner: Annotated[Record | None, Of(byline), "The account that owns the collection."] = None,
    items_count: Annotated[int | None, "Number of items."] = None,
    followers: Annotated[int | None, "Number of followers."] = None,
    image_url: Annotated[Url, "URL of the cover image."] = None,
    released_at: Annotated[Instant, "Time of publication."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """An album, playlist or podcast."""
    ext = ext or {}
    return locals()


def cue(
    *,
    text: Annotated[str, "Text of the cue."],
    language: Annotated[str | None, "Language of the text."] = None,
    start_ms: Annotated[int | None, "Start of the cue, in milliseconds from the start of the video."] = None,
    end_ms: Annotated[int | None, "End of the cue, in milliseconds from the start of the video."] = None,
) -> Record:
    """One cue of a transcript."""
    return locals()


def transcript(
    *,
    transcript: Annotated[str | None, "The whole transcript as one text."],
    transcripts: Annotated[list[Record] | None, Of(cue), "The cues of the transcript, in order."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """The transcript of a video. Its fields are directly in `data`."""
    transcripts, ext = transcripts or [], ext or {}
    return locals()


COLLECTION = Archetype("Collection", "collection", collection, lookup_rank=30)
COLLECTION_LIST = Archetype("CollectionList", "collection", collection, many=True, row_kind="item")
TRANSCRIPT = Archetype(
    "Transcript",
    "",
    transcript,
    roles=(Contract("transcript", of="post"),),
    absent_because=("captions_disabled", "no_captions", "login_required", "video_gone"),
)
ARCHETYPES = (COLLECTION, COLLECTION_LIST, TRANSCRIPT)
