"""Descriptions stay small and cheap with 70 platforms and 500 endpoints, and equal freshly built ones."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio

from gateway.docs.catalog import EncodedCatalog, entry_of
from gateway.docs.guide import Guides
from gateway.docs.openapi.document import OpenApi
from gateway.docs.operations import ApiOperation, Reference
from gateway.http.conditional import tag_of
from gateway.http.envelope import fragment
from gateway.http.errors import InvalidParam
from tests.fakes.many_platforms import ENDPOINTS, PLATFORMS, many_platforms
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.rows import CREDENTIALS, ENVIRON

DOCUMENT_BYTES_MAX = 800_000
CPU_MAX_S = 0.005
SEARCH_CPU_MAX_S = 0.012
"""A search reads every page, in a thread, one search at a time."""
READS = 15
ROOMY = {"requests_per_minute": 100_000, "concurrent_requests": 1_000}
FREE_READS = {
    "catalog": "/v1/utility/endpoints",
    "catalog of a platform": "/v1/utility/endpoints?platform=github",
    "catalog by a search": "/v1/utility/endpoints?search=profile",
    "guide": "/v1/utility/endpoint?id=github/profile",
    "guide of a composite": "/v1/utility/endpoint?id=prism/handle-audit",
    "guide of a body": "/v1/utility/endpoint?id=monitors&method=POST",
    "guide of a misspelled id": "/v1/utility/endpoint?id=stackexchange_9/questoins",
    "misspelled path": "/v1/stackexchange_9/questoins",
    "misspelled platform": "/v1/utility/endpoints?platform=githbu",
    "openapi": "/v1/openapi.json",
    "openapi of a platform": "/v1/openapi.json?platform=github",
    "status": "/v1/status",
    "schema": "/schemas/PostList.json",
    "llms": "/llms.txt",
    "llms-full": "/llms-full.txt",
    "page": "/docs/github/profile",
    "Markdown twin": "/docs/github/profile.md",
    "list of pages": "/docs",
    "home page": "/",
    "status page": "/status",
}

SEARCHES = {
    "search": "/search?q=profile+followers",
    "search for letters": "/search.md?q=a+b+c+d+e+f+g+h+j+k+l+m+n+p+q+r+s+t+u+v+w+x+y+z",
}


class RawClient:
    """Sends requests on one connection, with little overhead compared with the node."""

    def __init__(self, node: OpenNode, stream: trio.SocketStream) -> None:
        self._key = node.key
        self._stream = stream

    async def get(self, target: str, accept_encoding: str) -> int:
        """Send one request and return the size of the response body."""
        head = (
            f"GET {target} HTTP/1.1\r\nhost: a\r\nx-api-key: {self._key}\r\naccept-encoding: {accept_encoding}\r\n\r\n"
        )
        await self._stream.send_all(head.encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += await self._stream.receive_some(65_536)
        fields, _, body = received.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in fields.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        got = len(body)
        while got < length:
            got += len(await self._stream.receive_some(1_048_576))
        return length


async def test_free_reads_cost_little_cpu_with_500_endpoints(tmp_path: Path) -> None:
    """Method: the CPU time of the process per request, including the client's.

    The minimum of several reads counts, because a busy machine only adds to it. Before responses were cached, the
    catalog took 17 ms, and a misspelled path 20 ms.
    """
    too_dear: dict[str, float] = {}
    async with open_test_node(tmp_path, only=many_platforms(), limits=ROOMY) as node:
        assert len(node.node.catalog.sites) >= PLATFORMS
        assert len(node.node.catalog.all()) >= ENDPOINTS
        host, port = node.url.removeprefix("http://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            client = RawClient(node, stream)
            for (name, target), coding in product({**FREE_READS, **SEARCHES}.items(), ("identity", "gzip", "br")):
                took_s = [await cpu_of_read(client, target, coding) for _ in range(READS)]
                print(f"{min(took_s) * 1000:6.2f} ms  {name} {coding}")
                if min(took_s) > (SEARCH_CPU_MAX_S if name in SEARCHES else CPU_MAX_S):
                    too_dear[f"{name} {coding}"] = min(took_s)
    assert too_dear == {}


async def cpu_of_read(client: RawClient, target: str, coding: str) -> float:
    began_s = time.process_time()
    await client.get(target, coding)
    return time.process_time() - began_s


async def test_openapi_document_of_500_endpoints_is_under_800_kb(tmp_path: Path) -> None:
    """Method: copies have their own parameters, as real platforms do, and no endpoint lacks a credential."""
    platforms = many_platforms()
    assert sum(len(one.endpoints) for one in platforms) == ENDPOINTS
    async with open_test_node(tmp_path, only=platforms, environ=ENVIRON, upstreams=CREDENTIALS) as node:
        assert len(node.node.catalog.available()) == ENDPOINTS
        document = (await node.get("/v1/openapi.json", key=None)).body
    print(f"{len(document)} bytes")
    assert len(document) < DOCUMENT_BYTES_MAX


def composed(reference: Reference, filters: dict[str, str], base_url: str) -> list[dict[str, Any]]:
    """The matching entries, each built from its operation's declaration."""

    def fits(one: ApiOperation) -> bool:
        search = filters.get("search", "").lower()
        return (
            filters.get("platform", one.platform) == one.platform
            and filters.get("method", one.method) == one.method
            and (search in one.path.lower() or search in one.summary.lower())
        )

    return [entry_of(one, base_url) for one in reference.offered if fits(one)]


