"""No value leads a path away from its endpoint. Misleading values are refused for free, and the parameter is named."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import LONG_S, OK, ScriptedExchange, http_answer, source_over
from upstreams.fetching.fetch import fetch
from upstreams.fetching.plan import plan
from upstreams.fetching.redirects import follow
from upstreams.fetching.site import Site
from upstreams.model.archetypes import AUTHOR, POST_LIST
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, UpstreamFailed
from upstreams.model.params import Args, Param
from upstreams.model.paths import address_call, has_dots, leads_straight
from upstreams.model.steps import Call, Page, Part, Single, Steps, segment
from upstreams.transport.http import HttpAnswer, HttpCall
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import header_lines, request_bytes

ASTRAY = (
    *("..", ".", "%2e%2E", ".%2e", "%252e%252e", "%25252e.", "a%2F..%2Fb", "a%5c..", "..%3Bx", "%EF%BC%8E%EF%BC%8E"),
    *("%E2%80%A5", "a%EF%BC%8F..", "..%00", "%20..", "..%0d", "", "a/../b", "a//b", "..\\"),
)
STRAIGHT = ("a", "...", "a..", "..a", ".github", "README.md", "a%2Fb", "%40", "a.b", "%E2%80%A6", "%25", "%2e%2e%2e")


def _quoted(args: Args) -> Steps:
    """A read that does not check the caller's values."""
    yield Call(f"/plain/{args.text('kind')}/{args.text('name')}/x")
    return Single({"id": "1"})


def _by_segment(args: Args) -> Steps:
    yield Call(f"/users/{segment(args.text('name').removeprefix('@'))}")
    return Single({"id": "1"})


def _slashed(args: Args) -> Steps:
    yield Call(f"/users/{segment(args.text('name'))}/")
    return Single({"id": "1"})


def _composed(args: Args) -> Steps:
    yield (Part("kept", {"name": args.text("name")}), Call("/beside"))
    return Single({"id": "1"})


def _by_cursor(args: Args) -> Steps:
    yield Call(f"/pages/{segment(args.token() or 'first')}")
    return Page([])


def _second(_args: Args) -> Steps:
    answer = yield Call("/first")
    yield Call(f"/next/{segment(answer.body['next'])}")
    return Single({"id": "1"})


NAME = Param("name", "A name.", "ada", required=True)
KIND = Param("kind", "A kind.", "person", default="person")
ODD = Platform(
    slug="odd",
    title="Odd",
    sources={"main": "https://api.test/v1"},
    endpoints=(
        Endpoint(resource="trusting", summary="As it comes.", archetype=AUTHOR, read=_quoted, params=(KIND, NAME)),
        Endpoint(resource="kept", summary="As it should be.", archetype=AUTHOR, read=_by_segment, params=(KIND, NAME)),
        Endpoint(resource="composed", summary="Of another.", archetype=AUTHOR, read=_composed, params=(NAME,)),
        Endpoint(resource="paged", summary="By a cursor.", archetype=POST_LIST, read=_by_cursor),
        Endpoint(resource="twice", summary="By what came.", archetype=AUTHOR, read=_second),
    ),
    **FIELDS,
)


def site_over(exchange: ScriptedExchange) -> Site:
    return Site(ODD, {"main": source_over(exchange)}, credentials={}, user_agent="sluice/1")


def endpoint(resource: str) -> Endpoint:
    return next(one for one in ODD.endpoints if one.resource == resource)


@pytest.mark.parametrize("piece", ASTRAY)
def test_ambiguous_path_is_detected(piece: str) -> None:
    assert not leads_straight(Call(f"/users/{piece}"))
    assert not leads_straight((Call("/users/ada"), Call(f"/users/{piece}")))


@pytest.mark.parametrize("piece", STRAIGHT)
def test_ordinary_path_is_accepted(piece: str) -> None:
    assert leads_straight(Call(f"/users/{piece}"))
    assert leads_straight(Call(f"/users/{piece}/repos"))


@pytest.mark.parametrize("resource", ["trusting", "kept", "composed"])
@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "\uff0e\uff0e", "a/../b"])
def test_misleading_value_is_refused_before_any_call(resource: str, name: str) -> None:
    exchange = ScriptedExchange(OK)
    values = {"kind": "person", "name": name} if resource != "composed" else {"name": name}
    with pytest.raises(InvalidArgument) as refusal:
        plan(site_over(exchange), endpoint(resource), Args(values))
    assert (refusal.value.param, exchange.calls) == ("name", [])


