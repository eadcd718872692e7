"""Objects of an account are invisible to others: every route with an id is requested with another account's key."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from gateway.docs.guide import example_body
from gateway.docs.operations import ApiOperation
from scheduler.sessions import session_rows
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.asking import answered, ask
from tests.gateway.api.routes.test_cohorts import QUERY
from tests.gateway.api.test_statements_of_lists import DISCOVER, MONITOR, RUN, WATCH, session_of

HOOK = "http://127.0.0.1:9/hook"
OF_KEYS = ("consumer",)
"""Parameters whose values a caller chooses: a consumer with this name would belong to the other account."""


async def one_of_each(node: OpenNode) -> dict[str, dict[str, str]]:
    """Create an object of each kind. Return the ids in its routes, by the beginning of the routes."""

    async def made(target: str, body: object) -> Any:
        status, answer = await ask(node, "POST", target, body)
        assert status in (200, 201, 202), (target, answer)
        return answer.get("data", answer)

    monitor = (await made("/v1/monitors", {**MONITOR, "webhook_url": HOOK, "run_now": True}))["monitor"]["id"]
    monitor_run = (await node.get(f"/v1/monitors/{monitor}/runs")).json["data"]["items"][0]["run_id"]
    cohort = (await made("/v1/cohorts", {}))["id"]
    members = {"members": [{"platform": "bluesky", "handle": "ada.test"}]}
    assert (await ask(node, "PUT", f"/v1/cohorts/{cohort}/members", members))[0] == 200
    await node.node.stores.store.write(partial(session_rows.add_session, session=session_of(node, 0)))
    schedule = {"run": RUN, "cadence": "daily"}
    hook = {"url": HOOK, "types": ["*"]}
    return {
        "/v1/monitors": {"monitor_id": monitor, "run_id": monitor_run},
        "/v1/web/monitors": {"monitor_id": (await made("/v1/web/monitors", WATCH))["monitor"]["monitor_id"]},
        "/v1/webhooks": {"webhook_id": (await made("/v1/webhooks", hook))["webhook"]["id"]},
        "/v1/web/jobs": {"job_id": (await made("/v1/web/crawl", {"url": WATCH["url"]}))["job_id"]},
        "/v1/cohorts": {"cohort_id": cohort},
        "/v1/cohort-queries": {"query_id": (await made(f"/v1/cohorts/{cohort}/queries", QUERY))["query_id"]},
        f"{DISCOVER}/runs": {"run_id": (await made(f"{DISCOVER}/runs", {**RUN, "background": True}))["run_id"]},
        f"{DISCOVER}/schedules": {"schedule_id": (await made(f"{DISCOVER}/schedules", schedule))["schedule_id"]},
        "/v1/web/sessions": {"session_id": session_of(node, 0).id},
    }


async def test_other_accounts_objects_are_unknown_on_every_route(tmp_path: Path) -> None:
    """Goal: isolation. Method: an object of each kind; another account's key gets 404 from every route with an id."""
    async with open_test_node(tmp_path, webhooks={"allow_insecure_targets": True}) as node:
        node.upstream.always(ScriptedAnswer(404))
        with node.upstream.holding():
            ids = await one_of_each(node)
            owner, (other, _) = node.key, await node.new_key(await node.new_account())
            operations = [one for one in node.node.description.reference.operations if is_tried(one)]
            tried = set[str]()
            for operation in operations:
                begin, _, _ = operation.path.partition("/{")
                tried.add(begin)
                known = ids[begin]
                path = re.sub(r"\{(\w+)\}", lambda found, known=known: known.get(found[1], "whd_none"), operation.path)
                query = "?metric=author.followers" if path.endswith("chart.svg") else ""
                body = example_body(operation) if operation.body else None
                answer = await answered(node, operation.method, f"{path}{query}", body, x_api_key=other)
                assert answer.status_code == 404, (operation.method, path, answer.text)
                assert "octocat" not in answer.text
            assert tried == ids.keys()
            for begin, known in ids.items():
                assert (await node.get(f"{begin}/{next(iter(known.values()))}", key=owner)).status == 200, begin
            assert (await node.get("/v1/web/jobs", key=other)).json["data"]["items"] == []
            (job,) = (await node.get("/v1/web/jobs")).json["data"]["items"]
            assert job["job_id"] == ids["/v1/web/jobs"]["job_id"], "queries and runs are not web jobs"


def is_tried(operation: ApiOperation) -> bool:
    names = {param.name for param in operation.in_path}
    return bool(names) and names.isdisjoint(OF_KEYS) and not operation.path.endswith("/ws")
