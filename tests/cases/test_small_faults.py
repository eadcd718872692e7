"""Smaller bugs from the audit, each checked over every similar declaration (issue 35, 18)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.http.routing import SOURCE
from scheduler.monitors.metrics.shapes import shape_of
from tests.cases.paid_calls import BODIES
from tests.cases.test_estimates import HOOK, example_of
from tests.fakes.monitoring import MONITORS
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.fakes.upstream_server import always, open_upstream_server, reply
from tests.gateway.api.routes.asking import ask
from upstreams.model.archetypes import POST_LIST
from upstreams.web.engines import ENGINES


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path) as opened:
        yield opened
        await opened.assert_sound()


async def guide_of(node: OpenNode, id_: str, method: str = "POST") -> dict[str, Any]:
    status, answer = await ask(node, "GET", f"/v1/utility/endpoint?id={id_}&method={method}")
    assert status == 200, answer
    return dict(answer["data"])


async def listed(node: OpenNode, query: str = "") -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = (await ask(node, "GET", f"/v1/utility/endpoints{query}"))[1]["data"]["endpoints"]
    return entries


BATCHES = (
    *("prism/post-stats", "prism/profiles", "prism/comment-lookup"),
    *("youtube/videos", "youtube/channels", "peertube/transcripts", "youtube/transcripts"),
)


async def test_every_batch_has_a_distinct_example(node: OpenNode) -> None:
    """Regression: all of them showed the numbers of one Hacker News post."""
    examples = {id_: (await guide_of(node, id_))["response"]["example"]["data"] for id_ in BATCHES}
    rows = {id_: one["results"][0] for id_, one in examples.items()}
    for id_, row in rows.items():
        platform = id_.partition("/")[0]
        assert platform == "prism" or row["platform"] == platform, id_
        assert row["credits_used"] == examples[id_]["summary"]["credits_charged"]
    assert rows["prism/profiles"]["record"]["username"] == "octocat"
    assert rows["prism/comment-lookup"]["record"].keys() >= {"text", "post_id"}
    assert rows["youtube/videos"]["record"]["content"]["text"]
    assert rows["youtube/channels"]["record"]["followers"]
    assert rows["peertube/transcripts"]["record"]["transcript"]


async def test_batch_without_a_source_is_not_listed(node: OpenNode) -> None:
    assert "youtube/transcripts" not in {one["id"] for one in await listed(node)}
    availability = (await guide_of(node, "youtube/transcripts"))["availability"]
    assert (availability["available"], availability["missing_credentials"]) == (False, [])
    assert "YouTube has no source" in availability["next_step"]
    assert (await guide_of(node, "peertube/transcripts"))["availability"]["available"]


async def test_endpoint_without_its_credential_checks_its_parameters_first(node: OpenNode) -> None:
    """Method: every endpoint that this node cannot call, with valid and invalid parameters."""
    lacking = [one for one in node.node.catalog.all() if not one.available]
    assert lacking
    for listing in lacking:
        for dry in ("", "&dry_run=1"):
            query = "&".join(f"{name}={value}" for name, value in example_of(listing.endpoint).items())
            wrong = await node.get(f"{listing.path}?{query}&no_such_parameter=1{dry}")
            right = await node.get(f"{listing.path}?{query}{dry}")
            assert (wrong.status, wrong.json["error"]["details"]["remove_params"]) == (400, ["no_such_parameter"])
            assert (right.status, right.json["error"]["type"]) == (503, "SERVICE_UNAVAILABLE"), listing.id
            assert "retry-after" not in right.headers


async def test_post_without_its_credential_checks_its_body_first(node: OpenNode) -> None:
    """Method: every route that this node cannot call, with a valid and an invalid body."""
    operations = [one for one in node.node.description.reference.operations if one.listing is None]
    lacking = [one for one in operations if one.lacks and SOURCE not in one.lacks]
    assert {one.id for one in lacking} >= {"youtube/videos", "youtube/channels"}
    for operation in lacking:
        path = operation.path.format(session_id="ws_01a1fd7328fd7bba92988ba98f5dc154")
        takes_body = operation.route.body is not None
        for dry in ("", "?dry_run=1") if any(one.name == "dry_run" for one in operation.query) else ("",):
            if takes_body:
                status, wrong = await ask(node, operation.method, f"{path}{dry}", {"no_such_field": 1})
                assert status == 400, (path, wrong)
                assert wrong["error"]["type"] == "INVALID_REQUEST"
            right = {one.name: one.schema["examples"][0] for one in operation.body if one.schema.get("examples")}
            status, answer = await ask(node, operation.method, f"{path}{dry}", right if takes_body else None)
            assert status == 503, (path, answer)
            assert answer["error"]["type"] == "SERVICE_UNAVAILABLE"


async def test_every_invalid_body_field_error_states_its_bounds(node: OpenNode) -> None:
    """Method: for each bounded field of each body, send a value that is too small, too large or too long."""
    wrong, checked = [], 0
    for operation in node.node.description.reference.offered:
        if operation.is_form or "{" in operation.path:
            continue
        right = STARTED.get(operation.path) or dict(BODIES.get(operation.path) or {})
        names = {one.name for one in operation.body}
        for field in operation.body:
            beside = {name: value for name, value in BESIDE.get(field.name, {}).items() if name in names}
            entry = ENTRIES.get((operation.path, field.name), "https://example.com/")
            for value, bound in out_of_bounds(field.schema, entry):
                _, answer = await ask(node, operation.method, operation.path, {**right, **beside, field.name: value})
                message = answer.get("error", {}).get("message", "")
                checked += 1
                if bound not in message.replace(",", "") or field.name not in message:
                    wrong.append((operation.path, field.name, bound, message))
    assert wrong == []
    assert checked > 50


STARTED: dict[str, dict[str, Any]] = {
    MONITORS: {"recipe": "github/profile", "params": {"handle": "a"}, "cadence": "daily", "webhook_url": HOOK},
    "/v1/web/monitors": {"url": "https://example.com/", "cadence_minutes": 30, "webhook_url": HOOK},
    "/v1/prism/discover/schedules": {"run": {"keywords": ["a"], "max_credits": 9}, "cadence": "daily"},
    "/v1/webhooks": {"url": "https://example.com/", "types": ["*"]},
}
BESIDE: dict[str, dict[str, Any]] = {
    "webhook_secret": {"webhook_url": HOOK},
    "urls": {"items": None},
    "items": {"urls": None},
}
"""Fields that require or exclude another one."""
BOUND = re.compile(r"(\d[\d,]*) to (\d[\d,]*)")


ENTRIES: dict[tuple[str, str], Any] = {
    ("/v1/prism/profiles", "items"): {"platform": "github", "handle": "a"},
    ("/v1/prism/comment-lookup", "items"): {"comment_url": "https://news.ycombinator.com/item?id=2921983"},
}
"""The entries of fields that are not lists of texts."""


def out_of_bounds(schema: dict[str, Any], entry: Any) -> list[tuple[Any, str]]:
    """Return invalid values for the field, each with the bound that its error message must state."""
    found: list[tuple[Any, str]] = []
    kinds = [one.get("type") for one in (schema, *schema.get("anyOf", ()))]
    for one in (schema, *schema.get("anyOf", ())):
        for name, step in (("minimum", -1), ("maximum", 1)):
            if name in one:
                found.append((one[name] + step, str(one[name])))
        if "maxLength" in one:
            found.append(("x" * (one["maxLength"] + 1), str(one["maxLength"])))
    described = BOUND.search(schema.get("description", ""))
    if described is None:
        return found
    least, most = (int(one.replace(",", "")) for one in described.groups())
    if "integer" in kinds:
        return [*found, (least - 1, str(least)), (most + 1, str(most))]
    if "string" in kinds and "array" not in kinds:
        return [*found, ("x" * (most + 1), str(most))]
    return [*found, ([], str(most)), ([entry] * (most + 1), str(most))] if "array" in kinds else found


async def test_every_invalid_parameter_error_states_its_bounds(node: OpenNode) -> None:
    """Method: for each parameter of each endpoint, send a value that is too small, large or long, or not a number."""
    checked = 0
    for listing in node.node.catalog.available():
        for param in listing.endpoint.params:
            bounds = [str(one) for one in (param.minimum, param.maximum) if one is not None]
            sent = ["x" * (param.length_max + 1)] if param.type == "string" and not param.choices else []
            if param.type == "integer" and bounds:
                sent = ["many", *([] if param.minimum is None else [str(param.minimum - 1)])]
                sent += [str(param.maximum + 1)] if param.maximum is not None and param.name != "limit" else []
            else:
                bounds = [str(param.length_max)]
            for value in sent if len(sent[0] if sent else "") < 8_000 else []:
                answer = await node.get(f"{listing.path}?{param.name}={value}")
                message = answer.json["error"]["message"]
                assert answer.status == 400, (listing.id, param.name, message)
                assert param.name in message, (listing.id, message)
                assert all(one in message for one in bounds), (listing.id, param.name, message)
                checked += 1
    assert checked > 300


async def test_rows_with_a_record_id_have_a_default_key_in_every_recipe(node: OpenNode) -> None:
    keyed = 0
    for listing in node.node.catalog.available():
        shape = shape_of(listing.endpoint.archetype, listing.endpoint.unfilled)
        if not shape.is_list:
            continue
        records = [one for one in ("post", "comment", "author") if f"items[].{one}.id" in shape.kinds]
        assert (shape.row_key is None) == (not records), listing.id
        if records:
            assert shape.row_key in {f"{one}.id" for one in records}
            keyed += 1
    assert keyed > 30
    assert shape_of(POST_LIST).row_key == "post.id"
    track = {"metrics": ["items[].score"]}
    body = {"recipe": "search/everywhere", "params": {"query": "trio"}, "cadence": "daily", "track": track}
    status, made = await ask(node, "POST", f"{MONITORS}?dry_run=1", body)
    assert (status, made["data"]["monitor"]["track"]["row_key"]) == (200, "post.id"), made


async def test_catalog_lists_computed_fields_that_stay_null(node: OpenNode) -> None:
    """Goal: clients know which rates a platform never supplies. Method: every endpoint's declaration."""
    entries = {one["id"]: one for one in await listed(node)}
    authors = 0
    for listing in node.node.catalog.available():
        endpoint, told = listing.endpoint, entries[listing.id]["never_computed"]
        lacks_inputs = endpoint.archetype.computed is not None and not endpoint.unfilled.isdisjoint(
            {"followers", "likes_count", "engagement.views"}
        )
        assert bool(told) == lacks_inputs, listing.id
        if endpoint.archetype.key == "author" and endpoint.archetype.computed is not None:
            authors += bool(told)
            if told:
                assert set(told) >= {"engagement_rate", "estimated_reach"}
                assert "always null" in (await guide_of(node, listing.id, "GET"))["description"]
    assert authors > 5


