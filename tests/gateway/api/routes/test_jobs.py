"""Web jobs over HTTP, on a whole node whose egress leads to a simulated site (decisions 17 and 21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.asking import ask

HOST = "site.example.com"
HOME = f"https://{HOST}/"
PAGES = {"": ("a", "b", "gone"), "a": ("a/1", "a/2"), "b": (), "a/1": (), "a/2": ()}
HTML = {"content-type": "text/html"}


def site(asked: str) -> ScriptedAnswer:
    """Return a page of a small site, or a 404 for any other URL."""
    path = asked.removeprefix(f"{HOST}/")
    if path not in PAGES:
        return ScriptedAnswer(404, b"", HTML)
    links = "".join(f'<a href="/{one}">{one}</a> ' for one in PAGES[path])
    text = f"<p>The page {path or 'of all pages'} has a text that is long enough to be one, and says little.</p>"
    return ScriptedAnswer(
        200, f"<html><title>{path}</title><body><main>{text}{links}</main></body></html>".encode(), HTML
    )


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OpenNode]:
    async with open_test_node(tmp_path, credits=500) as opened:
        opened.upstream.script = site
        yield opened
        await opened.assert_sound()


async def ended(node: OpenNode, job_id: str) -> Any:
    """Return the job after it has ended."""
    while True:
        _, answer = await ask(node, "GET", f"/v1/web/jobs/{job_id}")
        if answer["data"]["finished_at"] is not None:
            return answer["data"]
        await trio.sleep(0.05)


async def test_crawl_lifecycle_from_price_to_results(node: OpenNode) -> None:
    status, priced = await ask(node, "POST", "/v1/web/crawl?dry_run=1", {"url": HOME, "limit": 20})
    assert (status, priced["data"]["estimated_credits"], priced["credits_used"]) == (200, 20, 0)
    status, refused = await ask(node, "POST", "/v1/web/crawl?max_credits=19", {"url": HOME, "limit": 20})
    assert (status, refused["error"]["details"]["reason"]) == (402, "above_max_credits")
    status, begun = await ask(node, "POST", "/v1/web/crawl", {"url": HOME, "limit": 20})
    job = begun["data"]
    assert (status, begun["platform"], job["kind"], job["credits"]["reserved"]) == (202, "web", "crawl", 20)
    assert job["links"]["job"] == f"{node.url}/v1/web/jobs/{job['job_id']}"
    done = await ended(node, job["job_id"])
    assert (done["status"], done["progress"]) == (
        "completed",
        {"planned": 6, "done": 5, "empty": 1, "failed": 0, "pending": 0, "skipped": 0},
    )
    assert done["credits"] == {"reserved": 20, "used": 5, "refunded": 15}
    _, first = await ask(node, "GET", f"/v1/web/jobs/{job['job_id']}/results?limit=3")
    _, rest = await ask(
        node, "GET", f"/v1/web/jobs/{job['job_id']}/results?limit=3&cursor={first['pagination']['next_cursor']}"
    )
    rows = first["data"]["items"] + rest["data"]["items"]
    assert [(row["depth"], row["url"].removeprefix(HOME)) for row in rows] == [
        (0, ""), (1, "a"), (1, "b"), (2, "a/1"), (2, "a/2"),
    ]  # fmt: skip
    assert (first["pagination"]["has_more"], rest["pagination"]["has_more"]) == (True, False)
    assert "long enough to be one" in rows[1]["page"]["content"]["markdown"]
    lines = (await node.get(f"/v1/web/jobs/{job['job_id']}/results.jsonl")).body.splitlines()
    assert [orjson.loads(line) for line in lines] == rows
    _, errors = await ask(node, "GET", f"/v1/web/jobs/{job['job_id']}/errors")
    (error,) = errors["data"]["items"]
    assert (error["url"], error["status"], error["error"]) == (f"{HOME}gone", "empty", "RESOURCE_NOT_FOUND")
    _, listed = await ask(node, "GET", "/v1/web/jobs")
    assert [one["job_id"] for one in listed["data"]["items"]] == [job["job_id"]]
    _, moved = await ask(node, "GET", "/v1/credits/transactions")
    refund, deduction = [(one["type"], one["amount"], one["endpoint"]) for one in moved["data"]["items"][:2]]
    assert (refund, deduction) == (("refund", 15, "/v1/web/crawl"), ("deduction", -20, "/v1/web/crawl"))


async def test_batch_with_idempotency_key_reads_each_page_once(node: OpenNode) -> None:
    body = {"urls": [f"{HOME}a#top", f"{HOME}a", f"{HOME}gone", "no address"], "ignore_invalid_urls": True}
    first = await ask(node, "POST", "/v1/web/batch-scrape", body, idempotency_key="batch-1")
    again = await ask(node, "POST", "/v1/web/batch-scrape", body, idempotency_key="batch-1")
    assert (first[0], again[0], again[1]["replayed"]) == (202, 202, True)
    assert first[1]["data"]["job_id"] == again[1]["data"]["job_id"]
    done = await ended(node, first[1]["data"]["job_id"])
    assert (done["status"], done["credits"]) == ("completed", {"reserved": 2, "used": 1, "refunded": 1})


async def test_job_is_paused_resumed_and_cancelled(node: OpenNode) -> None:
    with node.upstream.holding():
        _, begun = await ask(node, "POST", "/v1/web/crawl", {"url": HOME, "limit": 20})
        place = f"/v1/web/jobs/{begun['data']['job_id']}"
        _, paused = await ask(node, "PATCH", place, {"status": "paused"})
        assert (paused["data"]["status"], paused["data"]["stopped_because"]) == ("paused", "owner")
        _, going = await ask(node, "PATCH", place, {"status": "running"})
        assert going["data"]["status"] in ("queued", "running")

        status, cancelled = await ask(node, "DELETE", place)
        assert (status, cancelled["data"]["status"], cancelled["data"]["credits"]["refunded"]) == (200, "cancelled", 20)
        status, over = await ask(node, "PATCH", place, {"status": "paused"})
        assert (status, over["error"]["details"]["reason"]) == (400, "job_over")
    assert await node.money() == (500, 0)


INVALID: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("crawl", {"url": "ftp://site.example.com/"}, "url"),
    ("crawl", {"url": "http://127.0.0.1/"}, "url"),
    ("crawl", {"url": HOME, "exclude_paths": [""]}, "exclude_paths[0]"),
    ("crawl", {"url": HOME, "formats": ["pictures"]}, "formats"),
    ("crawl", {"url": HOME, "webhook_url": "https://127.0.0.1/hook"}, "webhook_url"),
    ("crawl", {"url": HOME, "webhook_secret": "a secret of my own"}, "webhook_secret"),
    ("batch-scrape", {"urls": ["no address"]}, "urls[0]"),
    ("batch-scrape", {"urls": [HOME] * 1_001}, "urls"),
)


async def test_rejection_names_invalid_field_and_is_free(node: OpenNode) -> None:
    for path, body, param in INVALID:
        status, answer = await ask(node, "POST", f"/v1/web/{path}", body)
        details = answer["error"]["details"]
        assert (status, details["param"], answer["credits_used"]) == (400, param, 0), (path, body)
    status, answer = await ask(node, "PATCH", "/v1/web/jobs/job_1", {"status": "stopped"})
    assert (status, answer["error"]["details"]["param"]) == (400, "status")
    status, answer = await ask(node, "POST", "/v1/web/crawl", {"url": HOME, "limit": 501})
    assert (status, answer["error"]["type"], answer["credits_remaining"]) == (402, "INSUFFICIENT_CREDITS", 500)
    assert (await ask(node, "GET", "/v1/web/jobs"))[1]["data"]["items"] == []
