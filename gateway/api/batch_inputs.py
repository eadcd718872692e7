"""The bodies of batches, and the inputs that stand in them (decisions 14)."""

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
    """The posts of `post-stats`."""

    urls: Annotated[
        list[str], Meta(description="1 to 100 addresses.", examples=[["https://news.ycombinator.com/item?id=8863"]])
    ]
    include: Annotated[
        str | None, Meta(description="The numbers that are wanted, with commas; all when absent.", examples=["likes"])
    ] = None


class ProfileItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One account of `profiles`."""

    platform: Annotated[str, Meta(description="The platform's slug.", examples=["github"])]
    handle: Annotated[str, Meta(description="The account's name there.", examples=["octocat"])]
    custom_id: Annotated[str | None, Meta(description="Your own name of the row.", examples=["a1"])] = None


_NO_POSTS: Final = "is about the posts of accounts, which no batch reads; profile/full of their platform does"


class ProfilesBody(msgspec.Struct, frozen=True):
    """The accounts of `profiles`, by name or by address."""

    LACKS: ClassVar[Mapping[str, str]] = dict.fromkeys(("include", "since", "stop_at_id"), _NO_POSTS)

    items: Annotated[
        list[ProfileItem] | None,
        Meta(description="1 to 50 accounts.", examples=[[{"platform": "github", "handle": "octocat"}]]),
    ] = None
    urls: Annotated[list[str] | None, Meta(description="1 to 50 addresses.")] = None


class IdsBody(msgspec.Struct, frozen=True):
    """The ids of a platform's own batch."""

    LACKS: ClassVar[Mapping[str, str]] = {
        "include_localizations": "asks for titles in all languages, which no batch reads; hl of videos gives one"
    }
    ids: Annotated[list[str], Meta(description="1 to 1,000 ids.", examples=[["D-lhorsDlUQ"]])]


class TranscriptsBody(msgspec.Struct, frozen=True):
    """The videos of `transcripts`."""

    ids: Annotated[list[str], Meta(description="1 to 100 videos' ids.", examples=[["kkGMgK9ZtnKfYAgnEtQxbv"]])]
    language: Annotated[
        str | None, Meta(description="The language of the captions, where there are several.", examples=["fr"])
    ] = None
    format: Annotated[
        Literal["text", "segments"], Meta(description="One text, or pieces with their times.", examples=["segments"])
    ] = "text"


class CommentItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comment of `comment-lookup`, by its address, or by its id and the address of its post.

    The hints to where it stands among the others are taken and not needed: it is read by itself.
    """

    comment_url: Annotated[str | None, Meta(description="Its address.")] = None
    platform: Annotated[str | None, Meta(description="The slug of its platform, which is checked.")] = None
    post_url: Annotated[
        str | None, Meta(description="The address of its post.", examples=["https://news.ycombinator.com/item?id=8863"])
    ] = None
    comment_id: Annotated[str | None, Meta(description="Its id there.", examples=["9224"])] = None
    parent_comment_id: Annotated[str | None, Meta(description="The comment that it answers; not needed.")] = None
    position_hint: Annotated[Any, Meta(description="Where it was found before; not needed.")] = None
    deep_scan: Annotated[bool | None, Meta(description="Whether to search on for it; not needed.")] = None


class CommentsBody(msgspec.Struct, frozen=True):
    """The comments of `comment-lookup`, by address or by id."""

    urls: Annotated[
        list[str] | None,
        Meta(description="1 to 25 addresses.", examples=[["https://news.ycombinator.com/item?id=9224"]]),
    ] = None
    items: Annotated[list[CommentItem] | None, Meta(description="1 to 25 comments.")] = None


def included(sent: msgspec.Struct) -> tuple[str, ...]:
    """The parts of a record that are wanted: numbers of a post, the form of a transcript."""
    if isinstance(sent, TranscriptsBody):
        return (sent.format,)
    told = sent.include if isinstance(sent, UrlsBody) else None
    if told is None:
        return COUNTS
    names = tuple(one.strip() for one in told.split(","))
    for one in names:
        if one not in COUNTS:
            raise InvalidParam(
                "include", f"holds {one[:60]}, but takes {', '.join(COUNTS)}", meant=nearest(one, COUNTS)
            )
    return names


def by_urls(batch: Batch, sent: UrlsBody | ProfilesBody | CommentsBody) -> list[BatchInput]:
    """The inputs of addresses."""
    urls = sent.urls
    _check_count("urls", urls, batch.rows_max)
    return [BatchInput(url, url=_short("urls", place, url)) for place, url in enumerate(urls or ())]


def by_names(batch: Batch, sent: ProfilesBody) -> list[BatchInput]:
    """The inputs of accounts."""
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
    """The inputs of ids."""
    _check_count("ids", sent.ids, batch.rows_max)
    language = sent.language if isinstance(sent, TranscriptsBody) else None
    values: dict[str, Value] = {} if language is None else {"language": language}
    return [BatchInput(one, name=_short("ids", place, one), values=values) for place, one in enumerate(sent.ids)]


def by_comments(batch: Batch, sent: CommentsBody) -> list[BatchInput]:
    """The inputs of comments."""
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
    """The members of an input that were sent."""
    return {name: value for name, value in msgspec.structs.asdict(item).items() if value is not None}


def _check_either(items: object, urls: object) -> None:
    if (items is None) == (urls is None):
        said = "none was sent" if items is None else "both were sent"
        raise InvalidParam("items", f"or urls must be sent, exactly one; {said}")


def _check_count(name: str, sent: Sequence[object] | None, rows_max: int) -> None:
    if not sent or len(sent) > rows_max:
        raise InvalidParam(name, f"must hold 1 to {rows_max} entries, not {len(sent or ())}")


def _short(name: str, place: int, text: str) -> str:
    _check_length(f"{name}[{place}]", text)
    return text


def _check_length(name: str, text: str) -> None:
    if len(text) > _TEXT_MAX:
        raise InvalidParam(name, f"is longer than {_TEXT_MAX} characters")