async def test_status_reports_only_configured_parts(tmp_path: Path) -> None:
    names = {one.name for one in ENGINES}
    async with open_test_node(tmp_path / "none") as node:
        data = (await node.get("/v1/status", key=None)).json["data"]
        assert names.isdisjoint(data["platforms"]["web"]["sources"])
        callable_ = {one.site.platform.slug for one in node.node.catalog.available()}
        assert data["platforms"].keys() == callable_
    search = {"search": {"searxng_url": "http://127.0.0.1:9"}}
    async with open_test_node(tmp_path / "one", web=search) as node:
        data = (await node.get("/v1/status", key=None)).json["data"]
        assert names & data["platforms"]["web"]["sources"].keys() == {"searxng"}


async def test_unknown_discover_run_has_its_own_error(node: OpenNode) -> None:
    own = "/v1/prism/discover/runs/dr_01a1fd7028fd7bba92988ba98f5dc154"
    calls: tuple[tuple[str, str, Any], ...] = (
        ("GET", own, None),
        ("GET", f"{own}?changes_since=0", None),
        ("GET", f"{own}/results.jsonl", None),
        ("PATCH", own, {"status": "paused"}),
        ("DELETE", own, None),
    )
    for method, path, body in calls:
        status, answer = await ask(node, method, path, body)
        assert (status, answer["error"]["details"]["reason"]) == (404, "unknown_run"), (method, path)
        assert "discover run" in answer["error"]["message"]


