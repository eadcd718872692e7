"""Hacker News: search, stories and their threads, accounts and front pages, from Algolia's and Firebase's APIs."""

from __future__ import annotations

from dataclasses import replace

from upstreams.model.archetypes import AUTHOR, COMMENT, COMMENT_LIST, POST, POST_LIST
from upstreams.model.calls import listing, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.params import AddressForm, limit
from upstreams.platforms.hackernews import elsewhere, reads
from upstreams.platforms.hackernews.records import author_of, post_of

_NO_NUMBERS = ("engagement.likes", "engagement.replies")
_LEAN_AUTHOR = ("author.avatar_url", "author.display_name", "author.verified")
_ALGOLIAS = "If Firebase is unavailable, the list comes from Algolia. It is longer, but new items appear later."
_FIREBASES = "If Algolia is unavailable, Firebase is read instead"


def _front_page(*, resource: str, summary: str, name: str) -> Endpoint:
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=POST_LIST,
        read=reads.listed(name),
        params=(limit(30),),
        kind="search",
        record=post_of,
        never=("total",),
    )


def _by_date(*, resource: str, summary: str, name: str, tag: str) -> Endpoint:
    """Return an endpoint for a front page that is sorted by time.

    If Firebase fails, Algolia lists the items in this order.

    No other source knows the site's formula for ranking the other front pages.
    """
    fallbacks = (Fallback(source="algolia", read=elsewhere.newest(tag)),)
    return replace(
        _front_page(resource=resource, summary=summary, name=name),
        fallbacks=fallbacks,
        description=f"{summary} {_ALGOLIAS}",
    )


PLATFORM = Platform(
    slug="hackernews",
    title="Hacker News",
    category="forums",
    docs_url="https://hn.algolia.com/api",
    terms_url="https://www.ycombinator.com/legal/",
    checked_on="2026-11-21",
    hosts=("ycombinator.com",),
    address_forms=(AddressForm("profile", r"news\.ycombinator\.com/user\?(?:.*&)?id=(?P<handle>[\w-]+)(?:[&#].*)?"),),
    sources={"algolia": "https://hn.algolia.com/api/v1", "firebase": "https://hacker-news.firebaseio.com/v0"},
    social=True,
    endpoints=(
        listing(
            resource="search",
            summary="Search for stories, comments and polls.",
            archetype=POST_LIST,
            call=reads.SEARCH,
            pages=reads.HITS,
            collect=500,
            newest={"sort": "recent"},
            never=("flags.deleted",),
            description="Algolia serves about 1,000 results per search. Use since and until to reach more.",
        ),
        single(
            resource="story",
            summary="One story, poll or job.",
            archetype=POST,
            call=reads.ITEM,
            record=reads.story_of,
            never=("engagement.comments", "flags.deleted", *post_of.unfilled),
            description=f"One story, poll or job. {_FIREBASES}. The response then has the number "
            "of comments, but no story_id.",
            fallbacks=(Fallback(source="firebase", read=elsewhere.story),),
        ),
        Endpoint(
            resource="story/comments",
            summary="Comments on a story, each with its replies.",
            archetype=COMMENT_LIST,
            read=reads.comments,
            params=(reads.STORY_ID, reads.LIMIT),
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned", "total"),
            description=f"Comments on a story, each with its replies. {_FIREBASES}, comment by comment. The "
            "order is then the site's, and a warning appears if a page has more than 300 comments with replies.",
            fallbacks=(Fallback(source="firebase", read=elsewhere.comments),),
        ),
        single(
            resource="comment",
            summary="One comment, with its replies.",
            archetype=COMMENT,
            call=reads.COMMENT,
            record=reads.lone_comment_of,
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned"),
            description=f"One comment, with its replies. {_FIREBASES}, comment by comment and without the story.",
            fallbacks=(Fallback(source="firebase", read=elsewhere.comment),),
        ),
        Endpoint(
            resource="profile",
            summary="The public profile of an account.",
            archetype=AUTHOR,
            read=reads.profile,
            params=(reads.HANDLE,),
            record=author_of,
            fallbacks=(Fallback(source="firebase", read=elsewhere.profile),),
        ),
        _front_page(
            resource="top", summary="Stories and jobs on the front page and the pages after it.", name="topstories"
        ),
        _by_date(resource="new", summary="The newest stories.", name="newstories", tag="story"),
        _front_page(resource="best", summary="Recent stories with the most points.", name="beststories"),
        _front_page(resource="ask", summary="Questions to readers (Ask HN).", name="askstories"),
        _front_page(resource="show", summary="Projects by readers (Show HN).", name="showstories"),
        _by_date(resource="jobs", summary="Job advertisements, newest first.", name="jobstories", tag="job"),
    ),
)
