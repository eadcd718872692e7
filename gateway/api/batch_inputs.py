"""The bodies of batches and the inputs in them (decisions 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from gateway.http.errors import InvalidParam
from scheduler.json_input import nearest
from upstreams.composites.batches import COUNTS, Batch, BatchInput
from upstreams.model.params import Value

_TEXT_MAX: Final = 2_048


class UrlsBody(msgspec.Struct, frozen=True):
    """The posts of a `post-stats` batch."""

    urls: Annotated[
        list[str], Meta(description="1 to 100 URLs.", examples=[["https://news.ycombinator.com/item?id=8863"]])
    ]
    include: Annotated[
        str | None, Meta(description="The comma-separated metrics to return (default: all).", examples=["likes"])
    ] = None


class ProfileItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One account of a `profiles` batch."""

    platform: Annotated[str, Meta(description="The platform's slug.", examples=["github"])]
    handle: Annotated[str, Meta(description="The account's handle on the platform.", examples=["octocat"])]
    custom_id: Annotated[str | None, Meta(description="Your own name for this row.", examples=["a1"])] = None


_NO_POSTS: Final = "is for an account's posts, which batches do not return; use the platform's profile/full endpoint"


class ProfilesBody(msgspec.Struct, frozen=True):
    """The accounts of a `profiles` batch, by handle or by URL."""

    LACKS: ClassVar[Mapping[str, str]] = dict.fromkeys(("include", "since", "stop_at_id"), _NO_POSTS)

    items: Annotated[
        list[ProfileItem] | None,
        Meta(description="1 to 50 accounts.", examples=[[{"platform": "github", "handle": "octocat"}]]),
    ] = None
    urls: Annotated[list[str] | None, Meta(description="1 to 50 URLs.")] = None


class IdsBody(msgspec.Struct, frozen=True):
    """The ids of a batch that belongs to one platform."""

    LACKS: ClassVar[Mapping[str, str]] = {
        "include_localizations": "requests titles in all languages, which batches do not return; "
        "for one language, use hl with videos"
    }
    ids: Annotated[list[str], Meta(description="1 to 1,000 ids.", examples=[["D-lhorsDlUQ"]])]


class TranscriptsBody(msgspec.Struct, frozen=True):
    """The videos of a `transcripts` batch."""

    ids: Annotated[list[str], Meta(description="1 to 100 video ids.", examples=[["kkGMgK9ZtnKfYAgnEtQxbv"]])]
    language: Annotated[
        str | None, Meta(description="The language of the captions, if there are several.", examples=["fr"])
    ] = None
    format: Annotated[
        Literal["text", "segments"], Meta(description="One text, or segments with timestamps.", examples=["segments"])
    ] = "text"


class CommentItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comment of `comment-lookup`, by its URL, or by its id and the URL of its post.

    The hints about the comment's position in the thread are accepted and ignored, because each comment is read
    directly.
    """

    comment_url: Annotated[str | None, Meta(description="The URL of the comment.")] = None
    platform: Annotated[str | None, Meta(description="The slug of the platform. It must match the URL.")] = None
    post_url: Annotated[
        str | None, Meta(description="The URL of the post.", examples=["https://news.ycombinator.com/item?id=8863"])
    ] = None
    comment_id: Annotated[str | None, Meta(description="The id of the comment.", examples=["9224"])] = None
    parent_comment_id: Annotated[str | None, Meta(description="The id of the parent comment. Ignored.")] = None
    position_hint: Annotated[Any, Meta(description="The last known position of the comment. Ignored.")] = None
    deep_scan: Annotated[bool | None, Meta(description="Whether to search longer for the comment. Ignored.")] = None


class CommentsBody(msgspec.Struct, frozen=True):
    """The comments of `comment-lookup`, by URL or by id."""

    urls: Annotated[
        list[str] | None,
        Meta(description="1 to 25 URLs.", examples=[["https://news.ycombinator.com/item?id=9224"]]),
    ] = None
    items: Annotated[list[CommentItem] | None, Meta(description="1 to 25 comments.")] = None


def included(sent: msgspec.Struct) -> tuple[str, ...]:
    """Return the requested parts of a record: the metrics of a post, or the form of a transcript."""
    if isinstance(sent, TranscriptsBody):
        return (sent.format,)
    include = sent.include if isinstance(sent, UrlsBody) else None
    if include is None:
        return COUNTS
    names = tuple(one.strip() for one in include.split(","))
    for one in names:
        if one not in COUNTS:
            raise InvalidParam(
                "include",
                f"must be one or more of {', '.join(COUNTS)}; {one[:60]} is unknown",
                meant=nearest(one, COUNTS),
            )
    return names


def by_urls(batch: Batch, sent: UrlsBody | ProfilesBody | CommentsBody) -> list[BatchInput]:
    """Return the inputs for URLs."""
    urls = sent.urls
    _check_count("urls", urls, batch.rows_max)
    return [BatchInput(url, url=_short("urls", place, url)) for place, url in enumerate(urls or ())]


def by_names(batch: Batch, sent: ProfilesBody) -> list[BatchInput]:
    """Return the inputs for accounts."""
    _check_either(sent.items, sent.urls)
    if sent.items is None:
        return by_urls(batch, sent)
    _check_count("items", sent.items, batch.rows_max)
    return [
        BatchInput(
            _shown(one),
            platform=_short("items", place, one.platform),
            name=_short("items", place, one.handle),
        )
        for place, one in enumerate(sent.items)
    ]


def by_ids(batch: Batch, sent: IdsBody | TranscriptsBody) -> list[BatchInput]:
    """Return the inputs for ids."""
    _check_count("ids", sent.ids, batch.rows_max)
    language = sent.language if isinstance(sent, TranscriptsBody) else None
    values: dict[str, Value] = {} if language is None else {"language": language}
    return [BatchInput(one, name=_short("ids", place, one), values=values) for place, one in enumerate(sent.ids)]


def by_comments(batch: Batch, sent: CommentsBody) -> list[BatchInput]:
    """Return the inputs for comments."""
    _check_either(sent.items, sent.urls)
    if sent.items is None:
        return by_urls(batch, sent)
    _check_count("items", sent.items, batch.rows_max)
    return [_comment(f"items[{place}]", one) for place, one in enumerate(sent.items)]


def _comment(name: str, sent: CommentItem) -> BatchInput:
    named = (sent.comment_url, sent.post_url, sent.comment_id)
    if [one is not None for one in named] not in ([True, False, False], [False, True, True]):
        raise InvalidParam(name, "must have comment_url, or post_url and comment_id")
    for text in filter(None, named):
        _check_length(name, text)
    return BatchInput(_shown(sent), sent.comment_url or sent.post_url, sent.platform, sent.comment_id)


def _shown(item: ProfileItem | CommentItem) -> dict[str, Any]:
    """Return the members of an input that the client sent."""
    return {name: value for name, value in msgspec.structs.asdict(item).items() if value is not None}


def _check_either(items: object, urls: object) -> None:
    if (items is None) == (urls is None):
        said = "got none" if items is None else "got both"
        raise InvalidParam("items", f"or urls is required, exactly one of them; {said}")


def _check_count(name: str, sent: Sequence[object] | None, rows_max: int) -> None:
    if not sent or len(sent) > rows_max:
        raise InvalidParam(name, f"must contain 1 to {rows_max} entries, not {len(sent or ())}")


def _short(name: str, place: int, text: str) -> str:
    _check_length(f"{name}[{place}]", text)
    return text


def _check_length(name: str, text: str) -> None:
    if len(text) > _TEXT_MAX:
        raise InvalidParam(name, f"is longer than {_TEXT_MAX} characters")
