"""TikTok: accounts and their videos, from a partner source."""

from __future__ import annotations

from dataclasses import replace

from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.calls import Get, Pages, listing_by, single
from upstreams.model.endpoint import Platform
from upstreams.model.errors import NotFound
from upstreams.model.fields import obj, text
from upstreams.model.paging import ByToken
from upstreams.model.params import Args, Param
from upstreams.model.steps import Steps
from upstreams.platforms.tiktok.records import author_of, video_of

HANDLE = Param(
    "handle",
    "The account's name.",
    "stoolpresidente",
    strip="@",
    fold=True,
    pattern=r"[\w.]{2,24}",
    problem="must be an account name, such as stoolpresidente",
    forms=(r"(?:m\.)?tiktok\.com/@([\w.]{2,24})/?",),
)
USER_ID = Param(
    "user_id",
    "The account's number.",
    "6659752019493208069",
    pattern=r"\d{5,20}",
    problem="must be a number, such as 6659752019493208069",
)
SORT = Param("sort_by", "Sort order.", "popular", default="latest", choices=("latest", "popular"))
REGION = Param(
    "region",
    "The country from which the list is requested (ISO 3166).",
    "GB",
    pattern=r"[A-Z]{2}",
    problem="must be a country code, such as GB",
)
ONE = (("handle", "user_id"),)
PROFILE = Get("/v1/tiktok/profile", handle=HANDLE, user_id=USER_ID)
VIDEOS = Get("/v3/tiktok/profile/videos", user_id=USER_ID, sort_by=SORT, region=REGION)
# The source sets the size of a page. A default call reads one page.
OLDER = ByToken("max_cursor", more="has_more", size="", size_max=10, size_default=10, empty_ends=True)
PAGES = Pages(video_of, OLDER, at="aweme_list")
_HANDLE = "h"
"""The key in a cursor for the account's name, which every page needs."""


def _videos(args: Args) -> Steps:
    """Read a page of videos. The call needs the account's name, so an account's number is looked up first."""
    handle = args.values.get("handle") or (args.cursor or {}).get(_HANDLE)
    if handle is None:
        found = yield PROFILE.at(args)
        handle = text(obj(obj(found.body).get("user")), "uniqueId")
        if not handle:
            raise NotFound
    page = PAGES.page(args, (yield VIDEOS.at(args, PAGES, handle=handle)))
    return page if page.next is None else replace(page, next={**page.next, _HANDLE: str(handle)})


PLATFORM = Platform(
    slug="tiktok",
    title="TikTok",
    category="social",
    sources={"partner": "@scrapecreators"},
    docs_url="https://developers.tiktok.com/doc/overview",
    terms_url="https://www.tiktok.com/legal/terms-of-service",
    checked_on="2026-11-28",
    hosts=("tiktok.com",),
    social=True,
    endpoints=(
        single(
            resource="profile",
            summary="One account.",
            archetype=AUTHOR,
            call=PROFILE,
            record=author_of,
            one_of=ONE,
            needs=("partner",),
        ),
        listing_by(
            resource="profile/videos",
            summary="An account's videos, newest first.",
            archetype=POST_LIST,
            read=_videos,
            pages=PAGES,
            params=(HANDLE, USER_ID, SORT, REGION),
            one_of=ONE,
            role="profile_posts",
            collect=50,
            newest={"sort_by": "latest"},
            needs=("partner",),
        ),
    ),
)
