"""TikTok's recordings as cases, compared with a table of the fields.

The recordings of the videos were trimmed to one row. Its `url` and `create_time_utc` belong to another video.

No endpoint uses `comments`, `followings`, `hashtags_popular`, `popular_creators`, `product`, `product_reviews`,
`search_hashtag`, `search_keyword`, `search_users`, `shop_search`, `video_transcript` and `video_v2`. The folder of the
supplier has recordings of many platforms: `supplier/v1_*`, `supplier/v2_*` and `supplier/v3_*`.
"""

from __future__ import annotations

from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import at, below, ident, rows, table, utc
from upstreams.model.archetypes import author, byline, post

_PROFILE = "api.scrapecreators.com/v1/tiktok/profile"
_VIDEOS = "api.scrapecreators.com/v3/tiktok/profile/videos"
AUTHOR = table(
    author,
    id=ident("user.id"),
    username="user.uniqueId",
    display_name="user.nickname",
    avatar_url="user.avatarLarger",
    bio="user.signature",
    verified="user.verified",
    followers="stats.followerCount",
    following="stats.followingCount",
    posts_count="stats.videoCount",
    likes_count="stats.heartCount",
    url=lambda row: f"https://www.tiktok.com/@{at(row, 'user.uniqueId')}",
    private="user.privateAccount",
    joined_at=utc("user.createTime"),
    external_url="user.bioLink.link",
    ext={"sec_uid": "user.secUid"},
)
BYLINE = table(
    byline,
    id=ident("uid"),
    username="unique_id",
    display_name="nickname",
    avatar_url=lambda row: at(row, "avatar_larger.url_list")[0],
    verified=lambda row: row["custom_verify"] != "",
    url=lambda row: f"https://www.tiktok.com/@{row['unique_id']}",
)
VIDEO = table(
    post,
    id=ident("aweme_id"),
    url=lambda row: f"https://www.tiktok.com/@{at(row, 'author.unique_id')}/video/{row['aweme_id']}",
    text="desc",
    author=below("author", BYLINE),
    thumbnail_url=lambda row: at(row, "video.cover.url_list")[0],
    duration_seconds=lambda row: round(at(row, "video.duration") / 1000),
    views="statistics.play_count",
    likes="statistics.digg_count",
    comments="statistics.comment_count",
    shares="statistics.share_count",
    saves="statistics.collect_count",
    pinned=lambda row: row["is_top"] == 1,
    deleted="status.is_delete",
    published_at=utc("create_time"),
    ext={"language": "desc_language", "region": "region", "music_id": ident("music.id_str")},
)


def account(**changed: Any) -> dict[str, Any]:
    """Return an account as the web shows it, with other members of `user`."""
    user = {
        "id": "70",
        "uniqueId": "ada",
        "nickname": "Ada",
        "avatarLarger": "https://example.org/ada.jpeg",
        "signature": "First programmer.",
        "createTime": 1_550_594_547,
        "verified": True,
        "privateAccount": False,
        "secUid": "MS4a",
        "bioLink": {"link": "https://example.org/ada"},
        **changed,
    }
    stats = {"followerCount": 41, "followingCount": 7, "heartCount": 190, "videoCount": 17}
    return {"success": True, "credits_remaining": 9, "credits_charged": 1, "user": user, "stats": stats}


def video(**changed: Any) -> dict[str, Any]:
    """Return a video as the app shows it, with other members."""
    return {
        "aweme_id": "747",
        "desc": "The engine weaves algebraic patterns.",
        "create_time": 1_739_470_683,
        "is_top": 1,
        "desc_language": "en",
        "region": "GB",
        "music": {"id_str": "748"},
        "status": {"is_delete": False},
        "statistics": {"play_count": 141, "digg_count": 18, "comment_count": 15, "share_count": 2, "collect_count": 3},
        "video": {"duration": 89_131, "cover": {"url_list": ["https://example.org/747.jpeg"]}},
        "author": {
            "uid": "70",
            "unique_id": "ada",
            "nickname": "Ada",
            "custom_verify": "Verified account",
            "avatar_larger": {"url_list": ["https://example.org/ada.jpeg"]},
        },
        **changed,
    }


def videos(*rows_: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Return a page of videos, which has another page after it unless `has_more` is changed."""
    cost = {"success": True, "credits_remaining": 9, "credits_charged": 1}
    return {**cost, "aweme_list": list(rows_), "has_more": 1, "max_cursor": 1_738_435_195_000, **changed}


CASES = (
    Case("an account", "profile", {"handle": "stoolpresidente"}, {_PROFILE: "supplier/v1_tiktok_profile.json"}, AUTHOR),
    Case("an earlier account", "profile", {"handle": "stoolpresidente"}, {_PROFILE: "profile.json"}, AUTHOR),
    Case(
        "earlier videos",
        "profile/videos",
        {"handle": "stoolpresidente", "limit": 1},
        {_VIDEOS: "profile_videos_v3.json"},
        rows("aweme_list", VIDEO),
        has_more=True,
    ),
    Case("an account with every member", "profile", {"handle": "ada"}, {_PROFILE: account()}, AUTHOR),
    Case(
        "videos",
        "profile/videos",
        {"handle": "stoolpresidente", "limit": 1},
        {_VIDEOS: "supplier/v3_tiktok_profile_videos.json"},
        rows("aweme_list", VIDEO),
        has_more=True,
    ),
    Case(
        "the last videos",
        "profile/videos",
        {"handle": "ada"},
        {_VIDEOS: videos(video(), video(aweme_id="746", is_top=0), has_more=0)},
        rows("aweme_list", VIDEO),
        has_more=False,
    ),
    Case(
        "videos of a number",
        "profile/videos",
        {"user_id": "70000", "limit": 1},
        {_PROFILE: account(), _VIDEOS: videos(video())},
        lambda _account, page: rows("aweme_list", VIDEO)(page),
        has_more=True,
    ),
)
