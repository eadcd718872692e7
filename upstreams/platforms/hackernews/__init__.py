"""Hacker News: search, stories and their threads, accounts and the front pages, from Algolia's API and Firebase's."""

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
_ALGOLIAS = "While Firebase is away Algolia lists them: it knows the newest a little later, and its list is longer."
_FIREBASES = "While Algolia is away Firebase tells of it"


def _front_page(resource: str, summary: str, name: str) -> Endpoint:
    return Endpoint(
        resource, summary, POST_LIST, reads.listed(name), (limit(30),), kind="search", record=post_of, never=("total",)
    )


def _by_date(resource: str, summary: str, name: str, tag: str) -> Endpoint:
    """A front page that is ordered by time alone, so that Algolia's list of the kind is the same one.

    The others are ranked by a formula of the site's own: no other source has their order.
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
            "Stories, comments and polls by query.",
            POST_LIST,
            reads.SEARCH,
            reads.HITS,
            collect=500,
            newest={"sort": "recent"},
            never=("flags.deleted",),
            description="Algolia serves about 1,000 results of a search; since and until reach what lies beyond.",
        ),
        single(
            "story",
            "One story, poll or job.",
            POST,
            reads.ITEM,
            reads.story_of,
            never=("engagement.comments", "flags.deleted", *post_of.unfilled),
            description=f"One story, poll or job. {_FIREBASES}: then the number of comments is known, story_id is not.",
            fallbacks=(Fallback("firebase", elsewhere.story),),
        ),
        Endpoint(
            "story/comments",
            "A story's comments, each with the replies to it.",
            COMMENT_LIST,
            reads.comments,
            (reads.STORY_ID, reads.LIMIT),
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned", "total"),
            description=f"A story's comments, each with the replies to it. {_FIREBASES}, comment by comment: then they "
            "come in the site's order, and a warning says so where a page has more than 300 with their replies.",
            fallbacks=(Fallback("firebase", elsewhere.comments),),
        ),
        single(
            "comment",
            "One comment, with the replies to it.",
            COMMENT,
            reads.COMMENT,
            reads.lone_comment_of,
            never=(*_LEAN_AUTHOR, *_NO_NUMBERS, "flags.pinned"),
            description=f"One comment, with the replies to it. {_FIREBASES}, comment by comment and without its story.",
            fallbacks=(Fallback("firebase", elsewhere.comment),),
        ),
        Endpoint(
            "profile",
            "One account's public profile.",
            AUTHOR,
            reads.profile,
            (reads.HANDLE,),
            record=author_of,
            fallbacks=(Fallback("firebase", elsewhere.profile),),
        ),
        _front_page("top", "The stories and jobs of the front page and the pages after it.", "topstories"),
        _by_date("new", "The newest stories.", "newstories", "story"),
        _front_page("best", "The stories with the most points of late.", "beststories"),
        _front_page("ask", "Questions to the readers, Ask HN.", "askstories"),
        _front_page("show", "What readers made, Show HN.", "showstories"),
        _by_date("jobs", "Job advertisements, newest first.", "jobstories", "job"),
    ),
)
