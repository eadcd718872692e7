"""The gateway keeps its promises whatever the upstream answers: it returns a record, "not found" or a failure.

The stand-in's answer to each endpoint's example is changed at random. The request is sent to a node that all tests
share. The rows of a list are independent, so an unreadable row must not affect others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from gateway.calls.shaping import shape
from tests.fakes.calling import Answered
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.platforms.case import drive, from_sandbox
from tests.platforms.drive import told_as_sent
from tests.platforms.odd import CARRIED, UNREADABLE, Change, Path, carried, changes, numbers_in, paths, text_of
from tests.platforms.odd_node import OddBench, Question, check_envelope, running_bench
from tests.platforms.promised import check_data
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.steps import Answer, Call
from upstreams.platforms import load_platforms
from upstreams.sandbox.rehearse import example_values

Record = dict[str, Any]
PLATFORMS = load_platforms()
SUMS = frozenset(("shares", "downloads", "posts_count", "rank", "change", "max"))
COUNTED = {"discourse": "comments", "podcasts": "duration_seconds", "youtube": "duration_seconds"}
"""A field for each platform that is computed from a count, a text or milliseconds."""
OUR_OWN = frozenset(("computed", "legs", "velocity"))
ODD = settings(max_examples=100, derandomize=True, database=None, deadline=None, phases=(Phase.generate,))
"""Failing examples are not shrunk. They have at most three changes, and shrinking would take too long."""


every_platform = pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddBench]:
    with running_bench(tmp_path_factory.mktemp("odd")) as running:
        yield running


def rows_at(body: Any, rows: int, here: Path = ()) -> Path | None:
    """Return the path of the first list with exactly this many objects, which are the answer's rows."""
    if isinstance(body, list):
        return here if len(body) == rows and all(isinstance(one, dict) for one in body) else None
    inner = body.items() if isinstance(body, dict) else ()
    return next((found for name, one in inner if (found := rows_at(one, rows, (*here, name))) is not None), None)


def row_of(path: Path, rows: Path | None) -> Path | None:
    """Return the path of the row to which a path belongs, or None."""
    inside = rows is not None and path[: len(rows)] == rows and len(path) > len(rows)
    return path[: len(rows) + 1] if rows is not None and inside else None


class Changed(NamedTuple):
    """A body with its changes, and the paths of the changed rows. None among them means a change outside all rows."""

    body: Any
    touched: set[Path | None]
    shifts: bool
    """Whether a change has moved entries in a list."""


def changed(body: Any, wanted: list[Change], rows: Path | None = None) -> Changed:
    known = list(paths(body))
    odd, touched, shifts = deepcopy(body), set[Path | None](), False
    for change in wanted:
        path = change.at(odd, known)
        note(f"{change.kind} at {path}: {change.value!r:.60}")
        touched.add(row_of(path, rows) if change.value not in UNREADABLE else None)
        shifts |= change.kind not in ("put", "add") and bool(path) and isinstance(path[-1], int)
        odd = change.on(odd, path)
    return Changed(odd, touched, shifts)


@every_platform
def test_body_with_odd_values_is_read_or_refused(platform: Platform, bench: OddBench) -> None:
    """Method: up to three changes to one upstream answer.

    If all of them are inside rows, the other rows must stay the same.
    """
    questions = bench.questions(platform)

    @ODD
    @given(
        which=st.integers(0, 10_000),
        odd=st.integers(0, 100),
        wanted=st.lists(changes(), min_size=1, max_size=3),
    )
    def ask(which: int, odd: int, wanted: list[Change]) -> None:
        question = questions[which % len(questions)]
        odd_one = question.odd_ones[odd % len(question.odd_ones)]
        note(f"{question.target}: {odd_one}")
        if is_json(question.told[odd_one]):
            check_changed(bench, question, odd_one, wanted, platform=platform)
        else:
            good = question.told[odd_one]
            text = cut_up(good.body.decode(), wanted).encode(errors="surrogatepass")
            check_envelope(question, bench.run(bench.ask_with, question, odd_one, replace(good, body=text)))

    ask()


def check_changed(
    bench: OddBench, question: Question, odd_one: str, wanted: list[Change], *, platform: Platform
) -> None:
    good = question.told[odd_one]
    before = orjson.loads(good.body)
    rows = rows_at(before, lengths(question.data)) if question.endpoint.archetype.many else None
    odd = changed(before, wanted, rows)
    told = replace(good, body=text_of(odd.body))
    if throttles(platform, told):
        return
    answer = bench.run(bench.ask_with, question, odd_one, told)
    check_envelope(question, answer)
    if answer.status == 200:
        check_numbers(question, answer, odd, wanted)
        check_emptiness(question, answer, wanted)
        assert b"None" not in answer.body or any(b"None" in one.body for one in (told, good))
    if rows is not None and None not in odd.touched and len(question.odd_ones) == 1:
        check_other_rows(question, answer, len(wanted))


def is_json(told: ScriptedAnswer) -> bool:
    return told.headers.get("content-type", "").startswith("application/json")


def cut_up(text: str, wanted: list[Change]) -> str:
    """Return a page or a feed in which pieces are removed, doubled or replaced."""
    for change in wanted:
        start = change.place % max(1, len(text))
        piece = text[start : start + 40]
        put = {"drop": "", "twice": piece * 2}.get(change.kind, str(change.value)[:200])
        text = text[:start] + put + text[start + len(piece) :]
    return text


