"""The generator of stand-ins, on small invented platforms: requests that vary, shared paths, failures, and output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.platform_fields import FIELDS
from tests.platforms.case import Case
from tests.platforms.credentials import known_of
from tests.platforms.drive import drive, sandbox_of
from tests.platforms.playing import play
from tests.platforms.stand_in import generated, load, main
from tests.platforms.templates import choices_in, constants_of
from upstreams.model.archetypes import AUTHOR, POST, POST_LIST, author, post
from upstreams.model.calls import Get, Pages, Secret, listing, single
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.fields import readers as read
from upstreams.model.fields.maps import record_map
from upstreams.model.paging import ByPage, ByToken, Once
from upstreams.model.params import Args, Param
from upstreams.model.refusals import Refusals
from upstreams.model.steps import Page, Steps
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.site import by_host

Json = dict[str, Any]
ID = Param("id", "A number.", "7", required=True)
TAG = Param("tag", "A tag.", "c", required=True)
SORT = Param("sort", "The order.", "top", default="new", choices=("new", "top"))
author_of = record_map(author, id=read.ident("id"), username=read.text("login"))
post_of = record_map(post, id=read.ident("id"), url=read.NEVER, text=read.text("title"), author=read.NEVER)
ROW = {"id": 71, "title": "two words"}
ROWS = {"items": [ROW, {**ROW, "id": 72}]}
PERSON = {"id": 5, "login": "grace"}


def record(resource: str, call: Get) -> Endpoint:
    return single(resource=resource, summary="One account.", archetype=AUTHOR, call=call, record=author_of)


def rows(resource: str, call: Get, pages: Pages | None = None) -> Endpoint:
    pages = pages or Pages(post_of, Once(), at="items")
    return listing(resource=resource, summary="Posts.", archetype=POST_LIST, call=call, pages=pages)


def rows_by(resource: str, read_page: Callable[[Args], Steps], **options: Any) -> Endpoint:
    """Return a list with a read by hand, which need not use a `Pages` object."""
    return Endpoint(resource=resource, summary="Posts.", archetype=POST_LIST, read=read_page, **options)


def platform(*endpoints: Endpoint, **more: Any) -> Platform:
    """Return a platform. Its slug is a real one, because the generator reads the code of the platform's package."""
    sources = {"api": "https://a.example"}
    return Platform(slug="stackexchange", title="Made up", sources=sources, endpoints=endpoints, **FIELDS, **more)


def made(found: Platform, *cases: Case, before: Json | None = None) -> tuple[Json, list[str]]:
    """Return the file, and the lines about it that name a fault. Another run must not change the file."""
    exchanges = [exchange for case in cases for exchange in play(found, case)]
    file, lines = generated(found, exchanges, before or {})
    again, others = generated(found, exchanges, file)
    assert orjson.dumps(again) == orjson.dumps(file)
    assert not any("no reader reads" in line or "no case makes" in line for line in others)
    return file, [line for line in lines if line.startswith(("dropped", "warning"))]


def case(resource: str, path: str, body: Any, **params: str | int) -> Case:
    return Case(resource, resource, params, {f"a.example{path}": body})


def refusal(status: int, body: Any, folder: Path) -> str:
    """Return a recording of an answer with an error status."""
    file = folder / f"{status}-{sha256(orjson.dumps(body)).hexdigest()[:8]}.json"
    file.write_bytes(orjson.dumps({"response": {"status": status, "headers": {}, "body": orjson.dumps(body).decode()}}))
    return str(file)


def all_pages(found: Platform, file: Json, resource: str, **params: str | int) -> list[str]:
    """Return the ids on all pages that a stand-in serves."""
    upstream = sandbox_of(by_host(routes_of(found.slug, file)))
    pages: list[Page] = []
    while not pages or pages[-1].next is not None:
        assert len(pages) < 10, "the list does not end"
        page = drive(found, resource, params, upstream, cursor=pages[-1].next if pages else None)
        assert isinstance(page, Page)
        pages.append(page)
    return [one["id"] for page in pages for one in page.records]


# Requests that vary


NUMBERED = Get("/posts/page/{page}")
NUMBERED_PAGES = Pages(post_of, ByPage("page", size="", size_max=20), at="items")


def read_numbered(args: Args) -> Steps:
    answer = yield NUMBERED.at(args, page=str(args.position("p", 1)))
    return NUMBERED_PAGES.page(args, answer)


