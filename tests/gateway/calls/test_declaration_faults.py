"""A faulty declaration that is first compiled during a billed call costs nothing and looks like no outage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.odd_platform import ODD
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from upstreams.fetching.aside import LONG_BYTES
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, DOSSIER, author
from upstreams.model.calls import Get, Pages, listing, single
from upstreams.model.endpoint import Endpoint, Fallback
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import RecordMap, record_map
from upstreams.model.paging import Once
from upstreams.model.params import Args
from upstreams.model.steps import Call, Leg, Part, Single, Steps

BOTH = "map of `author`: member `user` is read as an object and as a value"
NUMBER = "a value in a path must be text, but it is 5 (int)"


def faulty_map() -> RecordMap:
    """Return a new map that reads a member as a text and as an object. It is compiled when it is first used."""
    return record_map(author, id=read.ident("user.id"), username=read.text("user"))


def _by_hand(_args: Args) -> Steps:
    answer = yield Call("/by-hand")
    return Single(faulty_map()(answer.body))


def _number_in_path(_args: Args) -> Steps:
    answer = yield Call("/number")
    answer = yield Get("/users/{id}").at(_args, id=answer.body["id"])
    return Single(author(id=str(answer.body["id"])))


def _together(_args: Args) -> Steps:
    """Two optional calls, of which one has a faulty map."""
    answers = yield (Call("/one", optional=True), Call("/other", optional=True, accepts=faulty_map()))
    return Single({"parts": list(map(bool, answers))}, legs=(Leg("odd/leg", answers[0]),))


def _legs(_args: Args) -> Steps:
    """A composite that has a faulty endpoint as its only leg."""
    answers = yield (Part("by_hand", {}, optional=True),)
    return Single({"parts": list(map(bool, answers))}, legs=(Leg("odd/by_hand", answers[0]),))


def _sound(_args: Args) -> Steps:
    answer = yield Call("/sound")
    return Single(author(id=str(answer.body["id"])))


ENDPOINTS = (
    single(resource="one", summary="One.", archetype=AUTHOR, call=Get("/one"), record=faulty_map()),
    single(resource="first", summary="One.", archetype=AUTHOR, call=Get("/first"), record=faulty_map(), at="items[0]"),
    listing(
        resource="list",
        summary="All.",
        archetype=AUTHOR_LIST,
        call=Get("/x"),
        pages=Pages(faulty_map(), Once(), at="a"),
    ),
    Endpoint(resource="by_hand", summary="One.", archetype=AUTHOR, read=_by_hand),
    Endpoint(resource="number", summary="One.", archetype=AUTHOR, read=_number_in_path),
    Endpoint(resource="together", summary="Two calls.", archetype=DOSSIER, read=_together, tier="advanced"),
    Endpoint(resource="legs", summary="A composite.", archetype=DOSSIER, read=_legs, tier="advanced"),
    Endpoint(
        resource="with_fallback",
        summary="One.",
        archetype=AUTHOR,
        read=_by_hand,
        fallbacks=(Fallback(source="odd", read=_sound),),
    ),
    Endpoint(resource="sound", summary="One.", archetype=AUTHOR, read=_sound),
)
FAULTY = replace(ODD, endpoints=ENDPOINTS)
MESSAGES = {one.resource: NUMBER if one.resource == "number" else BOTH for one in ENDPOINTS[:-1]}


async def assert_free(node: OpenNode, resource: str, message: str) -> None:
    """Check that a call fails as a bug of this server, is refunded, and is logged with the fault."""
    logged = len(node.log_events("request_failed"))
    answer = await node.get(f"/v1/odd/{resource}", headers={"cache-control": "no-cache"})
    assert (answer.status, answer.code, answer.json["credits_used"]) == (500, "INTERNAL_ERROR", 0)
    assert await node.money() == (100_000, 0)
    failures = node.log_events("request_failed")[logged:]
    assert [failure["request_id"] for failure in failures] == [answer.json["request_id"]]
    assert f"DeclarationError: {message}" in failures[0]["error"]


@pytest.mark.parametrize("padding", ["", "x" * LONG_BYTES], ids=["short", "in a thread"])
async def test_declaration_fault_is_refunded_and_logged(tmp_path: Path, padding: str) -> None:
    """Method: each way in which a faulty declaration can be compiled by a read, with short and long answers."""
    body = {"id": 5, "user": {"id": "7"}, "items": [{"user": "ada"}], "a": [{"user": "ada"}], "padding": padding}
    async with open_test_node(tmp_path, platforms=(FAULTY,)) as node:
        node.upstream.always(ScriptedAnswer(200, orjson.dumps(body)))
        for resource, message in MESSAGES.items():
            await assert_free(node, resource, message)
        await node.assert_sound()


async def test_declaration_fault_opens_no_circuit(tmp_path: Path) -> None:
    """The upstream works, so its other endpoints remain available."""
    async with open_test_node(tmp_path, platforms=(FAULTY,), breaker={"failures": 2}) as node:
        node.upstream.always(json_answer({"id": 5, "user": "ada"}))
        for _ in range(4):
            await assert_free(node, "one", BOTH)
        sound = await node.get("/v1/odd/sound")
        assert (sound.status, sound.json["credits_used"]) == (200, 1)
        await node.assert_sound()
