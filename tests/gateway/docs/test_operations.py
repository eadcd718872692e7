"""Every route has a catalog entry, a guide and an entry in the OpenAPI document, and nothing else has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from gateway.docs.errors import REASONS
from gateway.http.routing import SOURCE
from tests.fakes.node import OpenNode, open_test_node
from tests.gate.matrix import sample_platforms
from tests.gateway.docs.openapi.judging import Document, document_of, flaws
from tests.processes.commands import PROJECT
from tests.spec.rows import CREDENTIALS, ENVIRON

NODE = {"environ": ENVIRON, "upstreams": CREDENTIALS, "webhooks": {"allow_insecure_targets": True}}
DETAILS = {"description", "parameters", "x-error-reasons"}
"""Members of operations in which the document of one platform has more than the document of all platforms."""


def operations_in(document: Document) -> set[tuple[str, str]]:
    return {(path, method.upper()) for path, item in document["paths"].items() for method in item}


async def test_every_route_is_described_and_nothing_else(node: OpenNode) -> None:
    routes = [one.route for one in node.node.description.reference.operations]
    there = {(route.path, route.allow[0]) for route in routes if SOURCE not in route.lacks}
    entries = (await node.get("/v1/utility/endpoints")).json["data"]["endpoints"]
    assert {(entry["path"], entry["method"]) for entry in entries} == there
    assert len(entries) == len(there)
    assert operations_in(await document_of(node)) == there
    await node.get("/docs", key=None)
    library = node.node.description._pages._texts.library
    made = {path for path, page in library.pages.items() if page.group in ("platforms", "account", "node")}
    assert made == {f"/docs/{slug}" for slug in library.reference.catalog.sites} | {
        one.page for one in library.reference.operations
    }
    for entry in sample_platforms(entries, lambda one: str(one["platform"])):
        guide = (await node.get(entry["how_to_use"])).json["data"]
        shared = ("id", "path", "method", "platform", "resource", "summary")
        assert [guide[name] for name in shared] == [entry[name] for name in shared]
        assert guide["errors"], "an operation without error responses"
        assert guide["availability"] == {"available": True, "missing_credentials": [], "next_step": None}


async def test_document_is_valid_and_fully_named_and_priced(node: OpenNode) -> None:
    document = await document_of(node)
    OpenAPIV31SpecValidator(document).validate()
    items = [one for item in document["paths"].values() for one in item.values()]
    names = [one["operationId"] for one in items]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name == name.lower() for name in names)
    assert all(isinstance(one["x-credit-cost"], int) and one["x-credit-label"] for one in items)
    assert document["webhooks"]["monitorRun"]["post"]["requestBody"]["required"]
    assert "101" in document["paths"]["/v1/events/ws"]["get"]["responses"]
    feed = document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]
    assert feed.keys() == {"application/json", "text/event-stream"}
    assert feed["text/event-stream"]["x-events"].keys() == {"message", "restarted"}


async def test_platform_document_contains_only_its_platform_and_references(node: OpenNode) -> None:
    for platform in ("github", "account", "utility"):
        document = await document_of(node, f"?platform={platform}")
        OpenAPIV31SpecValidator(document).validate()
        assert {tag for item in document["paths"].values() for one in item.values() for tag in one["tags"]} == {
            platform
        }
    refused = await node.get("/v1/openapi.json?platform=gihub", key=None)
    assert (refused.status, refused.json["error"]["details"]["did_you_mean"]) == (400, "github")


async def test_platform_document_has_the_same_operations_and_types_with_more_details(node: OpenNode) -> None:
    """Goal: the document of all platforms leaves out only what its description says."""
    brief = await document_of(node)
    paths = orjson.dumps(brief["paths"]).decode()
    assert [one for one in ("x-canonical", "x-error-reasons", "Its sources, each tried") if one in paths] == []
    listed = [one["$ref"].rpartition("/")[2] for one in brief["info"]["x-parameters"]]
    headers = [brief["components"]["parameters"][name]["name"] for name in listed]
    assert headers == ["Cache-Control"]
    for platform in ("github", "bluesky", "account"):
        full = await document_of(node, f"?platform={platform}")
        for path, item in full["paths"].items():
            for method, operation in item.items():
                other = brief["paths"][path][method]
                assert {**operation, **dict.fromkeys(DETAILS)} == {**other, **dict.fromkeys(DETAILS)}
                sent = [inlined(full, one) for one in operation["parameters"]]
                if operation["responses"]["default"]["$ref"].endswith("DataError"):
                    assert [sent.pop()["name"]] == headers
                assert sent == [inlined(brief, one) for one in other["parameters"]]
        schemas = full["components"]["schemas"]
        assert all(types_of(schemas[name]) == types_of(brief["components"]["schemas"][name]) for name in schemas)
    assert schemas["MonitorView"]["properties"]["id"].keys() >= {"description", "examples"}
    assert not brief["components"]["schemas"]["MonitorView"]["properties"]["id"].keys() & {"description", "examples"}


def inlined(document: Document, parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter without its reference, its canonical form, and the example of `fields`."""
    name = parameter.get("$ref", "").rpartition("/")[2]
    found = document["components"]["parameters"][name] if name else parameter
    left_out = ("x-canonical", "example") if found["name"] == "fields" else ("x-canonical",)
    return {key: value for key, value in found.items() if key not in left_out}