@pytest.mark.parametrize("kind", ["batch-scrape", "crawl"])
async def test_job_without_any_page_has_failed(node: OpenNode, kind: str) -> None:
    node.upstream.script = lambda _asked: ScriptedAnswer(404, b"gone", headers={"content-type": "text/html"})
    where = {"urls": ["https://a.example.org/1", "https://a.example.org/2"]}
    body: dict[str, Any] = where if kind == "batch-scrape" else {"url": "https://a.example.org/1", "limit": 2}
    status, begun = await ask(node, "POST", f"/v1/web/{kind}", body)
    assert status == 202, begun
    with trio.fail_after(60):
        place = f"/v1/web/jobs/{begun['data']['job_id']}"
        while (job := (await ask(node, "GET", place))[1]["data"])["finished_at"] is None:  # noqa: ASYNC110 - the node's
            await trio.sleep(0.05)
    assert (job["status"], job["progress"]["done"], job["credits"]["used"]) == ("failed", 0, 0)
    assert job["credits"]["refunded"] == job["credits"]["reserved"]


CODE = re.compile(r"[a-z]+(_[a-z0-9]+)*|[A-Z]+(_[A-Z]+)*")


CODED = ("code", "reason", "skip_reason", "stopped_because", "closed_because", "paused_because", "error_code")


