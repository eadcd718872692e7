"""The check of a whole platform finds each fault that would otherwise appear during a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.fakes.platform_fields import FIELDS
from upstreams.composites import load_all
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST, Record, author, byline
from upstreams.model.calls import Get, Pages, Secret, listing, made, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform
from upstreams.model.errors import DeclarationError, InvalidArgument, NotFound
from upstreams.model.fields import Json
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import RecordMap, Rows, record_map
from upstreams.model.paging import ByPage, ByToken, Once, Paging, Whole
from upstreams.model.paging.many import many
from upstreams.model.params import Args, Host, Param
from upstreams.model.platform_check import check_platform, check_platforms
from upstreams.model.refusals import Refusals
from upstreams.model.steps import Answer, Call, Single, Steps

HANDLE = Param("handle", "The account's name.", "ada", required=True)
LANGUAGE = Param("language", "A language.", "en")
AUTHOR_OF = record_map(author, id=read.ident("id"))
FAULTY_OF = record_map(author, id=read.ident("user.id"), username=read.text("user"))
FAULTY_BYLINE_OF = record_map(byline, id=read.ident("user.id"), url=read.text("user"))
BOTH = "member `user` is read as an object and as a value"
PROFILE = Get("/users/{handle}", handle=HANDLE)
SOUND = single(resource="profile", summary="One.", archetype=AUTHOR, call=PROFILE, record=AUTHOR_OF)
ODD = Platform(slug="odd", title="Odd", sources={"api": "https://odd.test"}, endpoints=(SOUND,), **FIELDS)


def of_call(call: Get, record: Any = AUTHOR_OF, **options: Any) -> Platform:
    """Return a platform whose only endpoint makes this call."""
    endpoint = single(resource="profile", summary="One.", archetype=AUTHOR, call=call, record=record, **options)
    return replace(ODD, endpoints=(endpoint,))


def of_list(call: Get, pages: Pages) -> Platform:
    """Return a platform whose only endpoint is this list."""
    return replace(
        ODD,
        endpoints=(listing(resource="list", summary="All.", archetype=AUTHOR_LIST, call=call, pages=pages),),
    )


def of_read(read_: Callable[[Args], Steps], **options: Any) -> Platform:
    """Return a platform whose only endpoint has this hand-written read."""
    options = {"params": (HANDLE,), **options}
    return replace(
        ODD, endpoints=(Endpoint(resource="profile", summary="One.", archetype=AUTHOR, read=read_, **options),)
    )


LATER = Get("/later").via("apj")


def with_a_later_call(args: Args) -> Steps:
    answer = yield PROFILE.at(args)
    if answer.body:
        answer = yield LATER.at(args)
    return Single(AUTHOR_OF.read(answer.body))


def with_a_function_of_its_own(args: Args) -> Steps:
    answer = yield PROFILE.at(args)
    return Single(_read_faulty(answer))


def _read_faulty(answer: Answer) -> Record:
    return FAULTY_OF.read(answer.body)


def closing_over(pages: Pages) -> Callable[[Args], Steps]:
    def read_page(args: Args) -> Steps:
        answer = yield PROFILE.at(args)
        return pages.page(args, answer)

    return read_page


class Reads:
    """Reads whose map is an attribute."""

    def __init__(self, record: RecordMap) -> None:
        self.record = [{"of": record}]

    def read(self, args: Args) -> Steps:
        answer = yield PROFILE.at(args)
        return Single(self.record[0]["of"].read(answer.body))


def calling(call: Callable[[Args], Call]) -> Callable[[Args], Steps]:
    def read_one(args: Args) -> Steps:
        answer = yield call(args)
        return Single(AUTHOR_OF.read(answer.body))

    return read_one


def _without_a_call(_args: Args) -> Steps:
    return Single(author(id="1"))
    yield Call("/never")


def _key_error(args: Args) -> Steps:
    yield Call(f"/users/{args.text('handel')}")
    raise NotFound


HOSTED = replace(ODD, sources={"any": "https://{instance}"}, common=(Host("instance", default="odd.test"),))
FAULTS: dict[str, tuple[Callable[[], Platform], str]] = {
    "a map of a generated read": (partial(of_call, PROFILE, FAULTY_OF), f"map of `author`: {BOTH}"),
    "a map in a map": (
        lambda: of_call(PROFILE, AUTHOR_OF.with_fields(ext={"by": FAULTY_BYLINE_OF.here()})),
        f"map of `author`: {BOTH}",
    ),
    "rows": (
        lambda: of_list(Get("/x"), Pages(FAULTY_OF, Once(), at="data.items")),
        f"endpoint `list`: map of `author`: {BOTH}",
    ),
    "a token in the list of rows": (
        lambda: of_list(Get("/x"), Pages(AUTHOR_OF, ByToken("after", "items"), at="items")),
        "member `items` is read as a list of objects and as a value",
    ),
    "a later call": (partial(of_read, with_a_later_call), "call `/later`: unknown source: `apj`. Did you mean `api`?"),
    "a map of another function": (partial(of_read, with_a_function_of_its_own), f"map of `author`: {BOTH}"),
    "a map in a closure": (lambda: of_read(closing_over(Pages(FAULTY_OF, Once()))), f"map of `author`: {BOTH}"),
    "a map of a method": (lambda: of_read(Reads(FAULTY_OF).read), f"map of `author`: {BOTH}"),
    "a map of a fallback": (
        lambda: of_call(PROFILE, fallbacks=(Fallback(source="api", read=Reads(FAULTY_OF).read),)),
        f"map of `author`: {BOTH}",
    ),
    "a map of many records": (
        lambda: of_call(PROFILE, many=many(HANDLE, 10, Get("/users"), Rows(FAULTY_OF))),
        f"map of `author`: {BOTH}",
    ),
    "an unknown source": (
        lambda: of_call(PROFILE.via("apj")),
        "endpoint `profile`: call `/users/{handle}`: unknown source: `apj`. Did you mean `api`?",
    ),
    "an unknown source of a hand-made call": (
        lambda: of_read(calling(lambda _args: Call("/x", source="apj"))),
        "endpoint `profile`: unknown source of a call: `apj`. Did you mean `api`?",
    ),
    "a number in a path": (
        lambda: of_call(Get("/x/{n}", n=Param("n", "A number.", "1", type="integer", required=True))),
        "endpoint `profile`: call `/x/{n}`: `n` is in the path, so its parameter `n` must be text",
    ),
    "a computed number in a path": (
        lambda: of_call(Get("/x/{n}", n=made(len, HANDLE))),
        "endpoint `profile`: a value in a path must be text, but it is 3 (int)",
    ),
    "an optional parameter in a path": (
        lambda: of_call(Get("/x/{language}", language=LANGUAGE)),
        "endpoint `profile`: a value in a path must be text, but it is None (NoneType)",
    ),
    "a credential in a path that is not needed": (
        lambda: of_call(Get("/x/{key}", key=Secret("key"))),
        "endpoint `profile`: a value in a path must be text, but it is None (NoneType)",
    ),
    "an empty segment": (
        lambda: of_call(Get("/users//{handle}", handle=HANDLE)),
        "call `/users//ada`: the path has an empty segment",
    ),
    "a read without a call": (
        partial(of_read, _without_a_call),
        "endpoint `profile`: a read ends before its first call",
    ),
    "a call without sources": (
        lambda: replace(of_call(PROFILE), sources={}, category="combined"),
        "endpoint `profile`: unknown source of a call: ``. Known: none.",
    ),
    "a misspelled parameter": (partial(of_read, _key_error), "endpoint `profile`: KeyError: 'handel'"),
    "an example that is refused": (
        lambda: of_call(Get("/x", id=replace(HANDLE, pattern=r"\d+", problem="must be a number"))),
        "endpoint `profile`: parameter `handle`: its example `ada` must be a number",
    ),
    "a host without its parameter": (
        lambda: replace(ODD, sources=HOSTED.sources, common=(Host("instanc", default="odd.test"),)),
        "unknown parameter in the address of its source: `instance`. Did you mean `instanc`?",
    ),
    "a status of refusals": (
        lambda: replace(ODD, refusals=Refusals(gone=(1404,))),
        '`refusals`: `gone`: 1404 is not a status; a code of the body is a text, such as `"1404"`',
    ),
    "a code of refusals": (
        lambda: replace(ODD, refusals=Refusals(private=("locked",))),
        "`refusals`: `private`: `locked` is a code of the body, so `code` must name the member that contains it",
    ),
    "a word of refusals": (
        lambda: replace(ODD, refusals=Refusals(stale={400: ("cursor", "Token")})),
        "`refusals`: `stale`: the word `Token` must be in lower case",
    ),
    "a parameter of refusals": (
        lambda: replace(ODD, refusals=Refusals(bad={400: {"name": "handel"}})),
        "`refusals`: unknown parameter in `bad`: `handel`. Did you mean `handle`?",
    ),
    "hidden refusals without a code": (
        lambda: replace(ODD, refusals=Refusals(hidden=True)),
        "`refusals`: `hidden` needs `code`",
    ),
}


@pytest.mark.parametrize(("declare", "message"), FAULTS.values(), ids=FAULTS)
def test_fault_is_named_with_its_place(declare: Callable[[], Platform], message: str) -> None:
    """The declaration itself is accepted, because finding the fault needs compiling or running it."""
    platform = declare()
    with pytest.raises(DeclarationError) as refusal:
        check_platform(platform)
    lines = str(refusal.value).splitlines()
    assert all(line.startswith("platform `odd`: ") for line in lines)
    assert any(message in line for line in lines), lines


def test_every_fault_is_listed_once() -> None:
    faulty = of_call(PROFILE.via("apj"), FAULTY_OF)
    other = replace(faulty.endpoints[0], resource="other")
    with pytest.raises(DeclarationError) as refusal:
        check_platform(replace(faulty, endpoints=(*faulty.endpoints, other)))
    begins = [line.partition(": `")[0] for line in str(refusal.value).splitlines()]
    assert begins == [
        f"platform `odd`: endpoint `profile`: map of `author`: {BOTH}; read a member that can be both with `either`",
        "platform `odd`: endpoint `profile`: call `/users/{handle}`: unknown source",
        "platform `odd`: endpoint `other`: unknown source of a call",
    ]


def _refusing(args: Args) -> Steps:
    if "language" in args.values:
        raise InvalidArgument("language", "needs a key")
    yield PROFILE.at(args)
    raise NotFound


SOUND_PLATFORMS: dict[str, Callable[[], Platform]] = {
    "a generated read": lambda: ODD,
    "parameters that exclude each other": lambda: of_read(_refusing, params=(HANDLE, LANGUAGE)),
    "a credential that is needed": lambda: of_call(Get("/x/{key}", key=Secret("key")), needs=("key|token",)),
    "a credential of the own read": lambda: of_call(Get("/x/{key}", key=Secret("key")), own_needs=("key",)),
    "alternatives": lambda: of_call(
        Get("/x/{n}", n=made(lambda one, other: one or other, HANDLE, LANGUAGE)), one_of=(("handle", "language"),)
    ),
    "a page in the path": lambda: of_list(Get("/x/{page}"), Pages(AUTHOR_OF, ByPage("page"))),
    "a host that the caller names": lambda: HOSTED,
    "refusals": lambda: replace(
        ODD, refusals=Refusals(code="code", bad={"x": "handle", 400: {"After": "cursor"}}, gone={410: ""})
    ),
}


@pytest.mark.parametrize("declare", SOUND_PLATFORMS.values(), ids=SOUND_PLATFORMS)
def test_sound_declaration_has_no_fault(declare: Callable[[], Platform]) -> None:
    check_platform(declare())


@pytest.mark.parametrize("platform", load_all(), ids=lambda one: one.slug)
def test_everything_that_a_node_serves_is_sound(platform: Platform) -> None:
    check_platform(platform)


PAGING_FAULTS: tuple[tuple[Callable[[], Paging], str], ...] = (
    (partial(ByPage, ""), "ByPage: `name` must be the name of a query member, but it is empty"),
    (partial(ByPage, "page", size="page"), "ByPage: `name`, `size` must be different names"),
    (partial(ByPage, "page", size_max=0), "ByPage: `size_max` must be at least 1, but it is 0"),
    (partial(ByPage, "page", depth=0), "ByPage: `depth` must be at least 1, but it is 0"),
    (partial(ByPage, "page", pages_max=0), "ByPage: `pages_max` must be at least 1, but it is 0"),
    (
        partial(ByPage, "page", more="more", pages="pages"),
        "ByPage: at most one of `more`, `pages` can decide which page is the last",
    ),
    (
        partial(ByToken, "after", "next", header="x-next"),
        "ByToken: the token is either in the member `next` or in the header `x-next`; set one of them",
    ),
    (partial(Whole, size_default=0), "Whole: `size_default` must be at least 1, but it is 0"),
    (partial(Once, size_max=-1), "Once: `size_max` must be at least 1, but it is -1"),
)


@pytest.mark.parametrize(("declare", "message"), PAGING_FAULTS)
def test_faulty_paging_is_refused_at_declaration(declare: Callable[[], Paging], message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        declare()
    assert str(refusal.value).startswith(message)


def by_hand(found: Json) -> Record:
    return author(id=str(found["id"]))


def test_check_reads_no_body() -> None:
    """A function that reads a body by hand is not called, because only a body shows whether it is right."""
    check_platform(of_call(PROFILE, by_hand))


def test_faults_of_all_platforms_are_listed() -> None:
    faulty = of_call(PROFILE.via("apj"))
    check_platforms((ODD, HOSTED))
    with pytest.raises(DeclarationError) as refusal:
        check_platforms((replace(faulty, slug="first"), ODD, replace(faulty, slug="last")))
    begins = [line.partition(": ")[0] for line in str(refusal.value).splitlines()]
    assert begins == ["platform `first`", "platform `last`"]


def test_each_of_many_endpoints_is_checked() -> None:
    """The check once skipped endpoints, because it confused new objects with earlier ones at the same address."""
    names = [f"list/{number}" for number in range(20)]
    pages = [Pages(record_map(author, id=read.ident("user.id"), bio=read.text("user")), Once()) for _ in names]
    endpoints = tuple(
        listing(resource=name, summary="All.", archetype=AUTHOR_LIST, call=Get("/x"), pages=one)
        for name, one in zip(names, pages, strict=True)
    )
    with pytest.raises(DeclarationError) as refusal:
        check_platform(replace(ODD, endpoints=endpoints))
    found = [line.split("`")[3] for line in str(refusal.value).splitlines()]
    assert found == names
