"""Composites as recipes of monitors: their metrics are tracked, and alert rules on them fire (decisions 18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.feeding import post
from tests.fakes.monitoring import MONITORS
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.fakes.upstream_server import always, open_upstream_server, reply, until
from tests.spec.monitor_life import SLOTS, open_life
from tests.upstreams.composites.prism.insight.legs import hit

Script = Callable[[str], ScriptedAnswer | None]
Recipe = dict[str, Any]

HOURLY = {"cadence": "hourly"}
CARD = {"recipe": "prism/creator-card", "params": {"handle": "ada", "platforms": "lemmy,mastodon"}}
AUDIT = {"recipe": "prism/handle-audit", "params": {"handle": "ada", "platforms": "lemmy,mastodon"}}
EVERYWHERE = {"recipe": "search/everywhere", "params": {"query": "trio"}}
COMMENTS = {"recipe": "prism/comments", "params": {"url": "https://news.ycombinator.com/item?id=8863"}}


async def made(node: OpenNode, **body: Any) -> Any:
    return await post(node, f"{MONITORS}?dry_run=1", orjson.dumps({**HOURLY, **body}))


PRICED = (
    (CARD, ["totals.followers", "totals.platforms", "coverage"], None, 6),
    (AUDIT, ["score", "score_components.audience", "available_weight"], None, 6),
    (EVERYWHERE, ["items[].score", "items[].post.engagement.likes"], "post.id", 21),
    (COMMENTS, ["items[].comment.engagement.likes", "scanned"], None, 3),
)


async def test_monitor_of_composite_metrics_and_rules_is_created_at_its_price(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for recipe, metrics, row_key, cost in PRICED:
            track = {"metrics": metrics} | ({"row_key": row_key} if row_key else {})
            rules = [{"metric": metrics[0], "op": "gt", "value": 1}]
            answer = await made(node, **recipe, track=track, alert_rules=rules)
            assert answer.status in (200, 201), answer.body
            assert answer.json["data"]["monitor"]["estimated_cost_per_run"] == cost, recipe


async def test_metric_that_is_unknown_or_a_text_is_rejected_with_a_hint(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for recipe, metric, hint in ((CARD, "followers", "totals.followers"), (FIRED["pulse"][0], "pulse", "text")):
            answer = await made(node, **recipe, track={"metrics": [metric]})
            assert (answer.status, hint in answer.body.decode()) == (400, True)


ALGOLIA = "hn.algolia.com/api/v1/search_by_date"
ISSUES = 90


def followers_of(followers: int) -> Script:
    """Return a script in which Mastodon has the account, with this many followers."""
    account = {"id": "1", "username": "ada", "acct": "ada", "followers_count": followers}
    return lambda asked: json_answer(account if asked.startswith("mastodon.social/") else {})


def mentions(today: int) -> Script:
    """Return a script with one mention a day for a week, and this many on the last day."""
    usual = [hit(day, f"2025-01-0{day}", "Why Acme reads files") for day in range(3, 10)]
    rows = [*(hit(100 + place, "2025-01-10", "Acme crashed again") for place in range(today)), *reversed(usual)]
    body = {"hits": rows, "nbHits": len(rows), "nbPages": 1, "page": 0}
    return lambda asked: json_answer(body if asked.startswith(ALGOLIA) else {}, 200)


def open_issues_of(open_issues: int) -> Script:
    """Return a script of a repository with 2,000 stars, no release, and this many open issues."""
    repo = {"id": 7, "full_name": "ada/acme", "stargazers_count": 2_000, "open_issues_count": open_issues}

    def script(asked: str) -> ScriptedAnswer | None:
        return (
            json_answer(repo)
            if asked == "api.github.com/repos/ada/acme"
            else json_answer({"message": "Not Found"}, 404)
        )

    return script


FIRED: Mapping[str, tuple[Recipe, str, str, float, tuple[Script, Script], tuple[float, float]]] = {
    "totals.followers": (
        {"recipe": "prism/creator-card", "params": {"handle": "ada", "platforms": "mastodon"}},
        "totals.followers",
        "gt",
        50,
        (followers_of(40), followers_of(90)),
        (40, 90),
    ),
    "z_volume": (
        {
            "recipe": "prism/crisis-radar",
            "params": {"brand": "Acme", "platforms": "hackernews", "date_to": "2025-01-10"},
        },
        "z_volume",
        "gte",
        2,
        (mentions(1), mentions(6)),
        (0.0, 5.0),  # (1 - 1) / 1 and (6 - 1) / 1
    ),
    "pulse": (
        {"recipe": "prism/devtool-pulse", "params": {"query": "Acme", "repo": "ada/acme", "include": "dossier"}},
        "score",
        "lt",
        45,
        (open_issues_of(40), open_issues_of(ISSUES)),
        (60, 10),  # 100 x (1 - 20/50) and 100 x (1 - 45/50)
    ),
}


@pytest.mark.parametrize(
    ("name", "tracks"), [("totals.followers", False), *((name, True) for name in FIRED)], ids=["untracked", *FIRED]
)
async def test_composite_rule_fires_and_is_delivered(name: str, tmp_path: Path, *, tracks: bool) -> None:
    """Goal: an alert reaches the receiver. Method: two runs; the second one exceeds the limit."""
    recipe, metric, op, value, scripts, expected = FIRED[name]
    async with open_upstream_server(always(reply(b"thanks"))) as receiver:
        body = {**recipe, **HOURLY, "alert_rules": [{"metric": metric, "op": op, "value": value}]}
        own = {"webhook_url": f"{receiver.url}/hook", "suppress_webhook_unless_alert": True}
        track = {"track": {"metrics": [metric]}} if tracks else {}
        async with open_life(tmp_path, {**body, **own, **track}, credits=1_000) as life:
            for slot, script in zip(SLOTS[:2], scripts, strict=True):
                life.node.upstream.script = script
                record = await life.run(slot)
                assert record["status"] in ("ok", "partial"), record
            await until(lambda: len(receiver.requests) == 1)
            payload = orjson.loads(receiver.requests[0].partition(b"\r\n\r\n")[2])
            assert payload["run_id"] == life.runs[1]["run_id"]
            (alert,) = payload["alerts_fired"]
            assert (alert["metric"], alert["op"], alert["to"]) == (metric, op, expected[1])
            points = (await life.data(f"/timeseries?metric={metric}"))["points"]
            assert [one["metrics"][metric] for one in points] == list(expected)
            events = (await life.node.get("/v1/events?types=monitor.alert_fired")).json["data"]["items"]
            assert [one["subject"]["id"] for one in events] == [life.runs[1]["run_id"]]
            await life.assert_paid()


async def test_text_field_of_a_composite_is_not_a_metric(tmp_path: Path) -> None:
    recipe = FIRED["pulse"][0]
    async with open_test_node(tmp_path) as node:
        answer = await made(node, **recipe, track={"metrics": ["pulse"]})
        assert (answer.status, "text" in answer.body.decode()) == (400, True)


async def test_crisis_radar_bills_its_second_round_only_after_a_breach(tmp_path: Path) -> None:
    """Goal: 45 credits are held; one round costs 15, two cost 45. Method: two days over HTTP.

    The legs add up to the cost.
    """
    async with open_test_node(tmp_path) as node:
        for brand, today, cost in (("Acme", 0, 15), ("acme", 6, 45)):
            spoken = mentions(today)
            node.upstream.script = lambda asked, spoken=spoken: spoken(asked) if asked.startswith(ALGOLIA) else None  # type: ignore[misc]
            target = f"/v1/prism/crisis-radar?brand={brand}&platforms=hackernews&date_to=2025-01-10&confirm=true"
            dry = (await node.get(f"{target}&dry_run=1")).json["data"]
            assert (dry["estimated_credits"], dry["reserved_credits"]) == (15, 45)
            answer = (await node.get(target)).json
            assert answer["credits_used"] == cost == await node.net(answer["request_id"])
            assert sum(leg["credits_used"] for leg in answer["data"]["legs"]) == cost
            assert (answer["data"]["severity"] is None) is (cost == 15)
            assert answer["data"]["partial_failure"] is False
        await node.assert_sound()
