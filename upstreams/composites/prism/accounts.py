"""One username on many platforms: the accounts, read in parallel, and their posts (decisions 18)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from upstreams.composites.legs import (
    Settled,
    attempt,
    check_any,
    gather,
    joined_states,
    legs_of,
    named,
    part_of,
    states_of,
)
from upstreams.composites.params import chosen
from upstreams.composites.prism.insight.tone import summed, tone_of
from upstreams.composites.signals import moments_of, posts_per_week, rounded
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.accounts import card_totals, creator_card, voice, voice_numbers, voiced
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args, Value
from upstreams.model.steps import Part, Single, Steps

FREE_PLATFORMS: Final = 4
"""The number of platforms that the base price of five credits includes."""
_POSTS_PER_PLATFORM: Final = 25
"""The number of posts that a page of the merged timeline contains for each platform."""
_WORDS_MIN: Final = 20
"""The minimum length of a post, in characters, for detecting the same post on another platform."""
_WORDS_MAX: Final = 100
_ADDRESS: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_NO_LETTER: Final = re.compile(r"\W+")


def price_span(served: Sequence[Platform], values: Mapping[str, Value]) -> tuple[int, int]:
    """Return the range of the price: five credits, and one more for each served platform after the fourth."""
    named_here = {one.slug for one in served}.intersection(str(values["platforms"]).split(","))
    credits_ = 5 + max(0, len(named_here) - FREE_PLATFORMS)
    return credits_, credits_


def profile_part(platform: Platform, handle: str, within_s: float = 10.0) -> Part:
    """Return the part that reads a username's account on a platform."""
    return part_of(platform, "profile", named(platform, "profile", handle), within_s=within_s)


def of_slugs(platforms: Iterable[Platform], slugs: Sequence[str]) -> list[Platform]:
    """Return the platforms with these slugs, in the order of the slugs."""
    by_slug = {one.slug: one for one in platforms}
    return [by_slug[slug] for slug in slugs]


def make_card(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return the cards of a username, one per platform."""
    wanted = of_slugs(platforms, args.text("platforms").split(","))
    settled = yield from gather([profile_part(one, args.text("handle")) for one in wanted])
    cards = {leg.platform: leg.record for leg in settled}
    found = [card for card in cards.values() if card is not None]
    include = chosen(args, "include", ("cards", "totals"))
    record = creator_card(
        handle=args.text("handle"),
        cards=cards if "cards" in include else None,
        found_on=[slug for slug, card in cards.items() if card is not None],
        totals=_totals(found) if "totals" in include else None,
    )
    return Single(record, legs=legs_of(settled))


def _totals(cards: Sequence[Record]) -> Record:
    def total(name: str) -> int | None:
        known = [card[name] for card in cards if card[name] is not None]
        return sum(known) if known else None

    return card_totals(
        platforms=len(cards),
        followers=total("followers"),
        following=total("following"),
        posts_count=total("posts_count"),
        likes_count=total("likes_count"),
    )


def read_voice(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return a page of the posts by a username on these platforms."""
    states = states_of(args.cursor)
    wanted = of_slugs(platforms, chosen(args, "platforms", [one.slug for one in platforms]))
    parts = [
        part_of(
            one,
            "profile_posts",
            named(one, "profile_posts", args.text("handle")),
            rows=_POSTS_PER_PLATFORM,
            cursor=None if states is None else states[one.slug],
        )
        for one in wanted
        if states is None or one.slug in states
    ]
    settled = yield from attempt(parts)
    check_any(settled)
    rows = {leg.platform: POST_LIST.rows(_newest_first(leg.records), []) if leg.answer else None for leg in settled}
    timeline = [
        voiced(platform=slug, post=row["post"], computed=row["computed"])
        for slug, of_platform in rows.items()
        for row in of_platform or ()
    ]
    timeline.sort(key=lambda row: row["post"]["published_at"] or "", reverse=True)
    include = chosen(args, "include", ("posts_by_platform", "merged_timeline", "computed"))
    record = voice(
        handle=args.text("handle"),
        platform_presence={leg.platform: _has(leg) for leg in settled},
        posts_by_platform=rows,
        merged_timeline=timeline if "merged_timeline" in include else None,
        computed=_numbers(timeline) if "computed" in include else None,
        has_more_by_platform={leg.platform: leg.next is not None for leg in settled},
    )
    return Single(record, legs=legs_of(settled), next=joined_states(settled))


def _newest_first(posts: list[Record]) -> list[Record]:
    """Return the posts newest first, because some platforms list pinned posts before newer ones."""
    return sorted(posts, key=lambda post: post["published_at"] or "", reverse=True)


def _has(leg: Settled) -> bool | None:
    if leg.answer:
        return True
    return False if leg.is_absent else None


def _numbers(timeline: Sequence[Record]) -> Record:
    posts = [row["post"] for row in timeline]
    return voice_numbers(
        posts=len(posts),
        cross_post_rate=rounded(cross_post_rate(timeline)),
        posts_per_week=rounded(posts_per_week(posts), 2) if moments_of(posts) else None,
        tone=summed(tone_of(row["post"]["content"]["text"], row["computed"]["language"]) for row in timeline),
    )


def cross_post_rate(timeline: Sequence[Record]) -> float | None:
    """Return the share of posts that appear on two or more platforms, or None if no post is long enough.

    Two posts are the same if their first hundred characters match, ignoring URLs, punctuation and case.
    """
    places: dict[str, list[str]] = {}
    for row in timeline:
        words = _NO_LETTER.sub("", _ADDRESS.sub("", row["post"]["content"]["text"] or "")).casefold()
        if len(words) >= _WORDS_MIN:
            places.setdefault(words[:_WORDS_MAX], []).append(row["platform"])
    total = sum(map(len, places.values()))
    return sum(len(slugs) for slugs in places.values() if len(set(slugs)) > 1) / total if total else None
