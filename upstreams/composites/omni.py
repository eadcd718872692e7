"""Search for posts on one platform, with the comments on the first posts (decisions 18)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from upstreams.composites.legs import LEG_S, Settled, attempt, legs_of
from upstreams.composites.params import chosen, several
from upstreams.composites.prism.insight.tone import summed, tone_of
from upstreams.composites.signals import DAY_S, unix
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.threads import OMNI, community_share, expanded, rolled_up
from upstreams.model.computed.language import language_of
from upstreams.model.endpoint import Endpoint, Platform, PriceRange
from upstreams.model.fields import total_of
from upstreams.model.params import Args, Param, Value
from upstreams.model.steps import CACHE, Fetched, Page, Part, Steps

PLATFORMS: Final = frozenset(("discourse", "hackernews", "lemmy", "reddit"))
"""The platforms whose search returns threads in communities (decisions 18)."""
LEAST: Final = 5
_POSTS: Final = 25
_COMMENTS: Final = 15
_THREADS = Param("threads", "Posts whose comments are read, 1 to 8.", "8", "integer", default=8, minimum=1, maximum=8)
_SORT = Param(
    "sort",
    "Sort order within a page. relevance keeps the platform's order.",
    "top",
    default="relevance",
    choices=("relevance", "new", "top", "comment_count"),
)
_COMMUNITIES: Final = ("community", "subreddit", "category", "category_id")
_DAYS: Final[Mapping[str, int]] = {"day": 1, "week": 7, "month": 30, "year": 365}
_TIMEFRAME = Param(
    "timeframe",
    "Maximum age of posts. Older posts are dropped from the page.",
    "month",
    default="all",
    choices=("all", *_DAYS),
)
_COMMUNITY = Param("community", "Only posts from this community, by name or number.", "python", fold=True)
_INCLUDE = several("include", "Parts to return with the posts (default: both).", ("communities", "comments"))


def omni_search(platform: Platform) -> Endpoint | None:
    """Return the endpoint that searches a platform for threads, or None if the platform has no communities."""
    search, comments = platform.playing("search"), platform.playing("comments")
    if platform.slug not in PLATFORMS or search is None or comments is None:
        return None
    query = next(one for one in search.params if one.name == "query")
    hosts = tuple(one for one in search.params if one.is_host)
    return Endpoint(
        resource="omni-search",
        summary="Search for posts, with their first comments and the tone of their communities.",
        archetype=OMNI,
        read=partial(_read, platform, search, comments),
        params=(query, *hosts, _THREADS, _SORT, _TIMEFRAME, _COMMUNITY, _INCLUDE),
        price=PriceRange(LEAST, 9, "1 for the search and 1 per thread read, at least 5.", _span),
        kind="search",
        needs=tuple(dict.fromkeys((*search.needs, *comments.needs))),
    )


def _span(values: Mapping[str, Value]) -> tuple[int, int]:
    return LEAST, max(LEAST, 1 + int(values["threads"]))


def _read(platform: Platform, search: Endpoint, comments: Endpoint, args: Args) -> Steps:
    hosts = {one.name: args.values[one.name] for one in search.params if one.is_host}
    size: dict[str, Value] = {"limit": _POSTS} if any(one.name == "limit" for one in search.params) else {}
    found = Part(search.resource, {"query": args.text("query"), **hosts, **size}, cursor=args.cursor, within_s=LEG_S)
    (answer,) = yield (found,)
    posts = _chosen(answer.result.records, args)
    include = chosen(args, "include", ("communities", "comments"))
    opened = posts[: args.number("threads")] if "comments" in include else []
    settled = yield from attempt([_thread(platform, comments, post, hosts) for post in opened])
    below = {id(post): leg.records for post, leg in zip(opened, settled, strict=True) if leg.answer}
    rows = [
        expanded(post=row["post"], computed=row["computed"], comments=below.get(id(row["post"])))
        for row in POST_LIST.rows(posts, [])
    ]
    read = [leg for leg in settled if isinstance(leg.answer, Fetched) and leg.answer.source != CACHE]
    return Page(
        rows,
        answer.result.next,
        answer.result.total,
        legs=legs_of((Settled(_at(platform, found), answer), *settled)),
        credits_used=max(LEAST, 1 + len(read)),
        beside=rolled_up(
            communities=_communities(rows) if "communities" in include else None, threads_expanded=len(below)
        ),
    )


def _at(platform: Platform, part: Part) -> Part:
    return Part(part.resource, part.values, platform=platform.slug)


def _thread(platform: Platform, comments: Endpoint, post: Record, hosts: Mapping[str, Value]) -> Part:
    known = {one.name for one in comments.params}
    name: dict[str, Value] = {"id": post["id"]} if "id" in known else {"url": post["url"]}
    size: dict[str, Value] = {"limit": _COMMENTS} if "limit" in known else {}
    shared = {key: value for key, value in hosts.items() if key in known}
    return Part(comments.resource, {**name, **shared, **size}, True, platform.slug, within_s=LEG_S)  # noqa: FBT003 - the flag is `optional`


def _chosen(posts: Sequence[Record], args: Args) -> list[Record]:
    """Return the requested posts on a page, in the requested order."""
    days = _DAYS.get(args.text("timeframe"))
    since_at = None if days is None else args.now_at - days * DAY_S
    community = args.text_or_none("community")
    kept = [
        post
        for post in posts
        if (since_at is None or (post["published_at"] and unix(post["published_at"]) >= since_at))
        and (community is None or (community_of(post) or "").lower() == community)
    ]
    sort = args.text("sort")
    if sort == "new":
        return sorted(kept, key=lambda post: post["published_at"] or "", reverse=True)
    count = {"top": "likes", "comment_count": "comments"}.get(sort)
    return kept if count is None else sorted(kept, key=lambda post: post["engagement"][count] or 0, reverse=True)


def community_of(post: Record) -> str | None:
    """Return the name or number of a post's community, or None if it belongs to none."""
    ext = post["ext"]
    return next((str(ext[name]) for name in _COMMUNITIES if ext.get(name)), None)


def _communities(rows: Sequence[Record]) -> list[Record]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for row in rows:
        if (name := community_of(row["post"])) is not None:
            groups[name].append(row)
    return sorted((_share(name, of) for name, of in groups.items()), key=lambda one: (-one["posts"], one["name"]))


def _share(name: str, rows: Sequence[Record]) -> Record:
    posts = [row["post"] for row in rows]
    words = [(row["post"]["content"]["text"], row["computed"]["language"]) for row in rows]
    comment_texts = [
        comment["text"] for row in rows for comment in (row["comments"] or ())[:_COMMENTS] if comment["text"]
    ]
    return community_share(
        name=name,
        posts=len(posts),
        likes=total_of(post["engagement"]["likes"] for post in posts),
        comments=total_of(post["engagement"]["comments"] for post in posts),
        tone=summed(tone_of(*one) for one in (*words, *((text, language_of(text)) for text in comment_texts))),
    )
