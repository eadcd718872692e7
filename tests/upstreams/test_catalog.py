"""The catalog: endpoints by path and by id, suggestions for misspelled paths, and missing credentials."""

from __future__ import annotations

import pytest

from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import OK, ScriptedExchange, source_over
from upstreams.catalog import Catalog
from upstreams.fetching.site import Site
from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args
from upstreams.model.steps import Call, Single, Steps
from upstreams.platforms import load_platforms


def read(_args: Args) -> Steps:
    answer = yield Call("/x")
    return Single(answer.body)


def site(platform: Platform, **credentials: str) -> Site:
    """Return a site whose upstream is never called."""
    sources = {name: source_over(ScriptedExchange(OK), name=name) for name in platform.sources}
    return Site(platform, sources, credentials=credentials, user_agent="sluice/1")


def platform(slug: str, *resources: str) -> Platform:
    endpoints = (
        *(Endpoint(resource=resource, summary="A record.", archetype=AUTHOR, read=read) for resource in resources),
        Endpoint(
            resource="search",
            summary="Posts by query.",
            archetype=POST_LIST,
            read=read,
            needs=("identifier", "password"),
        ),
    )
    return Platform(
        slug=slug,
        title=slug.title(),
        sources={slug: f"https://{slug}.test"},
        endpoints=endpoints,
        **FIELDS,
    )


BIRDS = platform("birds", "profile", "user/posts", "user/posts/top")
FISH = platform("fish", "profile")


def test_endpoint_is_found_by_path_or_id() -> None:
    birds = site(BIRDS)
    catalog = Catalog([birds, site(FISH)])
    found = catalog.at("/v1/birds/user/posts")
    assert found is not None
    assert (found.id, found.path) == ("birds/user/posts", "/v1/birds/user/posts")
    assert (found.site, found.endpoint) == (birds, BIRDS.endpoints[1])
    assert catalog.by_id("birds/user/posts") is found
    assert list(catalog.sites) == ["birds", "fish"]


@pytest.mark.parametrize(
    "path",
    ["", "/", "/v1", "/v1/birds", "/v1/birds/", "/v1/birds/profile/", "/V1/birds/profile", "birds/profile", "/v1/user"],
)
def test_endpoint_needs_its_exact_path(path: str) -> None:
    assert Catalog([site(BIRDS)]).at(path) is None


def test_endpoints_are_listed_in_declaration_order() -> None:
    assert [listing.id for listing in Catalog([site(FISH), site(BIRDS)]).all()] == [
        "fish/profile",
        "fish/search",
        "birds/profile",
        "birds/user/posts",
        "birds/user/posts/top",
        "birds/search",
    ]


@pytest.mark.parametrize(
    ("credentials", "available"),
    [
        ({}, False),
        ({"identifier": "ada"}, False),
        ({"identifier": "ada", "password": "p"}, True),
        ({"identifier": "ada", "password": "p", "token": "t"}, True),
    ],
)
def test_endpoint_is_available_with_all_its_credentials(credentials: dict[str, str], available: bool) -> None:
    catalog = Catalog([site(FISH, **credentials)])
    listing = catalog.by_id("fish/search")
    assert listing is not None, "it is listed, so that the API can say that it is unavailable"
    assert listing.available is available
    assert listing in catalog.all()
    assert (listing in catalog.available()) is available
    assert (catalog.nearest("/v1/fish/serch") == "/v1/fish/search") is available


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/birds/profil", "/v1/birds/profile"),
        ("/v1/bird/profile", "/v1/birds/profile"),
        ("/v1/birds/users/posts", "/v1/birds/user/posts"),
        ("/v1/fish/prfile", "/v1/fish/profile"),
        ("/v1/zzzzzzzz/qqqqqqqqqqq", None),
        ("/v1/utility/endpoints", None),
        ("", None),
        ("/v1/birds/profile", "/v1/birds/profile"),
    ],
)
def test_misspelled_path_suggests_the_nearest_or_none(path: str, meant: str | None) -> None:
    assert Catalog([site(BIRDS), site(FISH)]).nearest(path) == meant


def test_catalog_without_platforms_is_empty() -> None:
    catalog = Catalog([])
    assert (catalog.all(), catalog.at("/v1/x/y"), catalog.nearest("/v1/x/y")) == ([], None, None)


def test_platform_endpoints_have_unique_paths() -> None:
    platforms = load_platforms()
    declared = sum(len(platform.endpoints) for platform in platforms)
    assert len(Catalog([site(platform) for platform in platforms]).all()) == declared
