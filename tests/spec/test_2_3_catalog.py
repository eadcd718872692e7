"""Section 2.3: the catalog, with its entries and filters, as served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_refused
from tests.spec.rows import ROWS

TYPES = {
    "id": str,
    "path": str,
    "method": str,
    "platform": str,
    "resource": str,
    "summary": str,
    "credits": int,
    "credits_label": str,
    "never_computed": list,
    "archetype": str,
    "required_params": list,
    "one_of": list,
    "optional_params": list,
    "paginated": bool,
    "how_to_use": str,
    "docs_url": str,
}


async def catalog(node: OpenNode, query: str = "") -> dict[str, Any]:
    answer = await node.get(f"/v1/utility/endpoints{query}")
    assert answer.status == 200
    body = answer.json
    assert (body["platform"], body["credits_used"], body["cached"]) == ("utility", 0, False)
    data: dict[str, Any] = body["data"]
    assert data.keys() == {"kind", "stats", "filters", "total", "endpoints"}
    assert data["kind"] == "endpoint_catalog"
    assert data["total"] == len(data["endpoints"])
    return data


async def test_every_entry_has_every_field_with_its_type(node: OpenNode) -> None:
    data = await catalog(node)
    reads = [entry["id"] for entry in data["endpoints"] if entry["method"] == "GET"]
    assert reads[: len(ROWS)] == [row.id for row in ROWS]
    for entry in data["endpoints"]:
        assert {name: type(value) for name, value in entry.items()} == TYPES
        assert entry["id"] in (entry["resource"], f"{entry['platform']}/{entry['resource']}")
        assert entry["path"] == f"/v1/{entry['id']}"
        assert entry["how_to_use"].partition("&")[0] == f"/v1/utility/endpoint?id={entry['id']}"
        assert entry["docs_url"].startswith(("https://", f"{node.url}/docs/"))
        assert "cursor" in entry["optional_params"] or not entry["paginated"]
        grouped = [name for group in entry["one_of"] for name in group]
        named = [*entry["required_params"], *entry["optional_params"], *grouped]
        assert len(named) == len(set(named)), "a parameter is listed twice"
    slugs = {row.platform.slug: row.platform.social for row in ROWS}
    assert data["stats"] == {
        "platforms": len(slugs),
        "endpoints": len(ROWS),
        "social_platforms": sum(slugs.values()),
    }


async def test_endpoints_without_credentials_are_hidden(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        shown = {entry["id"] for entry in (await catalog(node))["endpoints"]}
    assert shown & {row.id for row in ROWS} == {
        row.id for row in ROWS if not {*row.endpoint.needs} - {*row.platform.partners}
    }


FILTERS = {
    "?platform=github": lambda entry: entry["platform"] == "github",
    "?platform=nowhere": lambda entry: False,
    "?search=PROFILE": lambda entry: "profile" in (entry["path"] + entry["summary"]).lower(),
    "?method=GET": lambda entry: entry["method"] == "GET",
    "?method=POST": lambda entry: entry["method"] == "POST",
    "?platform=account&method=DELETE": lambda entry: (entry["platform"], entry["method"]) == ("account", "DELETE"),
    "?platform=github&search=repo&method=GET": lambda entry: (
        entry["platform"] == "github" and ("repo" in entry["path"] or "repo" in entry["summary"].lower())
    ),
    "?platform=&search=": lambda entry: True,
}


async def test_filters_combine_and_are_echoed(node: OpenNode) -> None:
    every = await catalog(node)
    for query, fits in FILTERS.items():
        some = await catalog(node, query)
        assert some["endpoints"] == [entry for entry in every["endpoints"] if fits(entry)], query
        sent = dict(pair.split("=") for pair in query[1:].split("&"))
        assert some["filters"] == {name: sent.get(name) or None for name in ("platform", "search", "method")}
        assert some["stats"] == every["stats"], "the live numbers do not depend on the filters"


async def test_unknown_method_is_rejected_with_suggestion(node: OpenNode) -> None:
    details = assert_refused(await node.get("/v1/utility/endpoints?method=GETS"), "INVALID_REQUEST", 400)
    assert details["param"] == "method" or details["did_you_mean"] == "GET"


async def test_discovery_is_free_but_needs_a_key(node: OpenNode) -> None:
    await node.renew(balance=0)
    assert (await catalog(node))["total"] > 0
    assert (await node.get("/v1/utility/endpoint?id=github/profile")).status == 200
    assert_refused(await node.get("/v1/utility/endpoints", key=None), "MISSING_API_KEY", 401)
