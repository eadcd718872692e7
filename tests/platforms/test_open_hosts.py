"""If a host refuses one request, the host has not failed, so its circuit stays closed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from trio.testing import MockClock

from tests.fakes.scripted_exchange import Scripted, http_answer
from tests.platforms.hosted import Hosted
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError
from upstreams.model.steps import Page, Single
from upstreams.platforms import discourse, mastodon, peertube
from upstreams.transport.http import HttpCall

OFTEN = 12
"""More failures than it takes to open a circuit."""


class Ask(NamedTuple):
    """A request: its resource and its parameters."""

    resource: str
    params: dict[str, str]


class Case(NamedTuple):
    """A request that a platform refuses with a status and a body, and a request that it answers."""

    platform: Platform
    refused: Ask
    by: str
    """The part of the call's target by which the refused call is recognized."""
    answer: Scripted
    as_what: UpstreamError
    good: Ask
    body: Any


FORUM = {"host": "forum.example.net"}
LOGIN = "This method requires an authenticated user"


def of_mastodon(status: int, error: str) -> Case:
    private = NotFound("", reason="account_private")
    hashtag = Ask("hashtag", {"tag": "python"})
    return Case(
        mastodon.PLATFORM, hashtag, "tag", http_answer({"error": error}, status), private, Ask("trending", {}), []
    )


CASES = {
    "a login, by 401": of_mastodon(401, LOGIN),
    "a login, by 422": of_mastodon(422, LOGIN),
    "a token": of_mastodon(401, "The access token is invalid"),
    "an action": of_mastodon(403, "This action is not allowed"),
    "a query that is too short": Case(
        discourse.PLATFORM,
        Ask("search", {"query": "ab", **FORUM}),
        "search",
        http_answer({"errors": ["Invalid parameters: q"], "error_type": "invalid_parameters"}, 400),
        InvalidArgument("query", ""),
        Ask("posts", FORUM),
        {"topic_list": {"topics": []}},
    ),
    "an id": Case(
        peertube.PLATFORM,
        Ask("video", {"id": "9"}),
        "/9",
        http_answer({"detail": "Incorrect request parameters: id", "status": 400}, 400),
        InvalidArgument("id", ""),
        Ask("video", {"id": "7"}),
        {"uuid": "u"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_refused_request_does_not_open_the_circuit_of_its_host(case: Case, autojump_clock: MockClock) -> None:
    def script(call: HttpCall) -> Scripted:
        return case.answer if case.by in call.target else http_answer(case.body)

    hosted = Hosted(case.platform, script)
    for _ in range(OFTEN):
        with pytest.raises(type(case.as_what)) as refusal:
            await hosted.get(case.refused.resource, **case.refused.params)
        for name in ("param", "reason"):
            assert getattr(refusal.value, name, None) == getattr(case.as_what, name, None)
    assert isinstance(await hosted.get(case.good.resource, **case.good.params), Page | Single)
