"""Routes of the stand-ins. A pattern matches the encoded path, and its groups are decoded."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
import trio

from upstreams.sandbox.app import Behaviour, Sandbox
from upstreams.sandbox.site import SandboxReply, SandboxRequest, answer, by_host, route
from upstreams.sandbox.stand_ins import load_routes


def echo(asked: SandboxRequest) -> SandboxReply:
    return SandboxReply({"found": dict(asked.found), "page": asked.number("page", 1)})


ROUTES = by_host((route("a.example", "/projects/{id}", echo), route("a.example", "/projects/{id}/x.y", echo)))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/projects/one", {"id": "one"}),
        ("/projects/group%2Fproject", {"id": "group/project"}),
        ("/projects/100%2525/x.y", {"id": "100%25"}),
        ("/projects/one/x-y", None),
        ("/projects/", None),
        ("/projects/one/", None),
    ],
)
def test_group_is_one_segment_decoded_once(path: str, found: dict[str, str] | None) -> None:
    reply = answer(ROUTES, SandboxRequest("a.example", path, {}))
    assert (reply.body["found"] if reply.status == 200 else None) == found


def test_host_without_a_sandbox_is_not_found() -> None:
    assert answer(ROUTES, SandboxRequest("b.example", "/projects/one", {})).status == 404


@pytest.mark.parametrize(("sent", "page"), [("3", 3), ("", 1), ("-3", 1), ("three", 1)])
def test_query_number_has_a_default(sent: str, page: int) -> None:
    assert answer(ROUTES, SandboxRequest("a.example", "/projects/one", {"page": sent})).body["page"] == page


def test_stand_ins_are_found_by_host() -> None:
    assert "api.github.com" in load_routes()


async def test_asgi_path_keeps_an_encoded_slash() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        raise AssertionError("the sandbox does not read bodies")

    raw_path = b"/api.github.com/users/a%2Fb"
    scope = {"type": "http", "path": "/api.github.com/users/a/b", "raw_path": raw_path, "query_string": b""}
    await Sandbox(Behaviour(), Random(1))(scope, receive, send)
    assert sent[0]["status"] == 200
    assert orjson.loads(sent[1]["body"])["login"] == "a/b"
