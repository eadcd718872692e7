"""Sections 2.1 and 2.2: the success envelope and the records in it, for every endpoint of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from gateway.docs.schemas import schema_of
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.records import assert_record, assert_row
from tests.spec.rows import Row, Rows, check_rows, every_platform
from upstreams.model.archetypes import ARCHETYPES

FIXED = {
    "success",
    "platform",
    "endpoint",
    "data",
    "credits_used",
    "credits_remaining",
    "request_id",
    "cached",
}
FREE = range(1)
VARYING = {"date", "x-request-id", "x-sluice-overhead-ms", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset"}


def assert_envelope(answer: Answered, row: Row, *, used: range, cached: bool) -> dict[str, Any]:
    """Check the envelope of 2.1 and the matching headers, and return the body."""
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json
    assert body.keys() == FIXED | ({"pagination"} if row.endpoint.archetype.many else set())
    assert body["success"] is True
    assert (body["platform"], body["endpoint"]) == (row.platform.slug, f"/v1/{row.id}")
    assert body["credits_used"] in used
    assert body["cached"] is cached
    assert body["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-credits-used"] == str(body["credits_used"])
    assert answer.headers["x-credits-remaining"] == str(body["credits_remaining"])
    assert answer.headers["x-cache"] == ("HIT" if cached else "MISS")
    assert float(answer.headers["x-sluice-overhead-ms"]) >= 0
    limit, remaining = answer.headers["x-ratelimit-limit"], answer.headers["x-ratelimit-remaining"]
    assert answer.headers["ratelimit-policy"] == f'"key";q={limit};w=60'
    assert answer.headers["ratelimit"] == f'"key";r={remaining};t={answer.headers["x-ratelimit-reset"]}'
    return body


def assert_data(row: Row, data: dict[str, Any]) -> None:
    archetype = row.endpoint.archetype
    warnings = data.pop("_warnings", [])
    assert all(isinstance(warning, str) for warning in warnings)
    Draft202012Validator(schema_of(archetype, "https://x.test")).validate(data)
    if archetype.has_legs:
        assert 0 < data.pop("coverage") <= 1
        assert isinstance(data.pop("partial_failure"), bool)
        if archetype.name not in COMPOSITES:
            return
    if archetype.many:
        assert data.keys() - {"total"} == {"items"}
        assert type(data.get("total", 0)) is int
        assert data["items"]
        for item in data["items"]:
            assert_row(archetype.key, item, archetype.make.__name__)
    elif archetype.name in COMPOSITES:
        COMPOSITES[archetype.name](data)
    else:
        assert_row(archetype.key, data, archetype.make.__name__)


def assert_dossier(data: dict[str, Any]) -> None:
    assert data.keys() == {"repository", "article", "releases", "top_issues", "legs"}
    assert_record("repository", data["repository"])
    assert_record("article", data["article"])
    for key, name in (("release", "releases"), ("post", "top_issues")):
        for record in data[name]:
            assert_record(key, record)
    assert_legs(data["legs"])


def assert_velocity(data: dict[str, Any]) -> None:
    assert data.keys() == {"author", "velocity", "legs"}
    assert_record("author", data["author"])
    assert_legs(data["legs"])


LEG = ["endpoint", "source", "rung", "rung_index", "status", "credits_used", "latency_ms", "error"]


def assert_legs(legs: list[dict[str, Any]]) -> None:
    assert legs
    for leg in legs:
        assert list(leg) == LEG
        assert (leg["rung"], leg["rung_index"], leg["status"], leg["error"]) == ("primary", 0, "ok", None)


def assert_transcript(data: dict[str, Any]) -> None:
    """Check a transcript (section 2.2): its text, and a list whose entries have texts and times."""
    assert data.keys() == {"transcript", "transcripts", "ext"}
    assert data["transcript"]
    assert all(one.keys() == {"text", "language", "start_ms", "end_ms"} and one["text"] for one in data["transcripts"])
    assert " ".join(one["text"] for one in data["transcripts"]) == data["transcript"]


def assert_lookup(data: dict[str, Any]) -> None:
    kinds = {"page", *(one.key for one in ARCHETYPES.values() if one.lookup_rank)}
    assert kinds >= {"post", "app", "collection", "repository", "article", "author", "comment", "product", "job"}
    assert data.keys() == {"resolved", "computed", "legs"} | kinds
    assert data["resolved"].keys() == {"platform", "endpoint", "archetype", "params"}
    assert [kind for kind in kinds if data[kind] is not None] == ["post"]
    assert_row("post", {"post": data["post"], "computed": data["computed"]})
    assert_legs(data["legs"])


COMPOSITES = {
    "RepositoryDossier": assert_dossier,
    "ProfileVelocity": assert_velocity,
    "Transcript": assert_transcript,
    "Lookup": assert_lookup,
}


@every_platform
async def test_response_has_envelope_records_and_a_free_repetition(rows: Rows, node: OpenNode) -> None:
    """The repetition comes from the cache, and HEAD returns the headers of GET."""
    await check_rows(node, rows, _response_has_envelope_records_and_a_free_repetition)


async def _response_has_envelope_records_and_a_free_repetition(node: OpenNode, row: Row) -> None:
    first = assert_envelope(await node.get(row.target()), row, used=row.cost, cached=False)
    assert first["credits_remaining"] == 100_000 - first["credits_used"]
    assert await node.net(first["request_id"]) == first["credits_used"]
    asked = len(node.upstream.requests)
    is_stored = "_warnings" not in first["data"] and not first["data"].get("partial_failure")
    if is_stored:
        second = assert_envelope(await node.get(row.target(max_credits=0)), row, used=FREE, cached=True)
        assert second["data"] == orjson.loads(row.endpoint.archetype.as_stored(orjson.dumps(first["data"])))
        assert await node.entries(second["request_id"]) == []
        assert len(node.upstream.requests) == asked
        assert await node.money() == (100_000 - first["credits_used"], 0)
    got, head = await node.get(row.target()), await node.get(row.target(), method="HEAD")
    assert (head.status, head.body) == (got.status, b"")
    assert head.headers.keys() == got.headers.keys()
    if is_stored:
        assert fixed_headers(head) == fixed_headers(got)
    assert_data(row, first["data"])


def fixed_headers(answer: Answered) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in VARYING}


async def test_head_is_billed_like_get_and_fills_the_cache(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        head = await node.get("/v1/github/profile?handle=octocat", method="HEAD")
        assert (head.status, head.body, head.headers["x-credits-used"]) == (200, b"", "1")
        assert await node.net(head.headers["x-request-id"]) == 1
        assert (await node.get("/v1/github/profile?handle=octocat")).json["cached"] is True


async def test_head_of_error_has_status_and_headers_without_body(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in ("/v1/github/profile", "/v1/no/such", "/v1/github/profile?handle=missing"):
            got, head = await node.get(target), await node.get(target, method="HEAD")
            assert (head.status, head.body) == (got.status, b"")
            assert head.headers.keys() == got.headers.keys()
            assert fixed_headers(head) == fixed_headers(got)


async def test_request_ids_are_unique_and_sort_by_time(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        ids = [(await node.get("/v1/credits/balance")).headers["x-request-id"] for _ in range(20)]
        assert len(set(ids)) == 20
        assert [id_[:16] for id_ in ids] == sorted(id_[:16] for id_ in ids)
