"""All spellings of a request share one cache entry, one charge and their cursors (decisions 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway.calls.request import cache_key
from gateway.http.errors import Refused
from gateway.http.params import declared_by
from tests.fakes.gathering import GatheredFailures
from tests.fakes.node import OpenNode, open_test_node
from tests.gate.matrix import sample_platforms
from tests.platforms.bench import PATIENCE_S, unhurried
from tests.platforms.each import check_endpoints, every_platform
from tests.spec.rows import ENVIRON, OF_PLATFORMS
from upstreams.catalog import Listing
from upstreams.fetching.site import Site
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Param
from upstreams.platforms import load_platforms
from upstreams.sandbox.rehearse import example_values

SPELLED: Mapping[str, tuple[tuple[str, str, str], ...]] = MappingProxyType(
    {
        "github/repo": (
            ("url", "python-trio/trio", "https://github.com/Python-Trio/Trio"),
            ("url", "python-trio/trio", "git@github.com:python-trio/trio.git"),
            ("url", "python-trio/trio", "ssh://git@github.com/python-trio/trio.git"),
            ("url", "python-trio/trio", "github.com/python-trio/trio/tree/main/docs?plain=1#top"),
        ),
        "github/issue": (
            ("url", "python-trio/trio#1", "https://github.com/python-trio/trio/issues/1#issuecomment-5"),
            ("url", "python-trio/trio#1", "https://github.com/python-trio/trio/pull/1/files"),
        ),
        "github/profile": (("handle", "octocat", "https://github.com/Octocat/"),),
        "hackernews/story": (("id", "8863", "https://news.ycombinator.com/item?id=8863"),),
        "stackexchange/question": (
            ("id", "11227809", "https://stackoverflow.com/questions/11227809/why-is-it-faster"),
        ),
        "bluesky/profile": (
            ("handle", "bsky.app", "https://bsky.app/profile/bsky.app?ref=x"),
            ("user_id", "plc:ada", "did:plc:ada"),
        ),
        "bluesky/post": (
            ("url", "at://bsky.app/app.bsky.feed.post/3lada", "https://bsky.app/profile/bsky.app/post/3lada/liked-by"),
        ),
    }
)
"""Spellings that only a platform knows, in addition to those that each declaration implies."""


ROOMY = {"requests_per_minute": 100_000}


def listings() -> Iterator[Listing]:
    for platform in load_platforms():
        for endpoint in platform.endpoints:
            yield listing(platform, endpoint)


def listing(platform: Platform, endpoint: Endpoint) -> Listing:
    site: Site = None  # type: ignore[assignment] - the cache's key needs none
    name = f"{platform.slug}/{endpoint.resource}"
    return Listing(name, f"/v1/{name}", site, endpoint, available=True)


def spellings(param: Param) -> Iterator[str]:
    """Yield other spellings of a parameter's example that its declaration implies."""
    value = str(param.example_value)
    yield from (value, f"  {value}\n", f"\u00a0{value} ")
    if param.type == "integer":
        return
    yield param.example
    if param.strip:
        yield f"{param.strip}{value}"
    if param.fold:
        yield value.upper()
        yield f" {param.strip}{value.title()}"
    if param.forms and "://" in param.example and "?" not in param.example:
        rest = param.example.partition("://")[2]
        yield from (
            rest,
            f"http://www.{rest}/",
            f"HTTPS://{rest}",
            f"{param.example}?utm_source=x",
            f"{param.example}#top",
        )


def keys_of(listing: Listing, name: str, texts: Iterator[str] | tuple[str, ...]) -> list[bytes]:
    """Return the cache keys of the example request, with each of these texts as the value of one parameter."""
    values = {one: str(value) for one, value in example_values(listing.endpoint).items()}
    for group in listing.endpoint.one_of:
        if name in group:
            values = {one: value for one, value in values.items() if one not in group}
    rules = declared_by(listing.endpoint)
    return [cache_key(listing, rules.read({**values, name: text}.items())) for text in texts]


@every_platform
def test_example_spellings_share_a_cache_entry_and_blank_values_are_refused(platform: Platform) -> None:
    check_endpoints(platform, check_spellings)


def check_spellings(platform: Platform, endpoint: Endpoint) -> None:
    asked = listing(platform, endpoint)
    for param in endpoint.params:
        if param.type not in ("string", "url") or param.choices:
            continue
        keys = keys_of(asked, param.name, spellings(param))
        assert len(set(keys)) == 1, (param.name, keys)
        if param.required:
            with pytest.raises(Refused):
                keys_of(asked, param.name, (" \t ",))


@pytest.mark.parametrize(
    ("id_", "name", "one", "other"), [(id_, *spelled) for id_, several in SPELLED.items() for spelled in several]
)
def test_platform_specific_spellings_share_a_cache_entry(id_: str, name: str, one: str, other: str) -> None:
    found = next(found for found in listings() if found.id == id_)
    assert len(set(keys_of(found, name, (one, other)))) == 1


def respelled(listing: Listing, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same request, with the last other spelling of each value."""
    other = dict(values)
    for param in listing.endpoint.params:
        is_text = param.type in ("string", "url") and not param.choices
        if is_text and other.get(param.name) == param.example_value:
            other[param.name] = [*spellings(param)][-1]
    return other


async def test_spellings_share_charge_and_cursors(tmp_path: Path) -> None:
    """Goal: spellings also share charges and cursors in a whole node.

    Method: two spellings of the request and of its next page, for a sixth of the endpoints (`tests.gate.matrix`).
    """
    platforms = tuple(map(unhurried, load_platforms()))
    upstreams, followed = {**OF_PLATFORMS, "defaults": {"retries": 0}}, 0
    pairs = [(platform, endpoint) for platform in platforms for endpoint in platform.endpoints]
    chosen = sample_platforms(pairs, lambda pair: pair[0].slug)
    failures = GatheredFailures()
    async with open_test_node(
        tmp_path, environ=ENVIRON, only=platforms, upstreams=upstreams, limits=ROOMY, patience_s=PATIENCE_S
    ) as node:
        for platform, endpoint in chosen:
            with failures.case(f"{platform.slug}/{endpoint.resource}"):
                asked = listing(platform, endpoint)
                values = example_values(endpoint) | ({"limit": 3} if "limit" in example_values(endpoint) else {})
                first = await two_spellings(node, asked, values)
                cursor = (first.get("pagination") or {}).get("next_cursor")
                if cursor is not None:
                    await two_spellings(node, asked, values, cursor=cursor)
                    followed += 1
        await node.assert_sound()
    failures.report()
    assert followed >= sum(endpoint.archetype.many for _, endpoint in chosen) / 3


async def two_spellings(node: OpenNode, asked: Listing, values: dict[str, Any], **more: str) -> dict[str, Any]:
    """Return the answer to one spelling, and check that the other spelling is served from the cache for free."""
    one, other = ({**values, **more}, {**respelled(asked, values), **more})
    first = await node.get(f"{asked.path}?{urlencode(one)}")
    assert first.status == 200, (asked.id, first.json)
    is_empty = first.json["data"].get("items") == []
    assert (first.json["credits_used"] > 0) is not is_empty, asked.id
    again = await node.get(f"{asked.path}?{urlencode(other)}")
    if "_warnings" not in first.json["data"]:  # answers of this endpoint are not cached
        assert (again.json["credits_used"], again.headers["x-cache"]) == (0, "HIT"), (asked.id, other)
    assert again.json["data"] == first.json["data"]
    answer: dict[str, Any] = first.json
    return answer
