"""A URL may name its host or site together with the subject. Only this host or site is then read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.platforms.drive import drive
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.steps import Answer, Call
from upstreams.platforms import discourse, stackexchange


class Placed(NamedTuple):
    """A request with a URL, and the first call that it causes."""

    platform: Platform
    resource: str
    sent: Mapping[str, str]
    host_and_path: str
    place: Mapping[str, str]
    """The parameter that means the same host or site as the URL, and its value."""
    other: str
    query: Mapping[str, Any]
    """The query members that name the site in the call."""


FORUM = {"host": "forum.example.net"}


def of_discourse(resource: str, param: str, address: str, path: str) -> Placed:
    place = f"{FORUM['host']}{path}"
    return Placed(discourse.PLATFORM, resource, {param: address}, place, FORUM, "forum.example.org", {})


def of_stackexchange(resource: str, param: str, address: str, path: str, site: str) -> Placed:
    call, place = f"api.stackexchange.com/2.3/{path}", {"site": site}
    return Placed(stackexchange.PLATFORM, resource, {param: address}, call, place, "askubuntu", place)


PLACED = (
    of_discourse("profile", "handle", "https://Forum.example.net/u/Ada/summary", "/u/ada.json"),
    of_discourse("profile/posts", "handle", "forum.example.net/users/ada", "/topics/created-by/ada.json"),
    of_discourse("profile/comments", "handle", "https://forum.example.net/u/ada", "/user_actions.json"),
    of_discourse("category/posts", "category", "https://forum.example.net/c/general/parsers/4", "/c/-/4.json"),
    of_discourse("group/members", "group", "https://forum.example.net/g/team", "/groups/team/members.json"),
    of_stackexchange("question", "id", "https://superuser.com/questions/7/why", "questions/7", "superuser"),
    of_stackexchange("question/answers", "id", "https://math.stackexchange.com/q/7", "questions/7/answers", "math"),
    of_stackexchange(
        "question/comments", "id", "https://stackoverflow.com/questions/7", "questions/7/comments", "stackoverflow"
    ),
    of_stackexchange("answer", "id", "https://3dprinting.stackexchange.com/a/8", "answers/8", "3dprinting"),
    of_stackexchange(
        "profile", "user_id", "https://meta.mathoverflow.net/users/9/ada", "users/9", "meta.mathoverflow.net"
    ),
    of_stackexchange(
        "profile/posts", "user_id", "https://pt.stackoverflow.com/users/9", "users/9/questions", "pt.stackoverflow"
    ),
)


class _AskedError(Exception):
    """Raised by the first call of a read. It contains the call's host and path."""

    def __init__(self, host_and_path: str, call: Call) -> None:
        super().__init__(host_and_path)
        self.host_and_path = host_and_path
        self.call = call


def _upstream(host_and_path: str, call: Call) -> Answer:
    raise _AskedError(host_and_path, call)


@pytest.mark.parametrize("placed", PLACED, ids=lambda one: f"{one.platform.slug} {one.resource}")
def test_url_is_read_only_from_its_own_host_or_site(placed: Placed) -> None:
    """Goal: an account with the same name on another host or site is never read."""
    for beside in ({}, placed.place):
        with pytest.raises(_AskedError) as asked:
            drive(placed.platform, placed.resource, {**placed.sent, **beside}, _upstream)
        assert asked.value.host_and_path == placed.host_and_path
        assert asked.value.call.query.items() >= placed.query.items()
    (param,) = placed.place
    with pytest.raises(InvalidArgument) as refusal:
        drive(placed.platform, placed.resource, {**placed.sent, param: placed.other}, _upstream)
    assert refusal.value.param == param