def test_misleading_parameter_is_named() -> None:
    for kind, name, culprit in (("..", "ada", "kind"), ("person", "..", "name"), ("person", "", "name")):
        with pytest.raises(InvalidArgument) as refusal:
            plan(site_over(ScriptedExchange(OK)), endpoint("trusting"), Args({"kind": kind, "name": name}))
        assert refusal.value.param == culprit


def test_trailing_slash_of_an_endpoint_is_accepted() -> None:
    slashed = replace(endpoint("kept"), read=_slashed)
    assert plan(site_over(ScriptedExchange(OK)), slashed, Args({"name": "ada"})).first == Call("/users/ada/")
    with pytest.raises(InvalidArgument):
        plan(site_over(ScriptedExchange(OK)), slashed, Args({"name": ".."}))


def test_empty_value_is_refused() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan(site_over(ScriptedExchange(OK)), endpoint("kept"), Args({"name": "@"}))
    assert refusal.value.param == "name"


def test_misleading_cursor_is_refused_as_cursor() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan(site_over(ScriptedExchange(OK)), endpoint("paged"), Args({}, {"c": ".."}))
    assert refusal.value.param == "cursor"


@pytest.mark.parametrize("told", ["..", "a/../../b", "%2e%2e"])
async def test_upstream_value_cannot_mislead_a_later_call(told: str) -> None:
    exchange = ScriptedExchange(http_answer({"next": told}))
    planned = plan(site_over(exchange), endpoint("twice"), Args({}))
    with pytest.raises(UpstreamFailed, match="another path"):
        await fetch(planned, trio.current_time() + LONG_S)
    assert exchange.targets == ["/v1/first"]


HERE = Origin("https", "api.test", 443)
LOCATIONS = st.lists(
    st.sampled_from(
        (
            *(
                "/",
                "//",
                "\\",
                "..",
                ".",
                "%2e%2e",
                "%252e",
                "@",
                "evil.test",
                "api.test",
                "https:",
                "http:",
                "//api.test",
            ),
            *(
                "user:pw@",
                "#",
                "?",
                ";",
                ":443",
                ":444",
                ":",
                "\r\n",
                "\n",
                "\t",
                " ",
                "\0",
                "é",
                "\uff0e",
                "a",
                "x" * 9_000,
            ),
        )
    ),
    min_size=1,
    max_size=6,
).map("".join)


@given(LOCATIONS)
@example("https://user:pw@api.test/a")
@example("//evil.test/")
@example("\\\\evil.test/")
@example("https:evil.test")
@example("https://api.test@evil.test/")
@example("/%2e%2e/admin")
def test_redirect_cannot_change_the_host_or_inject_a_request(location: str) -> None:
    asked: list[HttpCall] = []

    async def exchange(call: HttpCall, _deadline_at: float) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        asked.append(call)
        head = header_lines(call.origin.authority, call.headers)
        try:
            sent = request_bytes(call, target=call.target, headers=head)
        except httpx.LocalProtocolError:
            return HttpAnswer(200, {}, b"{}")
        assert sent.count(b"\r\n\r\n") == sent.count(b" HTTP/1.1\r\n") == 1
        assert sent.count(b"\r\n") == head.count("\r\n") + 2
        return HttpAnswer(200, {}, b"{}")

    async def run() -> None:
        call = HttpCall("GET", HERE, "/users/ada", (("authorization", "Bearer t0ken"),))
        first = HttpAnswer(302, {"location": location}, b"")
        try:
            await follow(first, exchange, call, LONG_S, source="main")
        except UpstreamFailed:
            assert asked == []

    trio.run(run)
    assert all(call.origin == HERE and not has_dots(call.target.partition("?")[0]) for call in asked)


@pytest.mark.parametrize(
    ("target", "is_straight"), [("", True), ("a/", True), ("a//b/?c=/../", True), ("a/%2e./b", False)]
)
def test_whole_url_is_refused_only_for_dots(target: str, is_straight: bool) -> None:
    call = address_call("url", f"feeds.example.org/{target}", source="feed", accepts="json")
    assert leads_straight(call) is is_straight
    assert call.target("") == f"/{target}"
