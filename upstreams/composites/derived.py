"""Endpoints that are built from other endpoints of the same platform, found by their roles (decisions 18)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from upstreams.composites.legs import Settled, attempt, legs_of, part_of
from upstreams.composites.omni import omni_search
from upstreams.composites.params import chosen, several
from upstreams.composites.signals import (
    DAY_S,
    format_of,
    mean_of,
    moments_of,
    posts_per_week,
    rate_of,
    rounded,
)
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.accounts import PROFILE_FULL, profile_full, profile_numbers, time_window
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound
from upstreams.model.fields import values
from upstreams.model.params import Args, Param, Value
from upstreams.model.steps import Part, Single, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGES_MAX: Final = 5
_POSTS = Param(
    "posts",
    "Number of posts, 1 to 100. At most five pages are read.",
    "25",
    "integer",
    default=25,
    minimum=1,
    maximum=100,
)
_INCLUDE = several("include", "Parts to return with the account (default: both).", ("posts", "computed"))


def derived_of(platform: Platform) -> tuple[Endpoint, ...]:
    """Return the endpoints that can be derived from a platform's own endpoints, by their roles."""
    profile, posts = platform.playing("profile"), platform.playing("profile_posts")
    full = _profile_full(platform, profile, posts) if profile is not None and posts is not None else None
    return tuple(one for one in (full, omni_search(platform)) if one is not None)


def _profile_full(platform: Platform, profile: Endpoint, posts: Endpoint) -> Endpoint:
    return Endpoint(
        resource="profile/full",
        summary="An account and its recent posts, with computed statistics.",
        archetype=PROFILE_FULL,
        read=partial(_read_full, platform, profile, posts),
        params=(*profile.params, _POSTS, _INCLUDE),
        tier="advanced",
        one_of=profile.one_of,
        kind="profile",
        needs=tuple(dict.fromkeys((*profile.needs, *posts.needs))),
    )


def _read_full(platform: Platform, profile: Endpoint, posts: Endpoint, args: Args) -> Steps:
    named = _values(profile, args)
    first = _page(platform, posts, args, args.number("posts"))
    found, *rest = yield (Part(profile.resource, named), first)
    author = Settled(Part(profile.resource, named, platform=platform.slug), found)
    if author.record is None:
        raise NotFound("The upstream returned no usable data.")
    settled = [Settled(first, rest[0])]
    rows = list(settled[0].records)
    while settled[-1].next is not None and len(rows) < args.number("posts") and len(settled) < _PAGES_MAX:
        left = args.number("posts") - len(rows)
        settled += yield from attempt([_page(platform, posts, args, left, settled[-1])])
        rows += settled[-1].records
    has_posts = bool(settled[0].answer)
    include = chosen(args, "include", ("posts", "computed"))
    record = profile_full(
        author=author.record,
        posts=POST_LIST.rows(rows, []) if has_posts and "posts" in include else None,
        computed=numbers_of(author.record, rows) if has_posts and "computed" in include else None,
    )
    return Single(record, legs=legs_of((author, *settled)), next=settled[-1].next)


def _values(endpoint: Endpoint, args: Args) -> dict[str, Value]:
    known = {param.name for param in endpoint.params}
    return {name: value for name, value in args.values.items() if name in known}


def _page(platform: Platform, posts: Endpoint, args: Args, rows: int, before: Settled | None = None) -> Part:
    """Return the part that reads a page of posts: the page after `before` or, without it, the page of the cursor."""
    own = {name: value for name, value in _values(posts, args).items() if name != "limit"}
    cursor = args.cursor if before is None else before.next
    # The page numbers depend on the page size, so all pages have the same size.
    size = rows if before is None else before.part.values.get("limit", rows)
    return part_of(platform, "profile_posts", own, rows=int(size), cursor=cursor)


def numbers_of(author: Record, posts: Sequence[Record]) -> Record:
    """Return statistics about an account and its posts."""
    rates = [rate_of(post, author["followers"]) for post in posts]
    moments = moments_of(posts)
    forms = [format_of(post) for post in posts]
    return profile_numbers(
        average_engagement_rate=rounded(mean_of([rate and rate.value for rate in rates]), 6),
        posts_per_week=rounded(posts_per_week(posts), 2),
        window=time_window(
            begins_at=values.instant(moments[0]),
            ends_at=values.instant(moments[-1]),
            days=round((moments[-1] - moments[0]) / DAY_S, 2),
            posts=len(moments),
        )
        if moments
        else None,
        top_post=max(posts, key=_engaged, default=None),
        format_mix={form: round(forms.count(form) / len(forms), 4) for form in sorted(set(forms))} if forms else None,
    )


def _engaged(post: Record) -> int:
    return sum(post["engagement"][name] or 0 for name in ("likes", "comments", "shares"))
