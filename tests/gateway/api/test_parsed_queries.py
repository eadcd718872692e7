"""Parsed queries in the endpoints' cache: any input stays below a limit in bytes, and queries in use stay cached."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import count, cycle
from pathlib import Path
from urllib.parse import quote

import pytest

from gateway.api.parsed_queries import QUERIES_BYTES_MAX, ParsedQueries, ParsedQuery, _size_of
from gateway.api.routes.data import DataEndpoint
from tests.fakes.node import open_test_node
from upstreams.catalog import Catalog, Listing
from upstreams.fetching.site import Site
from upstreams.model.archetypes import POST_LIST
from upstreams.platforms import load_platforms

QUERY_BYTES = 300
LIMIT_BYTES = 1_000_000
"""The limit under test. It is far above a query's size, and small enough to be exceeded quickly."""


def long_values(number: int) -> str:
    return f"query={number}{'x' * 250}&dry_run=1"


def wide_values(number: int) -> str:
    """A single four-byte character makes each character of a Python string take four bytes."""
    return f"query={number}{quote(chr(0x1F600))}{'x' * 250}"


def short_values(number: int) -> str:
    return f"query={number}"


def many_values(number: int) -> str:
    return f"query={number}&limit=7&cursor={number}&max_credits=5&dry_run=1&format=csv&fields=items.post.id"


def deep_paths(number: int) -> str:
    """Return nested names below `ext`, which may be anything."""
    return f"query=a&fields=items.post.ext.{number}{'.a' * 120}"


def many_paths(number: int) -> str:
    return f"query={number}&fields=" + ",".join(f"items.post.ext.{chr(letter)}" for letter in range(97, 112))


SHAPES = (long_values, wide_values, short_values, many_values, deep_paths, many_paths)


@pytest.fixture(scope="module")
def listings() -> Sequence[Listing]:
    """The endpoints that search posts."""
    platforms = {platform.slug: platform for platform in load_platforms()}
    names = ("hackernews", "bluesky", "mastodon", "lemmy", "youtube", "stackexchange")
    sites = [Site(platforms[name], {}, credentials={}, user_agent="sluice/1") for name in names]
    searches = [one for one in Catalog(sites).all() if one.endpoint.archetype is POST_LIST]
    return [one for one in searches if "query" in {param.name for param in one.endpoint.params}]


@pytest.mark.critical
@pytest.mark.parametrize("shape", SHAPES)
def test_cached_queries_use_at_most_the_limit(shape: Callable[[int], str], listings: Sequence[Listing]) -> None:
    """Goal: no caller fills a node's memory with queries, which cost nothing with `dry_run`.

    Method: many endpoints read distinct queries until twice the limit is cached. The memory that Python allocated for
    them is compared with the limit.
    """
    assert len(listings) > 2
    every = ParsedQueries(LIMIT_BYTES)
    endpoints = [every.of_endpoint(listing) for listing in listings]
    queries = (shape(number).encode() for number in count())
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        most, counted, looked_at = 0, 0, 0
        for endpoint, query in zip(cycle(endpoints), queries, strict=False):
            assert len(query) <= QUERY_BYTES
            counted += _size_of(query, endpoint.parse(query))
            if counted - looked_at > LIMIT_BYTES // 32:
                looked_at = counted
                most = max(most, tracemalloc.get_traced_memory()[0] - before)
            if counted > 2 * LIMIT_BYTES:
                break
    finally:
        tracemalloc.stop()
    print(f"{most / 1e6:.2f} MB of {LIMIT_BYTES / 1e6:.2f} MB")
    assert most <= LIMIT_BYTES
    assert most >= LIMIT_BYTES / 8, "the count is far above the memory in use"


def parsed(number: int) -> ParsedQuery:
    return {"handle": f"a{number}"}, b"key", None, True


def test_used_query_stays_cached_and_unused_one_is_removed(listings: Sequence[Listing]) -> None:
    size = _size_of(b"q=0", parsed(0))
    queries = ParsedQueries(20 * size)
    first, second = (queries.of_endpoint(listing) for listing in listings[:2])
    first.keep(b"q=0", parsed(0))
    second.keep(b"q=1", parsed(1))
    for number in range(2, 60):
        first.keep(b"q=%d" % number, parsed(number))
        if b"q=0" not in first.recent:
            first.keep(b"q=0", first.older[b"q=0"])
        held = [*first.recent, *first.older, *second.recent, *second.older]
        assert len(held) <= 21
    assert b"q=1" not in held


async def test_nodes_queries_are_limited_and_not_parsed_again(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        operation = node.node.description.reference.find("/v1/hackernews/search", None)
        assert operation is not None
        route = operation.route.handle.__self__  # type: ignore[attr-defined]  # it is its method
        assert isinstance(route, DataEndpoint)
    endpoint = route.queries
    assert endpoint._all._generation_bytes_max == QUERIES_BYTES_MAX // 2 == 8_000_000
    made = endpoint.parse(b"query=trio")
    endpoint.older, endpoint.recent = endpoint.recent, {}
    assert endpoint.parse(b"query=trio") is made
    assert endpoint.recent[b"query=trio"] is made
    for length in (QUERY_BYTES, QUERY_BYTES + 1):
        query = f"query={'x' * (length - len('query='))}".encode()
        endpoint.parse(query)
        assert (query in endpoint.recent) is (length <= QUERY_BYTES), "a longer query is not cached"
