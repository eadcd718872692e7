"""Accounts on many platforms together: cards, voices, and all of one on one platform."""

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
    computed: Annotated[Record, Of(computed_record), "What is computed of it."],
) -> Record:
    """A row of a list of posts."""
    return locals()


def voiced(
    *,
    platform: Annotated[str, "The platform's slug."],
    post: Annotated[Record, Of(post_record), "The post."],
    computed: Annotated[Record, Of(computed_record), "What is computed of it."],
) -> Record:
    """A post in a timeline of many platforms."""
    return locals()


def voice_numbers(
    *,
    posts: Annotated[int, "Posts that were read."],
    cross_post_rate: Annotated[
        float | None, "The share of posts with words that stand on two platforms or more, in the same words."
    ],
    posts_per_week: Annotated[float | None, "How often they follow each other, all platforms together."],
    tone: Annotated[Record, Of(tones), "The tone of their words."],
) -> Record:
    """The numbers of an account's posts on many platforms."""
    return locals()


def voice(
    *,
    handle: Annotated[str, "The name as it was sent."],
    platform_presence: Annotated[Record, "Of each platform by its slug: true, false, or null where that is not known."],
    posts_by_platform: Annotated[
        Record, "The posts of each platform by its slug, `{post, computed}` each, newest first; null where none came."
    ],
    merged_timeline: Annotated[list[Record] | None, Of(voiced), "All of them, newest first."],
    computed: Annotated[Record | None, Of(voice_numbers), "What is computed of them."],
    has_more_by_platform: Annotated[Record, "Of each platform by its slug: whether there are older posts."],
    next_cursor: Annotated[str | None, "Send it back as `cursor`: the page after this of every platform."] = None,
) -> Record:
    """The posts of one name on many platforms."""
    return locals()


def card_totals(
    *,
    platforms: Annotated[int, "Platforms that it was found on."],
    followers: Annotated[int | None, "Followers on all of them that tell; null where none does."],
    following: Annotated[int | None, "Accounts that it follows, likewise."],
    posts_count: Annotated[int | None, "Posts, likewise."],
    likes_count: Annotated[int | None, "Likes received, or what comes closest, likewise."],
) -> Record:
    """The sums over an account's cards."""
    return locals()


def creator_card(
    *,
    handle: Annotated[str, "The name as it was sent."],
    cards: Annotated[
        Record | None, "The account on each platform by its slug; null where there is none, or it is not known."
    ],
    found_on: Annotated[list[str], "The slugs of the platforms that have it."],
    totals: Annotated[Record | None, Of(card_totals), "The sums over them."],
) -> Record:
    """One name on many platforms: the accounts and their sums."""
    return locals()


def time_window(
    *,
    begins_at: Annotated[Instant, "The oldest post in it."],
    ends_at: Annotated[Instant, "The newest."],
    days: Annotated[float | None, "The days between the two."],
    posts: Annotated[int, "Posts in it whose time is told."],
) -> Record:
    """The time that posts are from."""
    return locals()


def profile_numbers(
    *,
    average_engagement_rate: Annotated[
        float | None, "The mean of likes, comments and shares over views, or over followers where views are not told."
    ],
    posts_per_week: Annotated[float | None, "How often the posts follow each other."],
    window: Annotated[Record | None, Of(time_window), "The time that the posts are from."],
    top_post: Annotated[Record | None, Of(post_record), "The post with most likes, comments and shares together."],
    format_mix: Annotated[Record | None, "The share of each form that there is: video, image, link, text."],
) -> Record:
    """The numbers of an account and its recent posts."""
    return locals()


def profile_full(
    *,
    author: Annotated[Record | None, Of(author_record), "The account."],
    posts: Annotated[list[Record] | None, Of(post_row), "Its recent posts; null where they did not come."],
    computed: Annotated[Record | None, Of(profile_numbers), "What is computed of them; null likewise."],
    posts_cursor: Annotated[str | None, "Send it back as `cursor` for older posts."] = None,
) -> Record:
    """An account with its recent posts."""
    return locals()


VOICE = Archetype("Voice", "", voice, has_legs=True, cursor_at="next_cursor", findings=("posts_by_platform",))
CREATOR_CARD = Archetype("CreatorCard", "", creator_card, has_legs=True)
PROFILE_FULL = Archetype("ProfileFull", "", profile_full, has_legs=True, cursor_at="posts_cursor")
