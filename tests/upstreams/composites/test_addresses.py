"""The table next to this file says where URLs lead, or with which message they are refused (decisions 14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from upstreams.composites.addresses import Addresses, Resolution
from upstreams.model.archetypes import ARCHETYPES, LOOKUP
from upstreams.model.archetypes.shape import fields_of
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.roles import Role
from upstreams.platforms import load_platforms

PLATFORMS = load_platforms()
OF_TABLE = (
    *("app_store", "bluesky", "discourse", "github", "gitlab", "hackernews", "lemmy", "mastodon", "peertube"),
    *("podcasts", "stackexchange", "steam", "telegram", "wikipedia", "youtube"),
)
"""The platforms that the table covers. Later platforms may also accept URLs on any host."""
ADDRESSES = Addresses(one for one in PLATFORMS if one.slug in OF_TABLE)


def _rows(name: str) -> list[tuple[str, str]]:
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    return [
        (row[0], row[2]) for line in lines if " => " in line and (row := line.rpartition(" => ")) and line[0] != "#"
    ]


TABLE, COMMENTS = _rows("addresses.txt"), _rows("comments.txt")


def _describe(found: Resolution) -> str:
    targets = (
        " ".join((f"{platform.slug}/{endpoint.resource}", *(f"{name}={values[name]}" for name in sorted(values))))
        for platform, endpoint, values in found.destinations
    )
    return " | ".join(targets) or "page"


@pytest.mark.parametrize(
    ("role", "address", "expected"),
    [(None, *row) for row in TABLE] + [("comment", *row) for row in COMMENTS],
    ids=[address for address, _ in (*TABLE, *COMMENTS)],
)
def test_url_resolves_as_in_the_table(role: Role | None, address: str, expected: str) -> None:
    if expected.startswith("! "):
        with pytest.raises(InvalidArgument) as refusal:
            ADDRESSES.find(address, role)
        assert refusal.value.param == "url"
        assert expected[2:] in str(refusal.value)
    else:
        assert _describe(ADDRESSES.find(address, role)) == expected


def test_table_has_at_least_300_unique_urls() -> None:
    assert len(TABLE) >= 300
    assert len({address for address, _ in TABLE}) == len(TABLE)


KINDS: Mapping[str, tuple[str, int]] = {
    "mobile hosts": (r"^(?:https?://)?(?:m|[a-z]{2}\.m|mobile|music)\.", 4),
    "tracking": (r"[?&](?:utm_\w+|ref|ref_src|si|feature|fbclid|wprov|noredirect|mt|uo|curator_clanid)=", 20),
    "without a scheme": (r"^(?!https?:)[a-z0-9.]+\.[a-z]+/", 8),
    "other languages": (r"//(?:de|ja|ru|fr|zh|pt)\.|/(?:de|jp)/|l=german", 12),
    "letters that are no ASCII": (r"[^\x00-\x7f]|%[C-E]\d%|xn--", 8),
    "trailing junk": (r"[.,;:!?\u2026)\]\u00bb\"`>]+$", 12),
    "look-alike hosts": (
        r"evil-site|y0utube|stack0verflow|notgithub|github\.co/|bsky\.appx|\u0456|tt\.me|-ycombinator",
        20,
    ),
    "ports and user names": (r":\d+/|@[\w.]+/", 8),
}
"""Patterns of URLs, with the minimum number of each kind in the table. Short links are recognized by their refusal."""


@pytest.mark.parametrize("kind", KINDS)
def test_table_covers_every_kind(kind: str) -> None:
    pattern, least = KINDS[kind]
    assert sum(re.search(pattern, address, re.IGNORECASE) is not None for address, _ in TABLE) >= least


def test_table_has_at_least_20_short_links() -> None:
    assert sum("short link of" in expected for _, expected in TABLE) >= 20


@pytest.mark.parametrize("address", [address for address, expected in TABLE if not expected.startswith("! ")])
def test_resolved_params_and_url_lead_to_the_same_record(address: str) -> None:
    """Goal: `resolved.params` can be sent back. Method: parse them as values of a request and as canonical values."""
    found = ADDRESSES.find(address)
    for target in found.destinations:
        assert {
            k: v for k, v in target.endpoint.canonical(target.values).items() if k in target.values
        } == target.values
    again = ADDRESSES.find(found.url)
    assert (again.url, _describe(again)) == (found.url, _describe(found))


FIRST = ("post", "app", "collection", "repository", "article", "author", "comment")


def test_every_kind_of_single_record_can_be_looked_up() -> None:
    keys = {
        one.archetype.key
        for platform in PLATFORMS
        for one in platform.endpoints
        if one.archetype.key and not one.archetype.many
    }
    known = {one.key for one in ARCHETYPES.values() if one.lookup_rank}
    assert keys - {"analytics", "series"} <= known, "a time series has no address"
    assert known <= {field.name for field in fields_of(LOOKUP.make)}


def test_post_is_meant_before_its_author_and_a_comment_after_its_post() -> None:
    """Goal: the order of the first kinds never changes. A post's URL also contains its author."""
    ranks = {one.key: one.lookup_rank for one in ARCHETYPES.values() if one.lookup_rank}
    assert sorted(FIRST, key=lambda key: ranks[key]) == list(FIRST)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.slug)
def test_declared_url_forms_match_endpoints_and_parameters(platform: Platform) -> None:
    for one in platform.address_forms:
        endpoint = next(each for each in platform.endpoints if each.resource == one.resource)
        names = {param.name for param in endpoint.params}
        assert {name.split(">")[0] for name in one.form.split("(?P<")[1:]} <= names


def test_every_lookup_target_has_the_standard_tier() -> None:
    """Goal: lookup costs as much as its target (decisions 14).

    If targets had different tiers, it would need several prices.
    """
    tiers = {one.tier for platform in PLATFORMS for one in platform.endpoints if one.archetype.lookup_rank}
    assert tiers == {"standard"}
