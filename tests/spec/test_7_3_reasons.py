"""Section 7.3: the values of `details.reason` that can occur so far, with requests that cause them.

`tests/gateway/http/test_params.py` checks which parameter values get which reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.http.errors import CORRECT
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from tests.spec.refusals import assert_free, assert_refused
from tests.spec.shared_node import check_cases

BROUGHT_BY = {
    "video platforms (4.1)": {"captions_disabled", "no_captions", "login_required", "video_gone"},
}
"""The part of the service that will add the reasons that cannot occur yet."""
OF_THE_FEED = {"conflicting_params", "unknown_consumer", "retention_passed", "store_unavailable"}
"""`test_7_4_feed_failures.py` has their rows."""
SPEC = {"invalid_utf8", "double_encoded", "invalid_param", "account_private", "account_gone"}.union(
    OF_THE_FEED, *BROUGHT_BY.values()
)


@dataclass(frozen=True, slots=True)
class ReasonCase:
    """A request, the upstream's response if it is called, and the reason."""

    target: str
    code: str
    reason: str | None
    answer: ScriptedAnswer | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def utf8(target: str) -> ReasonCase:
    return ReasonCase(target, "INVALID_REQUEST", "invalid_utf8")


def twice(target: str) -> ReasonCase:
    return ReasonCase(target, "INVALID_REQUEST", "double_encoded")


def param(target: str, name: str) -> ReasonCase:
    return ReasonCase(target, "INVALID_REQUEST", "invalid_param", details={"param": name})


def bluesky(error: str, reason: str | None) -> ReasonCase:
    answer = json_answer({"error": error, "message": "the message of Bluesky"}, 400)
    return ReasonCase("/v1/bluesky/profile?handle=a.test", "RESOURCE_NOT_FOUND", reason, answer)


ROWS = {
    "a byte that is not UTF-8": utf8("/v1/github/profile?handle=%FF"),
    "a raw byte in a free read": utf8("/v1/utility/endpoints?search=%FF"),
    "a space, encoded twice": twice("/v1/github/search?query=structured%2520concurrency"),
    "a URL, encoded twice": twice("/v1/github/repo?url=https%253A%252F%252Fgithub.com%252Fa%252Fb"),
    "a required parameter missing": param("/v1/github/profile", "handle"),
    "a negative price": param("/v1/github/search?query=a&max_credits=-1", "max_credits"),
    "a URL of another site": param("/v1/github/repo?url=https://example.com/a/b", "url"),
    "a reason from Bluesky": bluesky("AccountTakedown", "account_gone"),
    "an account that was closed": bluesky("AccountDeactivated", "account_gone"),
    "an account that blocks": bluesky("BlockedByActor", "account_private"),
    "not found without a reason": bluesky("NotFound", None),
}


async def test_error_has_its_reason_and_is_free(tmp_path: Path) -> None:
    await check_cases(ROWS, _error_has_its_reason_and_is_free, tmp_path)


async def _error_has_its_reason_and_is_free(node: OpenNode, why: ReasonCase) -> None:
    node.upstream.always(why.answer)
    answer = await node.get(why.target)
    details = assert_refused(answer, why.code, 400 if why.code == "INVALID_REQUEST" else 404)
    assert details.get("reason") == why.reason
    assert {name: details.get(name) for name in why.details} == why.details
    assert bool(node.upstream.requests) == (why.answer is not None), "only a reason from the upstream needs a call"
    await assert_free(node, answer)


def test_every_specified_reason_is_tested_in_a_row_or_elsewhere() -> None:
    waiting = OF_THE_FEED.union(*BROUGHT_BY.values())
    assert {why.reason for why in ROWS.values() if why.reason} == SPEC - waiting


async def test_value_that_only_looks_double_encoded_is_served(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target in (
            "/v1/github/search?query=50%25%20off",
            "/v1/github/repo?url=https%3A%2F%2Fgithub.com%2Fa%2Fb%3Fq%3Dc%2520d",
        ):
            assert (await node.get(target)).status == 200, target


async def test_near_miss_gets_suggestion(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for target, near in (
            ("/v1/github/search?query=a&sort=create", {"did_you_mean": "created", "param": "sort"}),
            ("/v1/github/search?qurey=a", {"did_you_mean": "query", "remove_params": ["qurey"], "param": "qurey"}),
        ):
            details = assert_refused(await node.get(target), "INVALID_REQUEST", 400)
            assert details == {**near, "next_step": CORRECT}
