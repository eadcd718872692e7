"""GitHub's GraphQL reads of many accounts or issues in one call, which batches use if there is a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.gateway.calls.test_batches import PROFILES, STATS, assert_billed, post
from upstreams.model.params import Args
from upstreams.platforms.github import graphql

TOKEN: dict[str, Any] = {"defaults": {"retries": 0}, "github": {"token_env": "TEST_TOKEN"}}
ENVIRON = {"TEST_TOKEN": "a-token-of-tests"}
ISSUE = "https://github.com/ada/tools/issues/{}"
NOT_FOUND = {"type": "NOT_FOUND", "message": "Could not resolve."}


def node_of(number: int) -> dict[str, Any]:
    """An issue as GraphQL returns it."""
    counted = {"totalCount": number}
    return {"issue": {"type": "Issue", "number": number, "title": "One", "comments": counted, "reactions": counted}}


async def test_fifty_issues_share_a_query_and_match_single_reads(tmp_path: Path) -> None:
    urls = [ISSUE.format(number) for number in range(1, 61)]
    async with open_test_node(tmp_path, upstreams=TOKEN, environ=ENVIRON) as node:
        data = await assert_billed(node, await post(node, STATS, {"urls": urls}))
        assert node.upstream.requests == ["api.github.com/graphql"] * 2, "50 in one query"
        assert [leg["rows"] for leg in data["legs"]] == [50, 10]
        for row in data["results"][:3]:
            single = (await node.get(f"/v1/github/issue?url={row['input']}")).json["data"]["post"]
            assert row["record"]["engagement"] == single["engagement"]
            assert row["record"]["id"] == single["id"]


async def test_batch_of_accounts_matches_single_reads_and_reports_missing_ones(tmp_path: Path) -> None:
    names = ["octocat", "missing-one", "torvalds", "dependabot[bot]"]
    items = [{"platform": "github", "handle": name} for name in names]
    async with open_test_node(tmp_path, upstreams=TOKEN, environ=ENVIRON) as node:
        data = await assert_billed(node, await post(node, PROFILES, {"items": items}))
        assert [row["status"] for row in data["results"]] == ["ok", "not_found", "ok", "ok"]
        single = (await node.get("/v1/github/profile?handle=torvalds")).json["data"]["author"]
        assert data["results"][2]["record"] == single


async def test_moved_issue_is_read_from_rest(tmp_path: Path) -> None:
    """Goal: a moved issue is found. Method: GraphQL reports it as missing, and only REST leads to its new location."""

    def script(asked: str) -> ScriptedAnswer | None:
        if asked.endswith("/graphql"):
            data = {"one_0": node_of(1), "one_1": {"issue": None}, "one_2": None}
            return json_answer(
                {"data": data, "errors": [{**NOT_FOUND, "path": ["one_1", "issue"]}, {**NOT_FOUND, "path": ["one_2"]}]}
            )
        return (
            json_answer({"number": 77, "title": "Moved", "comments": 5})
            if asked.endswith("/issues/2")
            else json_answer({}, 404)
        )

    urls = [ISSUE.format(1), ISSUE.format(2), "https://github.com/nobody/nothing/issues/3"]
    async with open_test_node(tmp_path, upstreams=TOKEN, environ=ENVIRON) as node:
        node.upstream.script = script
        data = await assert_billed(node, await post(node, STATS, {"urls": urls}))
        assert [row["status"] for row in data["results"]] == ["ok", "ok", "not_found"]
        assert data["results"][1]["record"]["engagement"]["comments"] == 5
        assert [one for one in node.upstream.requests if "/repos/" in one] == [
            "api.github.com/repos/ada/tools/issues/2"
        ]


async def test_exhausted_quota_fails_its_rows_for_free(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, upstreams=TOKEN, environ=ENVIRON) as node:
        node.upstream.always(json_answer({"data": None, "errors": [{"type": "RATE_LIMITED", "message": "no"}]}))
        answer = await post(node, STATS, {"urls": [ISSUE.format(1), ISSUE.format(2)]})
        data = await assert_billed(node, answer)
        assert {row["status"] for row in data["results"]} == {"failed"}
        assert answer.json["credits_used"] == 0


def test_caller_values_are_sent_as_variables() -> None:
    """Goal: a value from a caller never becomes part of a query's text."""

    call = next(graphql.issues(["ada/tools/5", "bob/x/6"], Args({})))
    assert call.json["variables"] == {
        "owner_0": "ada",
        "name_0": "tools",
        "number_0": 5,
        "owner_1": "bob",
        "name_1": "x",
        "number_1": 6,
    }
    assert b"ada" not in orjson.dumps(call.json["query"])