def test_number_in_a_path_is_the_page() -> None:
    found = platform(rows_by("posts", read_numbered))
    file, faults = made(found, case("posts", "/posts/page/1", ROWS))
    assert [one["call"] for one in file["calls"]] == ["GET a.example/posts/page/{page}"]
    assert file["calls"][0]["paging"] == {"ByPage": {"name": "page", "size": "", "size_max": 20}}
    assert faults == []
    assert len(all_pages(found, file, "posts")) == 45


def read_later_numbered(args: Args) -> Steps:
    number = args.position("p", 1)
    answer = yield Get("/posts").at(args) if number == 1 else NUMBERED.at(args, page=str(number))
    return NUMBERED_PAGES.page(args, answer)


def test_path_that_has_a_number_only_on_later_pages_is_a_second_call() -> None:
    found = platform(rows_by("posts", read_later_numbered))
    file, faults = made(found, case("posts", "/posts", ROWS))
    assert [one["call"] for one in file["calls"]] == ["GET a.example/posts", "GET a.example/posts/page/{page}"]
    assert faults == []
    assert len(all_pages(found, file, "posts")) == 45


def test_list_without_a_paging_object_is_named() -> None:
    def by_hand(args: Args) -> Steps:
        answer = yield Get("/posts").at(args, after=args.token())
        return Page([post_of(row) for row in answer.body["items"]], {"c": "next"})

    found = platform(rows_by("posts", by_hand))
    _, faults = made(found, case("posts", "/posts", ROWS))
    fault = "posts has no paging object. Set `by_hand` and write `rows`, `paging`"
    assert faults == [f"warning: GET a.example/posts: {fault}"]


