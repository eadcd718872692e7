"""Posts and the comments on them.

`ext.language` of a post, where a platform sets it, is the upstream's own language tag and wins over detection.
"""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url, nests
from upstreams.model.computed import post_computed


@nests(content="Its words and pictures.", engagement="How readers answered to it, in numbers.", flags="Its marks.")
def post(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: Annotated[str | None, "The platform's own id of the post."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page on the platform."],
    text: Annotated[str | None, "Title and text, as plain text."],
    author: Annotated[Record | None, Of(byline), "The account that made it."],
    media_urls: Annotated[list[str] | None, "The addresses of its pictures and videos."] = None,
    thumbnail_url: Annotated[Url, "The address of a picture that previews it."] = None,
    duration_seconds: Annotated[float | None, "How long its video or sound takes."] = None,
    views: Annotated[int | None, "How often it was seen."] = None,
    likes: Annotated[int | None, "Likes, points or positive votes."] = None,
    comments: Annotated[int | None, "Comments or answers."] = None,
    shares: Annotated[int | None, "Reposts and quotes."] = None,
    saves: Annotated[int | None, "Bookmarks."] = None,
    pinned: Annotated[bool | None, "Whether its author put it first."] = None,
    deleted: Annotated[bool | None, "Whether it was deleted."] = None,
    nsfw: Annotated[bool | None, "Whether it is marked as not for everybody."] = None,
    spoiler: Annotated[bool | None, "Whether it is marked as telling too much."] = None,
    published_at: Annotated[Instant, "The time of its publication."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One post: a story, an issue, a question, a message."""
    return {
        "id": id,
        "url": url,
        "content": {
            "text": text,
            "media_urls": media_urls or [],
            "thumbnail_url": thumbnail_url,
            "duration_seconds": duration_seconds,
        },
        "author": author,
        "engagement": {"views": views, "likes": likes, "comments": comments, "shares": shares, "saves": saves},
        "flags": {"pinned": pinned, "deleted": deleted, "nsfw": nsfw, "spoiler": spoiler},
        "published_at": published_at,
        "ext": ext or {},
    }


@nests(engagement="How readers answered to it, in numbers.", flags="Its marks.")
def comment(
    *,
    id: Annotated[str | None, "The platform's own id of the comment."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page on the platform."] = None,
    parent_id: Annotated[str | None, "The id of what it answers: a comment, or the post."] = None,
    post_id: Annotated[str | None, "The id of the post."] = None,
    text: Annotated[str | None, "Its words, as plain text; null where it was deleted."] = None,
    author: Annotated[Record | None, Of(byline), "The account that made it; null where it was deleted."] = None,
    likes: Annotated[int | None, "Likes, points or positive votes."] = None,
    replies_count: Annotated[int | None, "Replies to it, here or not."] = None,
    pinned: Annotated[bool | None, "Whether it was put first."] = None,
    deleted: Annotated[bool | None, "Whether it was deleted."] = None,
    published_at: Annotated[Instant, "The time of its publication."] = None,
    replies: Annotated[list[Record] | None, Of(comment), "The replies to it, each a comment."] = None,
) -> Record:
    """One comment; a tombstone has `deleted=True`, no text and no author."""
    return {
        "id": id,
        "url": url,
        "parent_id": parent_id,
        "post_id": post_id,
        "text": text,
        "author": author,
        "engagement": {"likes": likes, "replies": replies_count},
        "flags": {"pinned": pinned, "deleted": deleted},
        "published_at": published_at,
        "replies": replies or [],
    }


POST = Archetype("Post", "post", post, computed=post_computed)
POST_LIST = Archetype("PostList", "post", post, many=True, computed=post_computed)
COMMENT = Archetype("Comment", "comment", comment)
COMMENT_LIST = Archetype("CommentList", "comment", comment, many=True)