def types_of(schema: Any) -> Any:
    """Return a schema without descriptions and examples, also where fields have these names."""
    if isinstance(schema, list):
        return [types_of(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: types_of(one) for name, one in schema.items() if name not in ("description", "examples")}


async def test_examples_and_real_responses_match_document(node: OpenNode) -> None:
    """Goal: no drift. Method: check each GET's example request with the schema of its success."""
    document = await document_of(node)
    for path, item in document["paths"].items():
        if "get" not in item or "{" in path or path.endswith(("/ws", "/openapi.json")):
            continue
        guide = (await node.get(f"/v1/utility/endpoint?url={path}")).json["data"]
        schema = schema_of(document, item["get"])
        answer_name = schema["$ref"].rpartition("/")[2]
        data_schema = document["components"]["schemas"][answer_name]["allOf"][1]
        if guide["response"]["example"] is not None:
            check(document, {"allOf": [data_schema]}, guide["response"]["example"], f"the example of {path}")
        if guide["platform"] in ("account", "utility"):
            answer = await node.get(guide["request"]["url"].removeprefix(node.url))
            assert answer.status == 200, answer.body
            check(document, schema, answer.json, f"the answer of {path}")


def schema_of(document: Document, operation: dict[str, Any]) -> dict[str, Any]:
    success = operation["responses"]["200"]
    if "$ref" in success:
        success = document["components"]["responses"][success["$ref"].rpartition("/")[2]]
    schema: dict[str, Any] = success["content"]["application/json"]["schema"]
    return schema


def check(document: Document, schema: dict[str, Any], value: Any, subject: str) -> None:
    assert flaws(document, schema, value) == [], subject


async def test_guide_names_missing_credential(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        guide = (await node.get("/v1/utility/endpoint?id=bluesky/search")).json["data"]
        assert guide["availability"]["available"] is False
        assert guide["availability"]["missing_credentials"] == ["identifier", "password"]
        assert "[upstreams.bluesky]" in guide["availability"]["next_step"]
        assert guide["response"]["example"]["data"]["items"]
        entries = (await node.get("/v1/utility/endpoints")).json["data"]["endpoints"]
        assert "bluesky/search" not in {entry["id"] for entry in entries}


@pytest.mark.parametrize(
    ("query", "id_"),
    [
        ("id=monitors", "monitors"),
        ("id=account/monitors", "monitors"),
        ("url=/v1/monitors/mon_123/runs", "monitors/{monitor_id}/runs"),
        ("id=monitors/{monitor_id}/runs", "monitors/{monitor_id}/runs"),
        ("id=events/consumers/{consumer}/ack&method=POST", "events/consumers/{consumer}/ack"),
    ],
)
async def test_account_route_is_found_by_each_of_its_names(query: str, id_: str, node: OpenNode) -> None:
    assert (await node.get(f"/v1/utility/endpoint?{query}")).json["data"]["id"] == id_


async def test_methods_of_one_path_have_separate_guides(node: OpenNode) -> None:
    made = (await node.get("/v1/utility/endpoint?id=monitors&method=POST")).json["data"]
    assert [field["name"] for field in made["params"]["required"]] == ["recipe", "cadence"]
    assert {field["in"] for field in made["params"]["required"]} == {"body"}
    assert made["request"]["curl"].startswith("curl -X POST")
    assert {"monitor_limit_reached"} <= {reason["reason"] for error in made["errors"] for reason in error["reasons"]}
    assert (await node.get("/v1/utility/endpoint?id=monitors")).json["data"]["method"] == "GET"
    assert (await node.get("/v1/utility/endpoint?id=monitors&method=PATCH")).status == 404


async def test_misspelled_platform_gets_suggestion(node: OpenNode) -> None:
    refused = await node.get("/v1/utility/endpoints?platform=gihub")
    assert (refused.status, refused.json["error"]["details"]["did_you_mean"]) == (400, "github")
    assert (await node.get("/v1/utility/endpoints?platform=zzz")).json["data"]["total"] == 0


def test_every_reason_in_code_has_a_meaning() -> None:
    sources = [
        file for room in ("gateway", "scheduler", "limits", "billing") for file in (PROJECT / room).rglob("*.py")
    ]
    code = "".join(file.read_text() for file in sources if "docs" not in file.parts)
    found = set(re.findall(r"""["']?reason["']?(?:: |=|: str = )"([a-z_]+)\"""", code))
    found |= set(re.findall(r'(?:_unknown|RedeliveryRefused)\("([a-z_]+)"', code)) - {"completed"}
    known = {reason.name for reason in REASONS.values()}
    assert found - known - {"completed"} == set()


async def test_declared_platform_reasons_are_in_endpoint_guides(node: OpenNode) -> None:
    for id_, reasons in (("bluesky/profile", {"account_private", "account_gone"}), ("hackernews/search", set())):
        errors = (await node.get(f"/v1/utility/endpoint?id={id_}")).json["data"]["errors"]
        listed = {one["reason"] for error in errors for one in error["reasons"]}
        assert listed & {"account_private", "account_gone"} == reasons


async def test_account_object_responses_match_document(node: OpenNode) -> None:
    """Goal: response types do not drift. Method: the whole lifecycle of a monitor and of a consumer."""
    document = await document_of(node)
    monitor = {
        "recipe": "github/profile",
        "params": {"handle": "octocat"},
        "cadence": "daily",
        "track": {"metrics": ["author.followers"]},
        "webhook_url": "http://127.0.0.1:9/hook",
    }
    made = await judged(node, document, "POST", "/v1/monitors", monitor)
    place = f"/v1/monitors/{made['monitor']['id']}"
    run = (await judged(node, document, "POST", f"{place}/run"))["data"]["run"]["run_id"]
    await judged(node, document, "PATCH", place, {"name": "another"})
    for path in ("/v1/monitors", place, f"{place}/runs", f"{place}/runs/{run}", f"{place}/timeseries"):
        await judged(node, document, "GET", path)
    await judged(node, document, "GET", f"{place}/deliveries")
    await judged(node, document, "POST", f"{place}/backtest", {})
    await judged(node, document, "POST", f"{place}/webhook/rotate-secret")
    await judged(node, document, "POST", f"{place}/webhook/resume")
    page = await judged(node, document, "GET", "/v1/events?consumer=billing")
    await judged(node, document, "GET", "/v1/events/consumers")
    cursor = {"cursor": page["pagination"]["next_cursor"]}
    await judged(node, document, "POST", "/v1/events/consumers/billing/ack", cursor)
    await judged(node, document, "POST", "/v1/events/consumers/billing/reset", {"cursor": "oldest"})
    await judged(node, document, "GET", "/v1/events/consumers/billing")
    await judged(node, document, "GET", "/v1/credits/transactions")


async def test_batch_and_price_responses_match_document(node: OpenNode) -> None:
    document = await document_of(node)
    post = document["paths"]["/v1/prism/post-stats"]["post"]
    success = response_of(document, post, "200")["content"]
    sent = {"urls": ["https://news.ycombinator.com/item?id=8863"]}
    made = await judged(node, document, "POST", "/v1/prism/post-stats", sent)
    assert made["data"]["results"][0]["status"] == "ok"
    priced = await judged(node, document, "POST", "/v1/prism/post-stats?dry_run=1", sent)
    assert priced["data"] == {"estimated_credits": 1, "would_hit_cache": False, "rows": 1}
    unlike = {**priced, "data": {"estimated_credits": 1}}
    assert flaws(document, success["application/json"]["schema"], unlike) != []
    assert success["text/event-stream"]["x-events"].keys() == {"row", "result", "error"}


def response_of(document: Document, operation: dict[str, Any], status: str) -> dict[str, Any]:
    """Find the response for a status."""
    response: dict[str, Any] = operation["responses"][status]
    shared = response.get("$ref", "").rpartition("/")[2]
    return document["components"]["responses"][shared] if shared else response


async def judged(node: OpenNode, document: Document, method: str, path: str, body: Any = None) -> Any:
    """Send a request, and check its body and its response against the document."""
    operation = node.node.description.reference.find(path.partition("?")[0], method)
    assert operation is not None
    described = document["paths"][operation.path][method.lower()]
    if body:
        check(document, described["requestBody"]["content"]["application/json"]["schema"], body, f"the body of {path}")
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(method, node.url + path, headers={"x-api-key": node.key}, content=content)
    assert str(answer.status_code) in described["responses"], answer.content
    assert answer.status_code < 300, answer.content
    success = response_of(document, described, str(answer.status_code))
    check(document, success["content"]["application/json"]["schema"], answer.json(), f"the answer of {method} {path}")
    return answer.json()


@pytest.mark.parametrize("id_", ["prism/voice", "mastodon/profile/full"])
async def test_composite_cursor_is_in_catalog_and_guide(id_: str, node: OpenNode) -> None:
    (entry,) = (
        one
        for one in (await node.get(f"/v1/utility/endpoints?search={id_}")).json["data"]["endpoints"]
        if one["id"] == id_
    )
    guide = (await node.get(f"/v1/utility/endpoint?id={id_}")).json["data"]
    assert "cursor" in entry["optional_params"]
    assert "cursor" in {param["name"] for param in guide["params"]["optional"]}


@pytest.mark.parametrize(
    ("id_", "start"),
    [
        ("monitors/{monitor_id}", "mon_"),
        ("web/monitors/{monitor_id}/checks", "wm_"),
        ("monitors/{monitor_id}/runs/{run_id}", "run_"),
        ("prism/discover/runs/{run_id}", "dr_"),
    ],
)
async def test_id_examples_have_the_prefix_of_their_kind(id_: str, start: str, node: OpenNode) -> None:
    guide = (await node.get(f"/v1/utility/endpoint?id={id_}")).json["data"]
    param = guide["params"]["required"][-1]
    assert param["example"].startswith(start)


@pytest.mark.parametrize(
    ("id_", "due"),
    [
        ("prism/post-stats", {"results.0.status": "ok", "summary.ok": 1, "results.0.record.id": "8863"}),
        ("web/crawl", {"kind": "crawl", "status": "partial", "progress.failed": 1}),
        ("web/batch-scrape", {"kind": "batch-scrape", "status": "partial", "progress.failed": 1}),
        ("web/sessions", {"status": "open", "closed_because": None}),
        ("prism/discover/runs", {"status": "partial", "counts.legs.failed": 1}),
    ],
)
async def test_examples_are_consistent(id_: str, due: dict[str, object], node: OpenNode) -> None:
    guide = await node.get(f"/v1/utility/endpoint?id={id_}&method=POST")
    data = guide.json["data"]["response"]["example"]["data"]
    for path, value in due.items():
        found = data
        for name in path.split("."):
            found = found[int(name) if name.isdecimal() else name]
        assert found == value, path
