"""Section 7.3: the values of `details.reason` that can arise so far, each with requests that bring it about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.node import open_test_node
from tests.fakes.scripted_upstream import Told, told
from tests.spec.refusals import assert_free, assert_refused

BROUGHT_BY = {
    "video platforms (4.1)": {"captions_disabled", "no_captions", "login_required", "video_gone"},
}
"""Which part of the service brings the reasons that cannot arise yet."""
OF_THE_FEED = {"conflicting_params", "unknown_consumer", "retention_passed", "store_unavailable"}
"""Their rows stand in `test_7_4_feed_failures.py`."""
SPEC = {"invalid_utf8", "double_encoded", "invalid_param", "account_private", "account_gone"}.union(
    OF_THE_FEED, *BROUGHT_BY.values()
)


@dataclass(frozen=True, slots=True)
class Why:
    """A request, what the upstream answers to it if it is asked, and the reason."""

    target: str
    code: str
    reason: str | None
    answer: Told | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def utf8(target: str) -> Why:
    return Why(target, "INVALID_REQUEST", "invalid_utf8")


def twice(target: str) -> Why:
    return Why(target, "INVALID_REQUEST", "double_encoded")


def param(target: str, name: str) -> Why:
    return Why(target, "INVALID_REQUEST", "invalid_param", details={"param": name})


def bluesky(error: str, reason: str | None) -> Why:
    answer = told({"error": error, "message": "as Bluesky says it"}, 400)
    return Why("/v1/bluesky/profile?handle=a.test", "RESOURCE_NOT_FOUND", reason, answer)


ROWS = {
    "a byte that is no UTF-8": utf8("/v1/github/profile?handle=%FF"),
    "UTF-8 that breaks off": utf8("/v1/github/profile?handle=caf%C3"),
    "U+FFFD itself": utf8("/v1/github/profile?handle=%EF%BF%BD"),
    "an overlong form": utf8("/v1/github/search?query=%C0%AF"),
    "a surrogate": utf8("/v1/github/search?query=%ED%A0%80"),
    "raw in a free read": utf8("/v1/utility/endpoints?search=%FF"),
    "a blank, encoded twice": twice("/v1/github/search?query=structured%2520concurrency"),
    "an umlaut, encoded twice": twice("/v1/github/search?query=caf%25C3%25A9"),
    "a slash, encoded twice": twice("/v1/github/profile?handle=a%252Fb"),
    "an address, encoded twice": twice("/v1/github/repo?url=https%253A%252F%252Fgithub.com%252Fa%252Fb"),
    "a free read, encoded twice": twice("/v1/utility/endpoints?search=a%2520b"),
    "a required parameter missing": param("/v1/github/profile", "handle"),
    "a required parameter empty": param("/v1/github/profile?handle=", "handle"),
    "sent more than once": param("/v1/github/profile?handle=a&handle=b", "handle"),
    "no number": param("/v1/github/search?query=a&limit=1.5", "limit"),
    "a number of other digits": param("/v1/github/search?query=a&limit=%D9%A1", "limit"),
    "below the minimum": param("/v1/github/search?query=a&limit=0", "limit"),
    "a negative price": param("/v1/github/search?query=a&max_credits=-1", "max_credits"),
    "neither true nor false": param("/v1/github/search?query=a&dry_run=perhaps", "dry_run"),
    "longer than allowed": param(f"/v1/github/profile?handle={'a' * 65}", "handle"),
    "an address elsewhere": param("/v1/github/repo?url=https://example.com/a/b", "url"),
    "a reason of Bluesky's": bluesky("AccountTakedown", "account_gone"),
    "an account that was closed": bluesky("AccountDeactivated", "account_gone"),
    "an account that blocks": bluesky("BlockedByActor", "account_private"),
    "no such thing, for no reason told": bluesky("NotFound", None),
}


@pytest.mark.parametrize("why", ROWS.values(), ids=ROWS.keys())
async def test_a_refusal_gives_its_reason_and_costs_nothing(why: Why, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        node.upstream.always(why.answer)
        answer = await node.get(why.target)
        details = assert_refused(answer, why.code, 400 if why.code == "INVALID_REQUEST" else 404)
        assert details.get("reason") == why.reason
        assert {name: details.get(name) for name in why.details} == why.details
        assert bool(node.upstream.requests) == (why.answer is not None), "only what an upstream says needs it"
        await assert_free(node, answer)


def test_every_reason_has_a_row_or_waits_for_a_named_part() -> None:
    waiting = OF_THE_FEED.union(*BROUGHT_BY.values())
    assert {why.reason for why in ROWS.values() if why.reason} == SPEC - waiting


GOOD = {
    "a percent sign": "/v1/github/search?query=100%25",
    "a percent sign before words": "/v1/github/search?query=50%25%20off",
    "text that only looks like an escape": "/v1/github/search?query=%25zz",
    "an escape that is no UTF-8 when decoded": "/v1/github/search?query=100%25fFoo",
    "letters of any script": "/v1/github/search?query=%D7%A9%D7%9C%D7%95%D7%9D%20%F0%9F%8C%8A",
    "an address with escapes of its own": "/v1/github/repo?url=https%3A%2F%2Fgithub.com%2Fa%2Fb%3Fq%3Dc%2520d",
}


@pytest.mark.parametrize("target", GOOD.values(), ids=GOOD.keys())
async def test_what_only_looks_encoded_twice_is_served(target: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get(target)
        assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("/v1/github/search?query=a&sort=create", {"did_you_mean": "created"}),
        ("/v1/github/search?query=a&sort=CREATED", {"did_you_mean": "created"}),
        ("/v1/github/search?query=a&sort=zzz", {"reason": "invalid_param", "param": "sort"}),
        ("/v1/github/search?qurey=a", {"did_you_mean": "query", "remove_params": ["qurey"]}),
        (
            "/v1/github/search?query=a&x=1&y=2",
            {"did_you_mean": "query", "remove_params": ["x", "y"]},
        ),
        ("/v1/github/search?query=a&PAGE=2", {"did_you_mean": "cursor", "remove_params": ["PAGE"]}),
    ],
)
async def test_a_near_miss_is_told_what_was_meant(target: str, near: dict[str, object], tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        details = assert_refused(await node.get(target), "INVALID_REQUEST", 400)
        if "x" in details.get("remove_params", ()):
            near = {**near, "did_you_mean": details["did_you_mean"]}  # nothing is near to x
        assert details == near


async def test_an_undeclared_parameter_without_a_value_is_no_error(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        assert (await node.get("/v1/github/profile?handle=octocat&page=&x")).status == 200
