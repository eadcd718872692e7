"""Pages that a cached robots.txt disallows, on a whole node: each is refused alone, and no other result is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.asking import ask
from tests.gateway.api.routes.test_jobs import ended
from tests.gateway.dashboard.owner import Owner, open_owned_node

HOST = "site.example.com"
HOME = f"https://{HOST}/"
FORBIDDEN = f"{HOME}private/x"
HTML = {"content-type": "text/html"}
RULES = b"User-agent: *\nDisallow: /private/\n"


def site(asked: str) -> ScriptedAnswer:
    """Return a page that links to a disallowed page, or the site's robots.txt."""
    if asked == f"{HOST}/robots.txt":
        return ScriptedAnswer(200, RULES, {"content-type": "text/plain"})
    links = "".join(f'<a href="/{path}">{path}</a> ' for path in ("private/x", "a", "b"))
    text = f"<p>The page {asked} has a text that is long enough to be one, and says little.</p>{links}"
    return ScriptedAnswer(200, f"<html><title>{asked}</title><body><main>{text}</main></body></html>".encode(), HTML)


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    """An owner on a node that has cached the site's robots.txt."""
    async with open_owned_node(tmp_path) as opened:
        node = opened.node
        node.upstream.script = site
        assert (await ask(node, "GET", f"/v1/web/scrape?url={HOME}"))[0] == 200
        yield opened
        assert f"{HOST}/private/x" not in node.upstream.requests
        await node.assert_sound()


async def test_disallowed_page_is_refused_for_free_and_one_missing_row_of_a_batch_or_crawl(owner: Owner) -> None:
    money = await owner.node.money()
    for query in ("", "&dry_run=1"):
        status, refused = await ask(owner.node, "GET", f"/v1/web/scrape?url={FORBIDDEN}{query}")
        assert (status, refused["error"]["details"]["reason"]) == (404, "robots_disallowed")
        assert refused["credits_used"] == 0
        assert await owner.node.entries(refused["request_id"]) == []
    assert await owner.node.money() == money
    for path, body in (("batch-scrape", {"urls": [FORBIDDEN, f"{HOME}a"]}), ("crawl", {"url": HOME, "limit": 3})):
        status, begun = await ask(owner.node, "POST", f"/v1/web/{path}", body)
        assert status == 202
        job = await ended(owner.node, begun["data"]["job_id"])
        progress = job["progress"]
        assert (job["status"], progress["empty"], progress["failed"]) == ("completed", 1, 0), path
        assert progress["done"] == progress["planned"] - 1 > 0, "no other result is lost"
        _, errors = await ask(owner.node, "GET", f"/v1/web/jobs/{job['job_id']}/errors")
        (error,) = errors["data"]["items"]
        assert (error["url"], error["status"], error["error"]) == (FORBIDDEN, "empty", "robots_disallowed")


async def test_monitor_or_watch_of_a_disallowed_page_shows_why_it_fails(owner: Owner) -> None:
    node = owner.node
    recipe: dict[str, object] = {"recipe": "web/scrape", "params": {"url": FORBIDDEN}, "cadence": "daily"}
    recipe["track"] = {"metrics": ["page.status_code"]}
    status, made = await ask(node, "POST", "/v1/monitors", recipe)
    assert status == 201
    monitor = made["monitor"]["id"]
    for day in (30, 31):
        await node.operate("monitor.run", monitor=monitor, slot=f"2026-01-{day}T07:00:00Z")
    status, shown = await ask(node, "GET", f"/v1/monitors/{monitor}")
    assert (status, shown["data"]["monitor"]["estimated_cost_per_run"]) == (200, 2)
    _, page = await ask(node, "GET", f"/v1/monitors/{monitor}/runs")
    assert len(page["data"]["items"]) == 2
    for run in page["data"]["items"]:
        assert (run["status"], run["credits_used"]) == ("failed", 0)
        assert run["skip_reason"] == "robots_disallowed"
        assert "robots.txt disallows this page" in run["warnings"][0]
    assert (await ask(node, "PATCH", f"/v1/monitors/{monitor}", {"name": "Other"}))[0] == 200
    assert (await owner.get("/monitors")).status_code == 200
    assert "Other" in owner.words
    status, made = await ask(node, "POST", "/v1/web/monitors", {"url": FORBIDDEN, "cadence_minutes": 60})
    assert status == 201
    watch = made["data"]["monitor"]["monitor_id"]
    for hour in (1, 2):
        await node.operate("monitor.run", monitor=watch, slot=f"2026-01-31T{hour:02d}:00:00Z")
    _, page = await ask(node, "GET", f"/v1/web/monitors/{watch}/checks")
    assert [one["status"] for one in page["data"]["items"]] == ["failed", "failed"]
