"""Telegram: public channels and their posts, from t.me's preview pages; accounts and groups, from their cards."""

from __future__ import annotations

from upstreams.model.archetypes import AUTHOR, POST, POST_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.platforms.telegram import reads
from upstreams.platforms.telegram.records import message_of, profile_of

PLATFORM = Platform(
    slug="telegram",
    hosts=("t.me", "telegram.me"),
    title="Telegram",
    sources={"preview": "https://t.me"},
    docs_url="https://core.telegram.org/widgets",
    social=True,
    endpoints=(
        Endpoint(
            "profile",
            "One channel, group, bot or person.",
            AUTHOR,
            reads.profile,
            (reads.HANDLE,),
            record=profile_of,
        ),
        Endpoint(
            "profile/posts",
            "Posts in a public channel, newest first, 20 per page.",
            POST_LIST,
            reads.profile_posts,
            (reads.HANDLE,),
            description="Only channels have a public preview, and some disable it.",
            record=message_of,
            never=("total",),
        ),
        Endpoint("post", "One post in a public channel.", POST, reads.post, (reads.POST_URL,), record=message_of),
    ),
)
