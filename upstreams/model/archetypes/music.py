"""Tracks: songs and other recordings. Albums and playlists are collections (`media`)."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url, nests


def music_artist(
    *,
    id: Annotated[str | None, "The artist's ID on the platform."],  # noqa: A002 - the field's own name
    name: Annotated[str | None, "Name of the artist."] = None,
    url: Annotated[Url, "URL of the artist's page."] = None,
) -> Record:
    """An artist of a track."""
    return locals()


@nests(album="The album that contains the track.")
def track(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The track's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the track."],
    title: Annotated[str | None, "Title of the track."],
    artists: Annotated[list[Record] | None, Of(music_artist), "The artists, main artist first."] = None,
    album_id: Annotated[str | None, "The album's ID on the platform."] = None,
    album_title: Annotated[str | None, "Title of the album."] = None,
    duration_seconds: Annotated[float | None, "Length of the track in seconds."] = None,
    plays: Annotated[int | None, "Number of plays."] = None,
    likes: Annotated[int | None, "Number of likes."] = None,
    explicit: Annotated[bool | None, "Whether the track is marked as explicit."] = None,
    preview_url: Annotated[Url, "URL of an audio excerpt."] = None,
    image_url: Annotated[Url, "URL of the cover image."] = None,
    released_at: Annotated[Instant, "Time of publication."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A track: a song or another recording."""
    return {
        "id": id,
        "url": url,
        "title": title,
        "artists": artists or [],
        "album": {"id": album_id, "title": album_title},
        "duration_seconds": duration_seconds,
        "plays": plays,
        "likes": likes,
        "explicit": explicit,
        "preview_url": preview_url,
        "image_url": image_url,
        "released_at": released_at,
        "ext": ext or {},
    }


TRACK = Archetype("Track", "track", track, lookup_rank=15, roles=(Contract("track"),))
TRACK_LIST = Archetype(
    "TrackList",
    "track",
    track,
    many=True,
    row_kind="item",
    roles=(Contract("track_search", "search", takes=("query",)),),
)
ARCHETYPES = (TRACK, TRACK_LIST)