def signed(kind: str) -> Endpoint:
    call, pages = Get("/posts", kind=kind), Pages(post_of, Once(size=""), at="items")

    def read_signed(args: Args) -> Steps:
        day = str(int(args.now_at // 86_400))
        signature = sha256(f"{day}{args.credentials.get('key')}".encode()).hexdigest()
        proof = {"day": f"d{day}", "signature": signature} if kind == "new" else {}
        answer = yield call.at(args, pages, **proof)
        return pages.page(args, answer)

    return rows_by(kind, read_signed, needs=("key",))


def test_values_computed_from_time_or_a_credential_select_no_call() -> None:
    found = platform(signed("new"), signed("old"))
    file, faults = made(found, case("new", "/posts", ROWS), case("old", "/posts", ROWS))
    assert [one["when"] for one in file["calls"]] == [{"kind": "new"}, {"kind": "old"}]
    assert faults == []
    upstream = sandbox_of(by_host(routes_of(found.slug, file)))
    drive(found, "new", {}, upstream, now_at=2e9, credentials={"key": "another"})


def test_secrets_never_enter_the_file() -> None:
    found = platform(
        record("open", Get("/me", fields="all")),
        record("closed", Get("/me", fields="all", key=Secret("key"), since="today")),
        record("robot", Get("/bot{word}/me", word=Secret("token"))),
        credentials=("key", "token"),
    )
    token = known_of(found)["token"]
    file, faults = made(
        found, case("open", "/me", PERSON), case("closed", "/me", PERSON), case("robot", f"/bot{token}/me", PERSON)
    )
    assert faults == []
    assert [one["call"] for one in file["calls"]] == ["GET a.example/me"] * 2 + ["GET a.example/{computed}/me"]
    assert [one.get("when") for one in file["calls"]] == [{"since": None}, {"since": "today"}, None]
    text = orjson.dumps(file).decode()
    assert [name for name, value in known_of(found).items() if value in text] == []


def test_choices_of_the_caller_select_no_call() -> None:
    found = platform(rows("posts", Get("/posts", type="post", sort=SORT)), rows("links", Get("/posts", type="link")))
    file, faults = made(found, case("posts", "/posts", ROWS), case("links", "/posts", ROWS))
    assert [one["when"] for one in file["calls"]] == [{"type": "post"}, {"type": "link"}]
    assert faults == []


def test_value_that_another_endpoint_may_also_send_selects_no_call() -> None:
    found = platform(rows("newest", Get("/posts", order="new")), rows("posts", Get("/posts", order=SORT)))
    file, faults = made(found, case("newest", "/posts", ROWS), case("posts", "/posts", ROWS))
    assert [one.get("when") for one in file["calls"]] == [None]
    assert faults == []


def test_choice_in_a_path_is_a_place() -> None:
    found = platform(rows("posts", Get("/posts/{sort}/list", sort=SORT)))
    file, faults = made(found, case("posts", "/posts/new/list", ROWS))
    assert [one["call"] for one in file["calls"]] == ["GET a.example/posts/{sort}/list"]
    assert faults == []


def test_choice_that_calls_another_path_is_named() -> None:
    def by_choice(args: Args) -> Steps:
        answer = yield Get("/best/today" if args.text("sort") == "top" else "/newest").at(args)
        return NUMBERED_PAGES.page(args, answer)

    found = platform(rows_by("posts", by_choice, params=(SORT,)))
    _, faults = made(found, case("posts", "/newest", ROWS))
    assert faults == ["warning: no call answers GET a.example/best/today, which posts makes"]


# Several endpoints on one path


def test_record_and_list_on_one_path_differ_by_the_id() -> None:
    found = platform(
        record("person", Get("/people", id=ID)),
        rows("people", Get("/people"), Pages(post_of, ByToken("cursor"), at="items")),
    )
    file, faults = made(found, case("person", "/people", PERSON, id="5"), case("people", "/people", ROWS))
    assert [(one.get("when"), "rows" in one) for one in file["calls"]] == [(None, False), ({"id": None}, True)]
    assert file["calls"][0]["body"]["id"] == "$number"
    assert faults == []
    assert len(all_pages(found, file, "people")) == 45


def test_record_in_the_same_list_as_others_differs_by_the_id() -> None:
    call = Get("/posts", id=ID)
    one = single(resource="post", summary="A post.", archetype=POST, call=call, record=post_of, at="items[0]")
    found = platform(one, rows("posts", Get("/posts", tag=TAG)))
    cases = case("post", "/posts", {"items": [ROW]}, id="71"), case("posts", "/posts", ROWS, tag="x1")
    file, faults = made(found, *cases)
    assert [one.get("when") for one in file["calls"]] == [None, {"id": None}]
    assert file["calls"][0]["body"]["items"][1]["id"] == "${id:int}"
    assert faults == []
    both = {**file["calls"][1], "when": {}}
    assert made(found, *cases, before={"failures": {}, "calls": [both]})[0]["calls"] == [both], "an existing call stays"


def test_record_and_list_that_nothing_distinguishes_are_left_to_a_person() -> None:
    found = platform(record("person", Get("/people", q=ID)), rows("people", Get("/people", q=ID)))
    cases = case("person", "/people", PERSON, id="grace"), case("people", "/people", ROWS, id="grace")
    file, faults = made(found, *cases)
    assert len(file["calls"]) == 1
    assert (file["calls"][0]["by_hand"], file["calls"][0]["rows"]) == (True, "items")
    assert faults == [
        "warning: GET a.example/people: person reads one record and people a list, and no value in their requests "
        "distinguishes them. Write both calls with `by_hand`. dropped: the record of person"
    ]
    assert made(found, *cases, before=file) == (file, []), "a person has looked at the call"


# Failures


def test_recorded_refusals_become_the_failures_of_their_kind(tmp_path: Path) -> None:
    found = platform(record("person", Get("/people/{id}", id=ID)), refusals=Refusals(bad={422: "id"}))
    answers = {number: refusal(number, {"error": str(number)}, tmp_path) for number in (429, 404, 500, 422)}
    cases = [case("person", f"/people/p{number}", answer, id=f"p{number}") for number, answer in answers.items()]
    again = case("person", "/people/p410", refusal(410, {"gone": "yes"}, tmp_path), id="p410")
    file, faults = made(found, case("person", "/people/p1", PERSON, id="p1"), *cases, again)
    call = file["calls"][0]
    assert [call[word]["status"] for word in ("missing", "throttled", "broken")] == [404, 429, 500]
    assert faults == [
        "dropped: GET a.example/people/{id}: the 422 of person (InvalidArgument), because no trigger word selects it",
        "dropped: GET a.example/people/{id}: the 410 of person (NotFound), because `missing` has another one",
    ]


# The values of answers


def test_example_of_a_parameter_is_no_choice() -> None:
    params = (Param("id", "A number.", "8863", required=True), SORT)
    constants = Counter({"8863": 1, "top": 1, "open": 1, "python": 2})
    assert choices_in(constants, (*params, Param("tag", "A tag.", "python"))) == {"top", "open", "python"}


def test_examples_of_a_real_platform_are_no_choices() -> None:
    found, _ = load("stackexchange")
    params = [param for endpoint in found.endpoints for param in endpoint.params]
    examples = {param.example for param in params if param.name == "id"}
    assert examples
    assert examples & choices_in(constants_of("upstreams.platforms.stackexchange"), params) == set()


def test_id_that_equals_an_example_is_named() -> None:
    found = platform(record("person", Get("/people/{id}", id=ID)))
    cases = [case("person", "/people/p1", PERSON, id="p1")]
    file, _ = made(found, *cases)
    file["calls"][0]["body"]["id"] = 7
    line = "`id` is `7`, the example of the parameter `id`; a recorded value may remain"
    assert made(found, *cases, before=file)[1] == [f"warning: GET a.example/people/{{id}}: {line}"]


def test_placeholder_that_runs_into_a_letter_is_named() -> None:
    found = platform(record("person", Get("/people/{id}", id=ID)))
    cases = [case("person", "/people/p1", PERSON, id="p1")]
    file, _ = made(found, *cases)
    file["calls"][0]["body"]["login"] = "$idx"
    hint = "unknown placeholder `$idx` in `$idx`; write `${$id}x`"
    assert made(found, *cases, before=file)[1] == [f"warning: GET a.example/people/{{id}}: {hint}"]
    file["calls"][0]["body"]["login"] = "${$id}x"
    assert made(found, *cases, before=file) == (file, [])


# The tool's output


EDITED = platform(record("person", Get("/people/{id}", id=ID)))
EDITED_CASE = case("person", "/people/p1", {**PERSON, "bio": "not read", "more": {"a": 1}}, id="p1")


def edits() -> Iterator[tuple[Json, str]]:
    """Return edits of a file that the tool does not keep, and the line that names each of them."""
    of_call = "dropped: GET a.example/people/{id}: "
    old = {"call": "GET a.example/old", "body": {"id": "$id"}}
    file, _ = made(EDITED, EDITED_CASE)
    call = file["calls"][0]
    yield (
        {**file, "calls": [call, old]},
        "dropped: GET a.example/old: no case makes this call; with `by_hand` it is kept",
    )
    yield {**file, "calls": [call, call]}, f"{of_call}the file has this call twice"
    yield {**file, "calls": [{**call, "note": "x"}]}, f"{of_call}`note` of the file, x"
    body = {**call["body"], "age?": "$count"}
    yield {**file, "calls": [{**call, "body": body}]}, f"{of_call}`age`, because no reader reads it in any case"


@pytest.mark.parametrize("number", range(4))
def test_everything_that_is_dropped_is_named(number: int) -> None:
    before, line = list(edits())[number]
    file, faults = made(EDITED, EDITED_CASE, before=before)
    assert faults == [line]
    assert made(EDITED, EDITED_CASE, before=file) == (file, []), "the second run has nothing left to drop"


def test_members_that_no_reader_reads_are_listed() -> None:
    _, lines = generated(EDITED, play(EDITED, EDITED_CASE), {})
    assert "GET a.example/people/{id}: in a case, and not read: bio, more" in lines


def test_values_of_several_types_are_named() -> None:
    nested = record_map(post, id=read.ident("id"), url=read.NEVER, text=read.text("a.b"), author=read.NEVER)
    found = platform(rows("posts", Get("/posts"), Pages(nested, Once(), at="")))
    body = [{"id": 1, "a": {"b": "x"}}, {"id": 2, "a": "text"}]
    assert made(found, case("posts", "/posts", body))[1] == [
        "dropped: GET a.example/posts: 1 of 2 values of `a`, which have another type"
    ]


@pytest.mark.parametrize("when", [{}, {"id": "p1"}])
def test_call_by_hand_is_kept_and_serves_all_requests_that_it_matches(when: Mapping[str, str]) -> None:
    body = {"id": "$id", "login": "x", "own": 1}
    by_hand: Json = {"call": "GET a.example/{kind}/{id}", "when": when, "by_hand": True, "body": body}
    file, faults = made(EDITED, EDITED_CASE, before={"failures": {}, "calls": [by_hand]})
    assert (file["calls"], faults) == ([by_hand], [])


@pytest.mark.parametrize(("edit", "code"), [({}, 0), ({"note": "x"}, 1)])
def test_strict_run_fails_if_anything_is_dropped(edit: Mapping[str, str], code: int, tmp_path: Path) -> None:
    file = tmp_path / "stackexchange.json"
    assert main(["stackexchange"], tmp_path) == 0
    before = orjson.loads(file.read_bytes())
    call = next(one for one in before["calls"] if not one.get("by_hand"))
    call.update(edit)
    file.write_bytes(orjson.dumps(before))
    assert main(["stackexchange", "--strict"], tmp_path) == code
