"""The endpoints for one username on many platforms: its cards, its audit and its merged timeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from upstreams.composites.legs import playing, with_missing
from upstreams.composites.params import Several, several
from upstreams.composites.prism.accounts import make_card, price_span, read_voice
from upstreams.composites.prism.audit import MEMBERS, audit
from upstreams.model.archetypes.accounts import CREATOR_CARD, VOICE
from upstreams.model.archetypes.audit import HANDLE_AUDIT
from upstreams.model.endpoint import Endpoint, Platform, PriceRange
from upstreams.model.params import Param

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstreams.model.roles import Role

HANDLE: Final = Param(
    "handle",
    "The account's name. For a single platform, its URL also works.",
    "Gargron",
    required=True,
    strip="@",
    length_max=300,
)
_SAMPLE: Final = Param(
    "sample", "Recent posts per platform, 1 to 25.", "10", "integer", default=10, minimum=1, maximum=25
)
_USUAL: Final = ("bluesky", "github", "mastodon", "youtube")
"""The platforms that a card includes if the request names none."""
_TIMELINE_PLATFORMS: Final = ("threads", "truthsocial", "twitter")
_ALWAYS_NAMED: Final = ("instagram", "tiktok", *_TIMELINE_PLATFORMS)
"""Platforms that a request may name even if the node does not serve them. Their legs report this and are free."""
_UNSUPPORTED: Final = (
    "requires deciding whether accounts with one name belong to one person, which this endpoint does not do; a "
    "discover run with view=accounts rates how well each account matches the name"
)
_EXTRA: Final = "5, plus 1 for each platform above 4."


def of_names(platforms: tuple[Platform, ...]) -> tuple[Endpoint, ...]:
    """Return the endpoints over these platforms."""
    known = with_missing((one for one in playing(platforms, "profile") if _takes_names(one, "profile")), _ALWAYS_NAMED)
    able = (one for one in playing(known, "profile_posts") if _takes_names(one, "profile_posts"))
    with_timeline = with_missing(able, _TIMELINE_PLATFORMS)
    return _creator_card(known), _handle_audit(known), _voice(with_timeline)


def _takes_names(platform: Platform, role: Role) -> bool:
    endpoint = platform.playing(role)
    return endpoint is not None and "handle" in endpoint.named_by


def _platforms(known: Sequence[Platform], said: str = "Slugs") -> Several:
    """Return the parameter for platforms. By default, it means the usual four."""
    slugs = [one.slug for one in known]
    usual = ",".join(slug for slug in _USUAL if slug in slugs) or ",".join(slugs[:4])
    return several("platforms", f"{said}, separated by commas (default: {usual}).", slugs, default=usual)


def _creator_card(known: Sequence[Platform]) -> Endpoint:
    served = playing(known, "profile")
    most = 5 + max(0, len(served) - 4)
    include = several("include", "Parts to return (default: both).", ("cards", "totals"))
    return Endpoint(
        resource="creator-card",
        summary="The accounts with one username on many platforms, with totals.",
        archetype=CREATOR_CARD,
        read=partial(make_card, known),
        params=(HANDLE, _platforms(known), include),
        lacks=dict.fromkeys(("verify", "anchor"), _UNSUPPORTED),
        price=PriceRange(5, most, _EXTRA, partial(price_span, served)),
        cache_ttl_s=900,
    )


def _handle_audit(known: Sequence[Platform]) -> Endpoint:
    return Endpoint(
        resource="handle-audit",
        summary="Score the public activity of a username on many platforms, and recommend whether to collect it.",
        archetype=HANDLE_AUDIT,
        read=partial(audit, known),
        params=(HANDLE, _platforms(known, f"Up to {MEMBERS} slugs"), _SAMPLE),
        price=PriceRange(5, 5 + MEMBERS - 4, _EXTRA, partial(price_span, playing(known, "profile"))),
        cache_ttl_s=1_800,
    )


def _voice(with_timeline: Sequence[Platform]) -> Endpoint:
    slugs = [one.slug for one in with_timeline]
    parts = ("posts_by_platform", "merged_timeline", "computed")
    return Endpoint(
        resource="voice",
        summary="Posts by one username on many platforms.",
        archetype=VOICE,
        read=partial(read_voice, with_timeline),
        params=(
            HANDLE,
            several("platforms", "Comma-separated slugs (default: all).", slugs),
            several("include", "Parts to return (default: all).", parts),
        ),
        tier="advanced",
        cache_ttl_s=600,
    )
