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


def _front_page(resource: str, summary: str, name: str) -> Endpoint:
    return Endpoint(
        resource, summary, POST_LIST, reads.listed(name), (limit(30),), kind="search", record=post_of, never=("total",)
    )


def _by_date(resource: str, summary: str, name: str, tag: str) -> Endpoint:
    """Return an endpoint for a front page that is sorted by time.

    If Firebase fails, Algolia lists the items in this order.

    No other source knows the site's formula for ranking the other front pages.
    """
    fallbacks = (Fallback("algolia", elsewhere.newest(tag)),)
    return replace(_front_page(resource, summary, name), fallbacks=fallbacks, description=f"{summary} {_ALGOLIAS}")


PLATFORM = Platform(
    slug="hackernews",
    hosts=("ycombinator.com",),
    address_forms=(AddressForm("profile", r"news\.ycombinator\.com/user\?(?:.*&)?id=(?P<handle>[\w-]+)(?:[&#].*)?"),),
    title="Hacker News",
    sources={"algolia": "https://hn.algolia.com/api/v1", "firebase": "https://hacker-news.firebaseio.com/v0"},
    docs_url="https://hn.algolia.com/api",
    social=True,
    endpoints=(
        listing(
            "search",
            "Search for stories, comments and polls.",
            POST_LIST,
            reads.SEARCH,
            reads.HITS,
            collect=500,
            newest={"sort": "recent"},
            never=("flags.deleted",),
            description="Algolia serves about 1,000 results per search. Use since and until to reach more.",
        ),
        single(
            "story",
            "One story, poll or job.",
            POST,
            reads.ITEM,
            reads.story_of,
            never=("engagement.comments", "flags.deleted", *post_of.unfilled),
            description=f"One story, poll or job. {_FIREBASES}. The response then has the number "
            "of comments, but no story_id.",
            fallbacks=(Fallback("firebase", elsewhere.story),),
        ),
        Endpoint(
            "story/comments",
            "Comments on a story, each with its replies.",
            COMMENT_LIST,
            reads.comments,
            (reads.STORY_ID, reads.LIMIT),
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned", "total"),
            description=f"Comments on a story, each with its replies. {_FIREBASES}, comment by comment. The "
            "order is then the site's, and a warning appears if a page has more than 300 comments with replies.",
            fallbacks=(Fallback("firebase", elsewhere.comments),),
        ),
        single(
            "comment",
            "One comment, with its replies.",
            COMMENT,
            reads.COMMENT,
            reads.lone_comment_of,
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned"),
            description=f"One comment, with its replies. {_FIREBASES}, comment by comment and without the story.",
            fallbacks=(Fallback("firebase", elsewhere.comment),),
        ),
        Endpoint(
            "profile",
            "The public profile of an account.",
            AUTHOR,
            reads.profile,
            (reads.HANDLE,),
            record=author_of,
            fallbacks=(Fallback("firebase", elsewhere.profile),),
        ),
        _front_page("top", "Stories and jobs on the front page and the pages after it.", "topstories"),
        _by_date("new", "The newest stories.", "newstories", "story"),
        _front_page("best", "Recent stories with the most points.", "beststories"),
        _front_page("ask", "Questions to readers (Ask HN).", "askstories"),
        _front_page("show", "Projects by readers (Show HN).", "showstories"),
        _by_date("jobs", "Job advertisements, newest first.", "jobstories", "job"),
    ),
)
