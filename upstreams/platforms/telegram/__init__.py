"""Telegram: public channels and their posts, from t.me's preview pages; accounts and groups, from their cards."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, POST, POST_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.platforms.telegram import reads
from upstreams.platforms.telegram.records import message_of, profile_of

PLATFORM = Platform(
    slug="telegram",
    title="Telegram",
    category="social",
    docs_url="https://core.telegram.org/widgets",
    terms_url="https://telegram.org/tos",
    checked_on="2026-11-23",
    hosts=("t.me", "telegram.me"),
    sources={"preview": "https://t.me"},
    social=True,
    endpoints=(
        Endpoint(
            resource="profile",
            summary="One channel, group, bot or person.",
            archetype=AUTHOR,
            read=reads.profile,
            params=(reads.HANDLE,),
            record=profile_of,
        ),
        Endpoint(
            resource="profile/posts",
            summary="Posts in a public channel, newest first, 20 per page.",
            archetype=POST_LIST,
            read=reads.profile_posts,
            params=(reads.HANDLE,),
            description="Only channels have a public preview, and some disable it.",
            record=message_of,
            never=("total",),
        ),
        Endpoint(
            resource="post",
            summary="One post in a public channel.",
            archetype=POST,
            read=reads.post,
            params=(reads.POST_URL,),
            record=message_of,
        ),
    ),
)
