"""Accounts across platforms: cards, merged timelines, and a full profile on one platform."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.insight.words import tones
from upstreams.model.archetypes.people import author as author_record
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record
from upstreams.model.archetypes.shape import computed as computed_record


def post_row(
    *,
    post: Annotated[Record, Of(post_record), "The post."],
    computed: Annotated[Record, Of(computed_record), "Fields computed from the post."],
) -> Record:
    """A row in a list of posts."""
    return locals()


def voiced(
    *,
    platform: Annotated[str, "The platform's slug."],
    post: Annotated[Record, Of(post_record), "The post."],
    computed: Annotated[Record, Of(computed_record), "Fields computed from the post."],
) -> Record:
    """A post in a timeline merged from several platforms."""
    return locals()


def voice_numbers(
    *,
    posts: Annotated[int, "Posts that were read."],
    cross_post_rate: Annotated[
        float | None, "The share of posts that appear on two or more platforms; null if no post is long enough."
    ],
    posts_per_week: Annotated[float | None, "Posts per week, over all platforms."],
    tone: Annotated[Record, Of(tones), "The tone of the posts."],
) -> Record:
    """Statistics about an account's posts across platforms."""
    return locals()


def voice(
    *,
    handle: Annotated[str, "The name as sent in the request."],
    platform_presence: Annotated[
        Record, ("Whether each platform, by slug, has the account: true, false, or null if unknown.")
    ],
    posts_by_platform: Annotated[
        Record,
        (
            "The posts by platform slug, newest first, each as `{post, computed}`; null for a platform without an "
            "answer."
        ),
    ],
    merged_timeline: Annotated[list[Record] | None, Of(voiced), "The posts of all platforms, newest first."],
    computed: Annotated[Record | None, Of(voice_numbers), "Statistics on the posts."],
    has_more_by_platform: Annotated[Record, "Whether each platform, by slug, has older posts."],
    next_cursor: Annotated[str | None, "Send this as `cursor` to get the next page of every platform."] = None,
) -> Record:
    """The posts by one username across platforms."""
    return locals()


def card_totals(
    *,
    platforms: Annotated[int, "Platforms that have the account."],
    followers: Annotated[int | None, "Total followers across platforms; null if no platform reports them."],
    following: Annotated[int | None, "Total followed accounts across platforms; null if no platform reports them."],
    posts_count: Annotated[int | None, "Total posts across platforms; null if no platform reports them."],
    likes_count: Annotated[
        int | None,
        ("Total likes received, or the closest equivalent, across platforms; null if none is reported."),
    ],
) -> Record:
    """Totals over an account's cards on all platforms."""
    return locals()


def creator_card(
    *,
    handle: Annotated[str, "The name as sent in the request."],
    cards: Annotated[
        Record | None, "The account by platform slug; null if the platform does not have it, or if that is unknown."
    ],
    found_on: Annotated[list[str], "Slugs of the platforms that have the account."],
    totals: Annotated[Record | None, Of(card_totals), "Totals over the cards."],
) -> Record:
    """One username on several platforms: the accounts and their totals."""
    return locals()


def time_window(
    *,
    begins_at: Annotated[Instant, "Time of the oldest post in the window."],
    ends_at: Annotated[Instant, "Time of the newest post in the window."],
    days: Annotated[float | None, "Days between the oldest and the newest post."],
    posts: Annotated[int, "Posts in the window that have a date."],
) -> Record:
    """The period that the posts cover."""
    return locals()


def profile_numbers(
    *,
    average_engagement_rate: Annotated[
        float | None, "Mean of likes, comments and shares divided by views, or by followers if views are unknown."
    ],
    posts_per_week: Annotated[float | None, "Posts per week."],
    window: Annotated[Record | None, Of(time_window), "The period that the posts cover."],
    top_post: Annotated[
        Record | None, Of(post_record), ("The post with the highest total of likes, comments and shares.")
    ],
    format_mix: Annotated[Record | None, "The share of each format that occurs: video, image, link, text."],
) -> Record:
    """Statistics about an account and its recent posts."""
    return locals()


def profile_full(
    *,
    author: Annotated[Record | None, Of(author_record), "The account."],
    posts: Annotated[list[Record] | None, Of(post_row), "Recent posts; null if not requested or not readable."],
    computed: Annotated[
        Record | None, Of(profile_numbers), ("Statistics on the posts; null if not requested or not readable.")
    ],
    posts_cursor: Annotated[str | None, "Send this as `cursor` to get older posts."] = None,
) -> Record:
    """An account with its recent posts."""
    return locals()


VOICE = Archetype("Voice", "", voice, has_legs=True, cursor_at="next_cursor", findings=("posts_by_platform",))
CREATOR_CARD = Archetype("CreatorCard", "", creator_card, has_legs=True)
PROFILE_FULL = Archetype("ProfileFull", "", profile_full, has_legs=True, cursor_at="posts_cursor")
ARCHETYPES = (VOICE, CREATOR_CARD, PROFILE_FULL)
