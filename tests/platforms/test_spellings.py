"""Two spellings of the same request are one cache entry, one charge and one family of cursors (decisions 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

import pytest

from gateway.calls.request import cache_key
from gateway.http.errors import Refused
from gateway.http.params import declared_by
from tests.fakes.node import open_test_node
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
        "bluesky/profile": (("handle", "bsky.app", "https://bsky.app/profile/bsky.app?ref=x"),),
        "bluesky/post": (
            ("url", "at://bsky.app/app.bsky.feed.post/3lada", "https://bsky.app/profile/bsky.app/post/3lada/liked-by"),
        ),
    }
)
"""Spellings of platforms' own, beside those that every declaration tells of."""


def listings() -> Iterator[Listing]:
    for platform in load_platforms():
        for endpoint in platform.endpoints:
            yield listing(platform, endpoint)


def listing(platform: Platform, endpoint: Endpoint) -> Listing:
    site: Site = None  # type: ignore[assignment] - the cache's key needs none
    name = f"{platform.slug}/{endpoint.resource}"
    return Listing(name, f"/v1/{name}", site, endpoint, available=True)


def spellings(param: Param) -> Iterator[str]:
    """Other spellings of a parameter's example, as its declaration tells them."""
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
    """The cache's key of the example with each of these texts as one parameter."""
    values = {one: str(value) for one, value in example_values(listing.endpoint).items()}
    for group in listing.endpoint.one_of:
        if name in group:
            values = {one: value for one, value in values.items() if one not in group}
    rules = declared_by(listing.endpoint)
    return [cache_key(listing, rules.read({**values, name: text}.items())) for text in texts]


@pytest.mark.parametrize("listing", tuple(listings()), ids=lambda listing: listing.id)
def test_every_spelling_of_an_example_is_one_cache_entry(listing: Listing) -> None:
    for param in listing.endpoint.params:
        if param.type in ("string", "url") and not param.choices:
            keys = keys_of(listing, param.name, spellings(param))
            assert len(set(keys)) == 1, (param.name, keys)


@pytest.mark.parametrize(
    ("id_", "name", "one", "other"),
    [(id_, *spelled) for id_, several in SPELLED.items() for spelled in several],
)
def test_a_platforms_own_spellings_are_one_cache_entry(id_: str, name: str, one: str, other: str) -> None:
    found = next(found for found in listings() if found.id == id_)
    assert len(set(keys_of(found, name, (one, other)))) == 1


@pytest.mark.parametrize("listing", tuple(listings()), ids=lambda listing: listing.id)
def test_blank_values_are_refused_by_name_for_free(listing: Listing) -> None:
    for param in listing.endpoint.params:
        if param.required and param.type in ("string", "url") and not param.choices:
            with pytest.raises(Refused):
                keys_of(listing, param.name, (" \t ",))


async def test_two_spellings_are_one_charge_and_their_cursors_fit_each_other(tmp_path: Path) -> None:
    """Goal: the same over a whole node. Method: each list with two spellings, then its next page by the other one."""
    asked = {
        "github/repo/issues": ({"url": "python-trio/trio"}, {"url": " https://GitHub.com/Python-Trio/trio.git "}),
        "bluesky/user/posts": ({"handle": "bsky.app"}, {"handle": "@BSKY.app"}),
        "stackexchange/question/answers": ({"id": "11227809"}, {"id": "https://stackoverflow.com/q/11227809"}),
    }
    async with open_test_node(tmp_path) as node:
        for id_, (one, other) in asked.items():
            first = await node.get(f"/v1/{id_}?{urlencode({**one, 'limit': 3})}")
            again = await node.get(f"/v1/{id_}?{urlencode({**other, 'limit': 3})}")
            assert (first.status, first.json["credits_used"]) == (200, 1), first.json
            assert (again.status, again.json["credits_used"], again.headers["x-cache"]) == (200, 0, "HIT")
            assert again.json["data"] == first.json["data"]
            cursor = first.json["pagination"]["next_cursor"]
            following = await node.get(f"/v1/{id_}?{urlencode({**other, 'limit': 3, 'cursor': cursor})}")
            assert (following.status, following.json["credits_used"]) == (200, 1), following.json
            back = await node.get(f"/v1/{id_}?{urlencode({**one, 'limit': 3, 'cursor': cursor})}")
            assert (back.status, back.json["credits_used"]) == (200, 0)
        await node.assert_sound()
