"""Section 2.4: the guide of every endpoint. Its example has the shape of a real response, and its request works."""

from __future__ import annotations

from typing import Any

from tests.fakes.node import OpenNode
from tests.spec.refusals import assert_refused
from tests.spec.rows import Row, Rows, check_rows, every_platform

FIELDS = {
    "kind",
    "id",
    "path",
    "method",
    "platform",
    "resource",
    "summary",
    "description",
    "credits",
    "params",
    "pagination",
    "cache",
    "response",
    "request",
    "errors",
    "availability",
    "upstream",
    "links",
    "related",
}
INNER = {
    "credits": {"cost", "label", "tier", "pricing_notes", "billing_rules"},
    "params": {"required", "one_of", "optional"},
    "cache": {"ttl_seconds", "note"},
    "response": {"archetype", "schema_url", "example", "example_source", "status", "content_types"},
    "request": {"url", "curl", "body"},
    "availability": {"available", "missing_credentials", "next_step"},
    "links": {"docs", "platform_docs", "llms", "catalog"},
}
PARAM = {"name", "type", "description", "example", "requires", "in"}


async def guide_of(node: OpenNode, query: str) -> dict[str, Any]:
    answer = await node.get(f"/v1/utility/endpoint?{query}")
    assert (answer.status, answer.json["platform"], answer.json["credits_used"]) == (200, "utility", 0), answer.body
    data: dict[str, Any] = answer.json["data"]
    return data


@every_platform
async def test_guide_has_every_field_and_its_request_works(rows: Rows, node: OpenNode) -> None:
    await check_rows(node, rows, _guide_has_every_field_and_its_request_works)


async def _guide_has_every_field_and_its_request_works(node: OpenNode, row: Row) -> None:
    guide = await guide_of(node, f"id={row.id}")
    assert guide.keys() == FIELDS
    assert {name: guide[name].keys() for name in INNER} == INNER
    assert (guide["kind"], guide["id"]) == ("endpoint_guide", row.id)
    assert 120 <= guide["cache"]["ttl_seconds"] <= 1800
    assert guide["cache"]["ttl_seconds"] == row.endpoint.cache_ttl_s
    platform = row.platform
    assert (guide["upstream"] is None) == (platform.category == "combined")
    if guide["upstream"]:
        assert guide["upstream"] == {
            "title": platform.title,
            "category": platform.category,
            "docs_url": platform.docs_url,
            "terms_url": platform.terms_url or None,
            "checked_on": platform.checked_on,
            "maintainer": None,
        }
    assert_params(guide["params"])
    assert (guide["pagination"] is not None) == row.endpoint.archetype.many
    if row.endpoint.archetype.many:
        await assert_limit(node, row, guide)
    assert all(link.startswith(("http://", "https://")) for link in guide["links"].values())
    for other in guide["related"]:
        assert other.keys() == {"id", "path", "summary", "how_to_use"}
        assert other["id"] != row.id
    answer = await node.get(guide["request"]["url"].removeprefix(node.url))
    assert answer.status == 200
    example = guide["response"]["example"]
    assert example.keys() == answer.json.keys() & {"data", "pagination"}
    assert_same_shape(example, {name: answer.json[name] for name in example})
    for link in (guide["response"]["schema_url"], guide["links"]["llms"]):
        assert (await node.get(link.removeprefix(node.url), key=None)).status == 200


def assert_params(params: dict[str, Any]) -> None:
    named = [*params["required"], *params["optional"]]
    for group in params["one_of"]:
        assert group.keys() == {"options", "rule"}
        assert len(group["options"]) > 1
        named += group["options"]
    for param in named:
        assert param.keys() >= PARAM
        assert all(isinstance(param[name], str) and param[name] for name in PARAM - {"requires"})
    names = [param["name"] for param in named]
    assert len(names) == len(set(names))


async def assert_limit(node: OpenNode, row: Row, guide: dict[str, Any]) -> None:
    """Check what the guide says about `limit` (section 4.3, rule 7): an endpoint without it in its guide has none."""
    kind = guide["pagination"]["limit"]
    limits = [one for one in guide["params"]["optional"] if one["name"] == "limit"]
    assert (kind is not None) is any(param.name == "limit" for param in row.endpoint.params) is bool(limits)
    assert (kind == "collect-until-N") is (row.endpoint.collect is not None)
    assert guide["pagination"]["limit_max"] == (limits[0]["maximum"] if limits else None)
    if kind is None:
        refused = assert_refused(await node.get(row.target(limit=5)), "INVALID_REQUEST", 400)
        assert refused["remove_params"] == ["limit"]


OPEN = ("ext", "format_mix", "posts_estimate", "comments_estimate", "platforms", "cards", "items_by_source")
"""Objects whose keys depend on the data."""


def assert_same_shape(example: Any, real: Any, where: str = "") -> None:
    """Check that both have the same keys at every depth.

    Either side may be null, and lists are compared by their first row.
    """
    if where.endswith(OPEN) or example is None or real is None:
        return
    assert type(example) is type(real), where
    if isinstance(example, dict):
        assert example.keys() == real.keys(), where
        for name in example:
            assert_same_shape(example[name], real[name], f"{where}.{name}")
    elif isinstance(example, list) and example and real:
        assert_same_shape(example[0], real[0], f"{where}[]")


async def test_endpoint_is_found_by_id_path_and_url(node: OpenNode) -> None:
    for query in (
        "url=/v1/github/profile",
        "url=https://api.example.com/v1/github/profile?handle=x",
        "id=github/profile&method=GET",
        "id=/github/profile/",
    ):
        assert (await guide_of(node, query))["id"] == "github/profile", query


async def test_unknown_endpoint_returns_404_with_suggestion(node: OpenNode) -> None:
    for query, meant in (
        ("id=github/profil", "github/profile"),
        ("url=/v1/github/profil", "/v1/github/profile"),
        ("id=zzz", None),
        ("id=github/profile&method=POST", "github/profile"),
    ):
        details = assert_refused(await node.get(f"/v1/utility/endpoint?{query}"), "ENDPOINT_NOT_FOUND", 404)
        assert details.get("did_you_mean") == meant, query
    refused = await node.get("/v1/utility/endpoint?id=github/profile&method=POST")
    assert "/v1/github/profile supports GET, not POST" in refused.json["error"]["message"]


async def test_exactly_one_of_id_and_url_is_required(node: OpenNode) -> None:
    for query in ("", "id=github/profile&url=/v1/github/profile"):
        details = assert_refused(await node.get(f"/v1/utility/endpoint?{query}"), "INVALID_REQUEST", 400)
        assert details["param"] == "id"