async def test_filtered_catalog_equals_freshly_built_entries(tmp_path: Path) -> None:
    """Method: every platform and method, with fixed searches and random parts of paths and summaries."""
    rng = Random(34)
    async with open_test_node(tmp_path, only=many_platforms(), limits=ROOMY) as node:
        reference, base_url = node.node.description.reference, node.url
        catalog = EncodedCatalog(reference, base_url)
        texts = [text for one in reference.offered for text in (one.path, one.summary)]
        parts = [text[(at := rng.randrange(len(text))) : at + rng.randint(1, 12)] for text in rng.sample(texts, 40)]
        searches = [None, "profile", "PROFILE", "/v1/", "e", "no operation has this", *parts]
        platforms, methods = [None, *reference.platforms[::3]], [None, "GET", "POST", "PUT", "PATCH", "DELETE"]
        for platform, method, search in product(platforms, methods, searches):
            sent = {"platform": platform, "method": method, "search": search}
            filters = {name: value for name, value in sent.items() if value is not None}
            expected = composed(reference, filters, base_url)
            data = catalog.data(filters)
            assert orjson.dumps(data["endpoints"]) == orjson.dumps(expected)
            assert (data["total"], data["filters"]) == (len(expected), sent)
        for query, filters in (("", {}), ("?platform=github&search=REPO", {"platform": "github", "search": "repo"})):
            served = (await node.get(f"/v1/utility/endpoints{query}")).json["data"]
            assert served["endpoints"] == composed(reference, filters, base_url)
    with pytest.raises(InvalidParam, match="Did you mean `github`"):
        catalog.data({"platform": "githbu"})
    assert catalog.data({"platform": "zzzzzzzzzz"})["total"] == 0


async def test_cached_guides_and_documents_equal_new_ones(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits=ROOMY) as node:
        description = node.node.description
        fresh = Guides(description.reference, base_url=node.url, signer=description.guides._signer)
        for operation in description.reference.offered[::7]:
            target = f"/v1/utility/endpoint?url={operation.path}&method={operation.method}"
            for _ in range(2):
                answer = await node.get(target)
                assert answer.json["data"] == orjson.loads(orjson.dumps(fresh.of(operation)))
                assert answer.headers["etag"].encode() == tag_of(
                    fragment("utility", "/v1/utility/endpoint", fresh.of(operation))
                )
        for platform in (None, "github", "account"):
            query = "" if platform is None else f"?platform={platform}"
            for _ in range(2):
                answer = await node.get(f"/v1/openapi.json{query}", key=None)
                assert answer.body == OpenApi(description.reference, node.url).document(platform)
            again = await node.get(
                "/v1/openapi.json" + query, key=None, headers={"if-none-match": answer.headers["etag"]}
            )
            assert again.status == 304


class CountedDocuments:
    """Builds each document slowly, and counts the documents."""

    def __init__(self) -> None:
        self.made = 0

    def document(self, _platform: str | None = None) -> bytes:
        self.made += 1
        time.sleep(0.05)
        return b"{}"


async def test_concurrent_first_readers_build_one_document(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, limits=ROOMY) as node:
        documents = CountedDocuments()
        node.node.description.docs.__dict__["documents"] = documents  # instead of the attribute's cached value
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(node.get, "/v1/openapi.json")
        assert documents.made == 1