def test_rows_are_found_in_lists_of_every_platform(bench: OddBench) -> None:
    """Goal: the check of the unchanged rows really runs."""
    for platform in PLATFORMS:
        lists = [one for one in bench.questions(platform) if one.endpoint.archetype.many and len(one.odd_ones) == 1]
        bodies = [(one, one.told[one.odd_ones[0]]) for one in lists]
        bodies = [(one, orjson.loads(told.body)) for one, told in bodies if is_json(told)]
        found = [one for one, body in bodies if rows_at(body, lengths(one.data)) is not None]
        assert len(found) * 2 >= len(bodies), f"{platform.slug}: rows were found in {len(found)} of {len(bodies)} lists"


def check_numbers(question: Question, answer: Answered, odd: Changed, wanted: list[Change]) -> None:
    """Check that no number is invented. Each number is unchanged, comes from a change, or is null."""
    data = answer.json["data"]
    told = question.told.values()
    known = numbers_in([odd.body, *(orjson.loads(one.body) for one in told if is_json(one))])
    if not all(map(is_json, told)):  # In a feed, numbers are part of the text, and durations are written as times.
        known |= {value for _, value in counts_in(question.data)}
    derived = COUNTED.get(question.target.split("/")[2])
    assert {value for path, value in counts_in(data) if path[-1] != derived} <= known
    if not odd.shifts and lengths(data) == lengths(question.data):
        before, brought = dict(counts_in(question.data)), numbers_in([change.value for change in wanted])
        for path, value in counts_in(data):
            assert value in brought or value == before.get(path) or path[-1] == derived, f"{path} became {value}"


def check_emptiness(question: Question, answer: Answered, wanted: list[Change]) -> None:
    """Check that a list is empty only if its source was a list or missing.

    If another value replaced the source, it must not be.
    """
    if answer.json["data"].get("items") == [] and lengths(question.data) > len(wanted):
        assert any(change.kind != "put" or change.value is None or isinstance(change.value, list) for change in wanted)


def lengths(data: Record) -> int:
    return len(data.get("items", ()))


def counts_in(data: Any, here: Path = ()) -> Iterator[tuple[Path, int]]:
    """Yield the path and value of each number in an answer, except sums and numbers that the gateway computes."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in inner:
        if type(value) is int and name not in SUMS:
            yield (*here, name), value
        elif name not in OUR_OWN:
            yield from counts_in(value, (*here, name))


def check_other_rows(question: Question, answer: Answered, changes_made: int) -> None:
    """Check that all unchanged rows are returned as before."""
    assert answer.status == 200, answer.json
    items = answer.json["data"]["items"]
    lost = [item for item in question.data["items"] if item not in items]
    assert len(lost) <= changes_made, f"{len(lost)} unchanged rows are missing or different"


def throttles(platform: Platform, told: ScriptedAnswer) -> bool:
    """Return whether the platform treats the answer as throttling, because that would delay all later requests."""
    answer = Answer(told.status, {}, None if told.body.strip() in (b"", b"null") else "")
    return isinstance(platform.judge(answer), UpstreamThrottled)


@every_platform
def test_oddly_encoded_body_is_read_or_refused(platform: Platform, bench: OddBench) -> None:
    """Method: each way of sending a body, with one request for each archetype."""
    by_archetype = {question.endpoint.archetype.name: question for question in bench.questions(platform)}
    for question in by_archetype.values():
        odd_one = question.odd_ones[0]
        good = question.told[odd_one]
        for how in CARRIED:
            told = carried(good.body, how, good.status, good.headers)
            if throttles(platform, told):
                continue
            answer = bench.run(bench.ask_with, question, odd_one, told)
            check_envelope(question, answer)
            is_one_of_several = len(question.odd_ones) > 1 or not is_json(good)
            elsewhere = {404} if how.status == 301 and any(map(platform.host_of, platform.sources)) else set()
            closed = {404} if isinstance(platform.judge(Answer(how.status or 200, {}, None)), NotFound) else set()
            assert answer.status in how.statuses | elsewhere | closed or is_one_of_several, (how.name, question.target)


@every_platform
def test_odd_body_of_any_source_is_read_or_refused(platform: Platform) -> None:
    """Method: each source of each endpoint separately, without sockets. One of the stand-in's answers is changed."""
    endpoints = [one for one in platform.endpoints if one.archetype.key]
    rungs = [(one, rung) for one in endpoints for rung in range(len(one.fallbacks) + 1)]

    @settings(ODD, max_examples=50)
    @given(st.sampled_from(rungs), st.integers(0, 5), st.lists(changes(), min_size=1, max_size=3))
    def read(which: tuple[Endpoint, int], odd: int, wanted: list[Change]) -> None:
        check_source(platform, which, odd, wanted)

    read()


def check_source(platform: Platform, which: tuple[Endpoint, int], odd: int, wanted: list[Change]) -> None:
    endpoint, rung_index = which
    note(f"{platform.slug}/{endpoint.resource} by rung {rung_index}")
    stand_in, asked = from_sandbox(), count()

    def upstream(place: str, call: Call) -> Answer:
        good = stand_in(place, call)
        if good.status != 200 or isinstance(good.body, str) or next(asked) != odd:
            return good
        told = told_as_sent(200, good.headers, text_of(changed(good.body, wanted).body))
        platform.rest(told)
        return told

    values, signed_in = example_values(endpoint), dict.fromkeys(platform.credentials, "ada.test")
    with suppress(UpstreamError):
        result = drive(platform, endpoint.resource, values, upstream, credentials=signed_in, rung_index=rung_index)
        shaped = shape(endpoint.archetype, result, lambda state: orjson.dumps(state).decode())
        written = orjson.dumps(shaped.data)
        check_data(endpoint.archetype, orjson.loads(written))
        assert b"None" not in written
