"""Lists of mixed results, and lists of files. Their rows contain the fields directly, without a key."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url


def search_result(
    *,
    kind: Annotated[str | None, "The kind of the result, such as account, video or hashtag."],
    id: Annotated[str | None, "The result's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the result."] = None,
    title: Annotated[str | None, "Title of the result."] = None,
    text: Annotated[str | None, "Text of the result, as plain text."] = None,
    author: Annotated[Record | None, Of(byline), "The account that published the result."] = None,
    thumbnail_url: Annotated[Url, "URL of the preview image."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    record: Annotated[Record | None, "The whole record, if the platform sends it with the result."] = None,
) -> Record:
    """A result of any kind."""
    return locals()


def media_file(
    *,
    url: Annotated[Url, "URL of the file."],
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A file, such as an image, a video or subtitles. `ext` describes it, for example its language or quality."""
    ext = ext or {}
    return locals()


SEARCH_RESULT_LIST = Archetype("SearchResult", "", search_result, many=True, kind="search")
"""Its name lacks `List`, because existing clients know it by this name."""
MEDIA_LIST = Archetype("MediaList", "", media_file, many=True)
ARCHETYPES = (SEARCH_RESULT_LIST, MEDIA_LIST)
