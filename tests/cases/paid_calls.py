"""A request for every declared route that costs credits and is not a data endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
import trio

from gateway.http.routing import SOURCE
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode
from tests.fakes.panel import Panel
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.test_cohorts import ADA, QUERY

STORY: Final = "https://news.ycombinator.com/item?id={}"
COHORT: Final = "/v1/cohorts/{cohort_id}/queries"
PARSE: Final = "/v1/web/parse"
SESSIONS: Final = "/v1/web/sessions"
DEAD_BROWSER: Final = {"browser_url": "http://127.0.0.1:1"}
"""A `[web]` table with which sessions are offered, but none can be opened."""
BODIES: Final[dict[str, Any]] = {
    "/v1/prism/post-stats": {"urls": [STORY.format(8863)]},
    "/v1/prism/comment-lookup": {"urls": [STORY.format(2921983)]},
    "/v1/prism/profiles": {"items": [{"platform": "github", "handle": "octocat"}]},
    "/v1/peertube/transcripts": {"ids": ["kkGMgK9ZtnKfYAgnEtQxbv"]},
    "/v1/youtube/videos": {"ids": ["dQw4w9WgXcQ"]},
    "/v1/youtube/channels": {"ids": ["UC_x5XG1OV2P6uZZ5FSM9Ttw"]},
    "/v1/web/crawl": {"url": "https://example.com/", "limit": 1},
    "/v1/web/batch-scrape": {"urls": ["https://example.com/"]},
    "/v1/prism/discover/runs": {
        "keywords": ["trio"],
        "platforms": ["hackernews"],
        "max_credits": 2,
        "background": True,
    },
    COHORT: QUERY,
    SESSIONS: {"url": "https://example.com/"},
    PARSE: None,
}
"""The JSON body for each path; None for a path that takes a file."""
_ENDS: Final = {"job_id": "/v1/web/jobs/", "run_id": "/v1/prism/discover/runs/", "query_id": "/v1/cohort-queries/"}
_PAGE: Final = b"<html><head><title>Bread</title></head><body><p>Bread is made of flour and water.</p></body></html>"


def paid_routes(node: OpenNode) -> set[str]:
    """Return the paths of the routes that declare a price and have a source. Each must have an entry in `BODIES`."""
    paths = {
        one.route.path
        for one in node.node.description.reference.operations
        if one.route.doc is not None and one.route.doc.price is not None and SOURCE not in one.route.lacks
    }
    assert paths == BODIES.keys()
    return paths


async def send(node: OpenNode, method: str, path: str, key: str, body: object = None) -> Answered:
    """Send a JSON body with the test's own key."""
    headers = {"x-api-key": key, "content-type": "application/json"}
    content = None if body is None else orjson.dumps(body)
    answer = await node.client.request(method, node.url + path, headers=headers, content=content)
    return Answered(answer.status_code, dict(answer.headers), answer.content)


async def send_paid(
    node: OpenNode,
    path: str,
    key: str,
    query: str = "",
    *,
    script: Callable[[str], ScriptedAnswer | None] | None = None,
) -> Answered:
    """Send the request of an entry in `BODIES`. For a query, a cohort is created with a member who has posts.

    `script` replaces the upstreams' answers.
    """
    node.upstream.script = script or (Panel({"ada.test": ADA}) if path == COHORT else node.upstream.script)
    if path == PARSE:
        files = {"file": ("page.html", _PAGE)}
        answer = await node.client.post(f"{node.url}{path}{query}", headers={"x-api-key": key}, files=files)
        return Answered(answer.status_code, dict(answer.headers), answer.content)
    if path != COHORT:
        return await send(node, "POST", path + query, key, BODIES[path])
    cohort = (await send(node, "POST", "/v1/cohorts", node.key, {})).json["data"]["id"]
    members = [{"platform": "bluesky", "handle": "ada.test", "external_id": "1"}]
    put = await send(node, "PUT", f"/v1/cohorts/{cohort}/members", node.key, {"members": members})
    assert put.status == 200, put.body
    return await send(node, "POST", path.format(cohort_id=cohort) + query, key, BODIES[path])


async def ended(node: OpenNode, answer: Answered) -> None:
    """Wait until the work that a request has started ends or is paused."""
    data = answer.json.get("data") or {}
    place = next((place + data[name] for name, place in _ENDS.items() if name in data), None)
    if place is not None:
        await settled(node, place)


async def settled(node: OpenNode, place: str) -> None:
    """Wait until the job or run at this path ends or is paused."""
    with trio.fail_after(60):
        while True:
            if (await node.get(place)).json["data"]["status"] not in ("queued", "running"):
                return
            await trio.sleep(0.05)
