"""Posts and their comments.

If a platform sets `ext.language` on a post, that tag takes precedence over language detection.
"""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.people import byline
from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url, nests
from upstreams.model.computed import post_computed


@nests(
    content="Text and media of the post.", engagement="Reactions of readers, as counts.", flags=("Markers of the post.")
)
def post(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The post's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the post."],
    text: Annotated[str | None, "Title and text, as plain text."],
    author: Annotated[Record | None, Of(byline), "The account that wrote the post."],
    media_urls: Annotated[list[str] | None, "URLs of images and videos."] = None,
    thumbnail_url: Annotated[Url, "URL of the preview image."] = None,
    duration_seconds: Annotated[float | None, "Length of the video or audio in seconds."] = None,
    views: Annotated[int | None, "Number of views."] = None,
    likes: Annotated[int | None, "Number of likes, points or upvotes."] = None,
    comments: Annotated[int | None, "Number of comments or answers."] = None,
    shares: Annotated[int | None, "Number of reposts and quotes."] = None,
    saves: Annotated[int | None, "Bookmarks."] = None,
    pinned: Annotated[bool | None, "Whether the author pinned the post."] = None,
    deleted: Annotated[bool | None, "Whether the post was deleted."] = None,
    nsfw: Annotated[bool | None, "Whether the post is marked as not safe for work."] = None,
    spoiler: Annotated[bool | None, "Whether the post is marked as a spoiler."] = None,
    likes_hidden: Annotated[bool | None, "Whether the author hides the number of likes."] = None,
    comments_hidden: Annotated[bool | None, "Whether the author hides the comments or their number."] = None,
    views_hidden: Annotated[bool | None, "Whether the author hides the number of views."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A post: a story, an issue, a question or a message."""
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
        "flags": {
            "pinned": pinned, "deleted": deleted, "nsfw": nsfw, "spoiler": spoiler,
            "likes_hidden": likes_hidden, "comments_hidden": comments_hidden, "views_hidden": views_hidden,
        },
        "published_at": published_at,
        "ext": ext or {},
    }  # fmt: skip


@nests(engagement="Reactions of readers, as counts.", flags="Markers of the comment.")
def comment(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The comment's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the comment."] = None,
    parent_id: Annotated[str | None, "ID of the comment or post that this comment replies to."] = None,
    post_id: Annotated[str | None, "ID of the post."] = None,
    text: Annotated[str | None, "The comment as plain text; null if it was deleted."] = None,
    author: Annotated[Record | None, Of(byline), "The account that wrote the comment; null if it was deleted."] = None,
    likes: Annotated[int | None, "Number of likes, points or upvotes."] = None,
    replies_count: Annotated[int | None, "Number of replies, including those that are not in `replies`."] = None,
    pinned: Annotated[bool | None, "Whether the comment is pinned."] = None,
    deleted: Annotated[bool | None, "Whether the comment was deleted."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    replies: Annotated[list[Record] | None, Of(comment), "Replies to the comment, as comments."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A comment or reply.

    A tombstone has `deleted=True`, no text and no author.
    """
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
        "ext": ext or {},
    }


POST = Archetype("Post", "post", post, computed=post_computed, lookup_rank=10, roles=(Contract("post"),))
POST_LIST = Archetype(
    "PostList",
    "post",
    post,
    many=True,
    computed=post_computed,
    row_kind="post",
    roles=(
        Contract("profile_posts", "profile/posts", of="profile"),
        Contract("search", "search", takes=("query",)),
    ),
)
COMMENT = Archetype("Comment", "comment", comment, lookup_rank=70, roles=(Contract("comment"),))
COMMENT_LIST = Archetype(
    "CommentList",
    "comment",
    comment,
    many=True,
    kind="comments",
    roles=(Contract("comments", "{post}/comments", of="post"), Contract("replies", "{post}/comment/replies")),
)
ARCHETYPES = (POST, POST_LIST, COMMENT, COMMENT_LIST)
