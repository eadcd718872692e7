"""An address that stands where a name may says the place too: it is read there, and nowhere else."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.platforms.drive import always, drive, told
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.steps import Answer, Call
from upstreams.platforms import discourse

FORUM = "forum.example.net"
DISCOURSE: dict[str, Any] = {"user": {"id": 1}, "topic_list": {"topics": []}, "user_actions": [], "members": []}


class Placed(NamedTuple):
    """A request by an address, and the call that it leads to: its place, and what of its query says so."""

    platform: Platform
    resource: str
    param: str
    address: str
    place: str
    beside: str
    """The parameter that says the place where a name is sent."""
    value: str
    """Its value that agrees with the address."""
    other: str
    body: Any


def of_discourse(resource: str, param: str, address: str, path: str) -> Placed:
    other = "forum.example.org"
    return Placed(discourse.PLATFORM, resource, param, address, FORUM + path, "host", FORUM, other, DISCOURSE)


PLACED = (
    of_discourse("profile", "handle", "https://Forum.example.net/u/Ada/summary", "/u/ada.json"),
    of_discourse("profile/posts", "handle", "forum.example.net/users/ada", "/topics/created-by/ada.json"),
    of_discourse("profile/comments", "handle", "https://forum.example.net/u/ada", "/user_actions.json"),
    of_discourse("category/posts", "category", "https://forum.example.net/c/general/parsers/4", "/c/-/4.json"),
    of_discourse("group/members", "group", "https://forum.example.net/g/team", "/groups/team/members.json"),
)


@pytest.mark.parametrize("placed", PLACED, ids=lambda one: f"{one.platform.slug} {one.resource} {one.address}")
def test_what_an_address_names_is_read_from_its_own_place(placed: Placed) -> None:
    """Goal: never another place's account of the same name."""
    for beside in ({}, {placed.beside: placed.value}):
        places: list[str] = []

        def upstream(place: str, call: Call, places: list[str] = places) -> Answer:
            query = call.target("").partition("?")[2]
            places.append(f"{place}?{query}")
            return told(placed.body)

        drive(placed.platform, placed.resource, {placed.param: placed.address, **beside}, upstream)
        assert placed.place in places[0]
    with pytest.raises(InvalidArgument) as refusal:
        drive(
            placed.platform,
            placed.resource,
            {placed.param: placed.address, placed.beside: placed.other},
            always(placed.body),
        )
    assert refusal.value.param == placed.beside