def examples_of(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Return the names and texts of all fields in a document's examples that contain codes."""
    if isinstance(value, dict):
        fields = [(key, one) for key, one in value.items() if key != "confidence"]  # a word, not a code
        return [pair for key, one in fields for pair in examples_of(one, key)]
    if isinstance(value, list):
        return [pair for one in value for pair in examples_of(one, name)]
    return [(name, value)] if name in CODED and isinstance(value, str) else []


def choices_of(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Return the names of such fields in schemas, with their choices and examples."""
    found: list[tuple[str, str]] = []
    if isinstance(value, list):
        return [pair for one in value for pair in choices_of(one, name)]
    if isinstance(value, dict):
        if name in CODED:
            found = [(name, one) for one in (*value.get("enum", ()), *value.get("examples", ())) if one is not None]
        for key, one in value.items():
            inner = {"anyOf": name, "items": name, "oneOf": name, "allOf": name}.get(key, key)
            found += choices_of(one, inner)
    return found


async def test_every_code_field_contains_codes_and_listed_endpoints_are_available(node: OpenNode) -> None:
    """Method: the schemas of the OpenAPI document, and the examples of every guide."""
    document = (await node.get("/v1/openapi.json", key=None)).json
    declared = choices_of(document["components"])
    shown = list[tuple[str, str]]()
    for entry in await listed(node):
        guide = await guide_of(node, entry["id"], entry["method"])
        assert guide["availability"]["available"], entry["id"]
        shown += examples_of(guide["response"]) + examples_of(guide["errors"])
    assert len(declared) > 10
    assert len(shown) > 100
    assert [one for one in {*declared, *shown} if not CODE.fullmatch(str(one[1]))] == []


async def test_failure_reasons_of_runs_and_rows_are_codes(node: OpenNode) -> None:
    """Goal: programs can branch on the reasons. Method: rows of a batch and a Monitor's run fail."""
    node.upstream.script = lambda _asked: ScriptedAnswer(500, b"no")
    urls = {"urls": ["https://example.com/nothing", "https://bit.ly/x", "https://news.ycombinator.com/item?id=1"]}
    stats = (await ask(node, "POST", "/v1/prism/post-stats", urls))[1]["data"]["results"]
    assert [row["status"] for row in stats] == ["unsupported", "unsupported", "failed"]
    assert all(CODE.fullmatch(row["ext"]["reason"]) for row in stats), stats
    assert all(row["ext"]["message"] for row in stats[:2])
    body = {
        "recipe": "github/profile",
        "params": {"handle": "a"},
        "cadence": "daily",
        "webhook_url": "https://example.com/",
    }
    _, made = await ask(node, "POST", MONITORS, {**body, "run_now": True})
    with trio.fail_after(60):
        while True:
            place = f"{MONITORS}/{made['monitor']['id']}/runs"
            (run,) = (await ask(node, "GET", place))[1]["data"]["items"]
            if run["status"] == "failed":
                break
            await trio.sleep(0.05)
    assert (run["skip_reason"], run["credits_used"]) == ("UPSTREAM_ERROR", 0)
    assert "500" in run["warnings"][0]


async def test_test_delivery_is_not_a_redelivery(tmp_path: Path) -> None:
    insecure = {"allow_insecure_targets": True}
    async with (
        open_upstream_server(always(reply(b"taken"))) as receiver,
        open_test_node(tmp_path, webhooks=insecure) as node,
    ):
        _, made = await ask(node, "POST", "/v1/webhooks", {"url": f"{receiver.url}/hook", "types": ["*"]})
        own = f"/v1/webhooks/{made['data']['webhook']['id']}"
        status, _ = await ask(node, "POST", f"{own}/test", {})
        assert status in (200, 202)
        with trio.fail_after(60):
            while True:
                (delivery,) = (await ask(node, "GET", f"{own}/deliveries"))[1]["data"]["items"]
                if delivery["status"] == "delivered":
                    break
                await trio.sleep(0.05)
        assert delivery["redelivered"] is False
        assert (await ask(node, "POST", f"{own}/deliveries/{delivery['id']}/redeliver", {}))[0] in (200, 202)
        (again,) = (await ask(node, "GET", f"{own}/deliveries"))[1]["data"]["items"]
        assert again["redelivered"] is True
