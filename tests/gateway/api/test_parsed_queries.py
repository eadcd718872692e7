"""Parsed queries in the endpoints' cache: any input stays below a limit in bytes, and queries in use stay cached."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from urllib.parse import quote

import pytest

from gateway.api.parsed_queries import QUERIES_BYTES_MAX, EndpointQueries, ParsedQueries, ParsedQuery, _size_of
from gateway.api.routes.data import DataEndpoint
from tests.fakes.node import OpenNode, open_test_node

QUERY_BYTES = 300
COUNTED = 2 * QUERIES_BYTES_MAX
"""Bytes cached in each case, as counted by the code: several times the limit."""


def queries_at(node: OpenNode, path: str) -> EndpointQueries:
    operation = node.node.description.reference.find(path, None)
    assert operation is not None
    endpoint = operation.route.handle.__self__  # type: ignore[attr-defined]  # it is its method
    assert isinstance(endpoint, DataEndpoint)
    return endpoint.queries


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


@pytest.mark.critical
@pytest.mark.parametrize("shape", SHAPES)
async def test_cached_queries_use_at_most_16_mb(shape: Callable[[int], str], tmp_path: Path) -> None:
    """Goal: no caller fills a node's memory with queries, which cost nothing with `dry_run`.

    Method: many endpoints read distinct queries until several times the limit is cached. The memory that Python
    allocated for them is compared with the limit.
    """
    paths = ("/v1/hackernews/search", "/v1/bluesky/search/posts", "/v1/stackexchange/search", "/v1/youtube/search")
    async with open_test_node(tmp_path) as node:
        there = [path for path in paths if node.node.catalog.at(path) is not None]
        endpoints = [queries_at(node, path) for path in there]
        assert len(endpoints) > 1
        queries = (shape(number).encode() for number in count())
        tracemalloc.start()
        try:
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            most, counted, looked_at = 0, 0, 0
            for endpoint, query in zip(cycle(endpoints), queries, strict=False):
                assert len(query) <= QUERY_BYTES
                counted += _size_of(query, endpoint.parse(query))
                if counted - looked_at > QUERIES_BYTES_MAX // 32:
                    looked_at = counted
                    most = max(most, tracemalloc.get_traced_memory()[0] - before)
                if counted > COUNTED:
                    break
        finally:
            tracemalloc.stop()
    print(f"{most / 1e6:.1f} MB of {QUERIES_BYTES_MAX / 1e6:.0f} MB")
    assert most <= QUERIES_BYTES_MAX
    assert most >= QUERIES_BYTES_MAX / 8, "the count is far above the memory in use"


def parsed(number: int) -> ParsedQuery:
    return {"handle": f"a{number}"}, b"key", None, True


async def test_used_query_stays_cached_and_unused_one_is_removed(tmp_path: Path) -> None:
    size = _size_of(b"q=0", parsed(0))
    async with open_test_node(tmp_path) as node:
        listings = node.node.catalog.all()
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


async def test_older_query_is_not_parsed_again(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        endpoint = queries_at(node, "/v1/github/profile")
        made = endpoint.parse(b"handle=octocat")
        endpoint.older, endpoint.recent = endpoint.recent, {}
        assert endpoint.parse(b"handle=octocat") is made
        assert endpoint.recent[b"handle=octocat"] is made


async def test_long_query_is_not_cached(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        endpoint = queries_at(node, "/v1/hackernews/search")
        for length in (QUERY_BYTES, QUERY_BYTES + 1):
            query = f"query={'x' * (length - len('query='))}".encode()
            endpoint.parse(query)
            assert (query in endpoint.recent) is (length <= QUERY_BYTES)
