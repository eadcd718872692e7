"""The contract of each role, checked for all platforms.

Composites that are declared over roles rely on it (decisions 18).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.roles import ARCHETYPE_OF, CONTRACTS, Role
from upstreams.platforms import load_platforms

PLAYED = """
app_store      app=app-info app_reviews=app-reviews app_search=app-search
bluesky        profile profile_posts=user/posts post comments=post/comments comment search
discourse      profile profile_posts=profile/posts post comments=post/comments comment search
github         profile post=issue comments=issue/comments comment search repository=repo
               repositories=profile/repos repository_search=search/repos dossier=repo/dossier
gitlab         profile post=issue comments=issue/comments comment repository=repo repositories=profile/repos
               repository_search=search
hackernews     profile post=story comments=story/comments comment search
lemmy          profile profile_posts=profile/posts post comments=post/comments comment search
mastodon       profile profile_posts=profile/posts post comments=post/comments comment search
peertube       profile profile_posts=profile/posts post=video comments=video/comments comment=video/comment search
               transcript=video/transcript
stackexchange  profile profile_posts=profile/posts post=question comments=question/answers comment=answer search
steam          app app_reviews=app/reviews app_search=search
telegram       profile profile_posts=profile/posts post
youtube        profile=channel profile_posts=channel/videos post=video comments=video/comments comment=video/comment
               search
"""
"""The roles of the first platforms, with the resource if its name differs from the role.

Later platforms need no row here, because the contracts below are checked for every platform.
"""

PLATFORMS = load_platforms()
PLAYERS = [
    (platform, role, endpoint)
    for platform in PLATFORMS
    for role in CONTRACTS
    if (endpoint := platform.playing(role)) is not None
]


def _names(endpoint: Endpoint) -> set[str]:
    return {param.name for param in endpoint.params}


def _spelled(endpoint: Endpoint, names: tuple[str, ...]) -> dict[str, object]:
    return {one.name: (one.forms, one.example_value) for one in endpoint.params if one.name in names}


@pytest.mark.parametrize("row", PLAYED.replace("\n    ", "").strip().splitlines(), ids=lambda row: row.split()[0])
def test_platform_roles_match_the_table(row: str) -> None:
    slug, *told = row.split()
    platform = next(one for one in PLATFORMS if one.slug == slug)
    expected = {role: resource or role for role, _, resource in (one.partition("=") for one in told)}
    if slug in ("peertube", "youtube"):
        expected["replies"] = "video/comment/replies"
    assert {role: one.resource for role in CONTRACTS if (one := platform.playing(role))} == expected


@pytest.mark.parametrize(
    ("platform", "role", "endpoint"), PLAYERS, ids=[f"{one.slug}-{role}" for one, role, _ in PLAYERS]
)
def test_endpoint_with_a_role_keeps_its_contract(platform: Platform, role: Role, endpoint: Endpoint) -> None:
    contract = CONTRACTS[role]
    assert endpoint.archetype == ARCHETYPE_OF[role]
    assert set(contract.takes) <= _names(endpoint)
    whole = contract.of and platform.playing(contract.of)
    if whole is not None:
        assert _spelled(endpoint, whole.named_by) == _spelled(whole, whole.named_by), "both accept the same subject"
    if role != "search":
        assert endpoint.named_by, "the caller must name the subject"
    due = {param.name for param in endpoint.params if param.required}
    if role == "replies":
        due -= set(next(((one,) for one in sorted(due) if one not in endpoint.named_by), ()))  # the comment's own id
    assert due <= {*endpoint.named_by, *contract.takes}, "it must not have other required parameters"


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.slug)
def test_inferred_role_is_not_declared(platform: Platform) -> None:
    declared = [one for one in platform.endpoints if one.role is not None]
    assert len({one.role for one in declared}) == len(declared)
    for endpoint in declared:
        assert endpoint.role is not None
        silent = tuple(replace(one, role=None) if one is endpoint else one for one in platform.endpoints)
        assert replace(platform, common=(), endpoints=silent).playing(endpoint.role) != replace(endpoint, role=None)


@pytest.mark.parametrize("role", [role for role, one in CONTRACTS.items() if not one.resource])
def test_role_for_any_resource_has_one_candidate_per_platform(role: Role) -> None:
    for platform in PLATFORMS:
        fitting = [one.resource for one in platform.endpoints if one.archetype == ARCHETYPE_OF[role]]
        assert len(fitting) <= 1 or any(one.role == role for one in platform.endpoints), (platform.slug, fitting)


def test_newest_first_values_are_accepted() -> None:
    found = [(platform.slug, one) for platform in PLATFORMS for one in platform.endpoints if one.newest is not None]
    assert {slug for slug, _ in found} >= {"bluesky", "github", "hackernews", "stackexchange"}
    for _, one in found:
        params = {param.name: param for param in one.params}
        assert all(value in params[name].choices for name, value in (one.newest or {}).items())
