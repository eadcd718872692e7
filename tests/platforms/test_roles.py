"""The contract of each role, checked for all platforms.

Composites that are declared over roles rely on it (decisions 18).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.gathering import GatheredFailures
from tests.platforms.each import every_platform
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.roles import ARCHETYPE_OF, CONTRACTS, Role, casting
from upstreams.platforms import load_platforms


def _names(endpoint: Endpoint) -> set[str]:
    return {param.name for param in endpoint.params}


def _spelled(endpoint: Endpoint, names: tuple[str, ...]) -> dict[str, object]:
    return {one.name: (one.forms, one.example_value) for one in endpoint.params if one.name in names}


@every_platform
def test_endpoints_with_a_role_keep_its_contract(platform: Platform) -> None:
    failures = GatheredFailures()
    for role in CONTRACTS:
        endpoint = platform.playing(role)
        if endpoint is not None:
            with failures.case(f"{platform.slug}/{endpoint.resource} as {role}"):
                check_contract(platform, role, endpoint)
    failures.report()


def check_contract(platform: Platform, role: Role, endpoint: Endpoint) -> None:
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


@every_platform
def test_inferred_role_is_not_declared(platform: Platform) -> None:
    declared = [one for one in platform.endpoints if one.role is not None]
    assert len({one.role for one in declared}) == len(declared)
    for endpoint in declared:
        assert endpoint.role is not None
        silent = replace(endpoint, role=None)
        others = (silent if one is endpoint else one for one in platform.endpoints)
        assert casting(tuple(others)).get(endpoint.role) is not silent


def test_contracts_are_really_checked() -> None:
    played = {role for role in CONTRACTS if any(one.playing(role) for one in load_platforms())}
    assert played >= {"profile", "profile_posts", "post", "comments", "comment", "search", "app", "repository"}


@pytest.mark.parametrize("role", [role for role, one in CONTRACTS.items() if not one.resource])
def test_role_for_any_resource_has_one_candidate_per_platform(role: Role) -> None:
    for platform in load_platforms():
        fitting = [one.resource for one in platform.endpoints if one.archetype == ARCHETYPE_OF[role]]
        assert len(fitting) <= 1 or any(one.role == role for one in platform.endpoints), (platform.slug, fitting)


def test_newest_first_values_are_accepted() -> None:
    platforms = load_platforms()
    found = [(platform.slug, one) for platform in platforms for one in platform.endpoints if one.newest is not None]
    assert {slug for slug, _ in found} >= {"bluesky", "github", "hackernews", "stackexchange"}
    for _, one in found:
        params = {param.name: param for param in one.params}
        assert all(value in params[name].choices for name, value in (one.newest or {}).items())
