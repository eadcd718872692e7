"""The gateway says what it promises to any answer of a platform: read, not found or failed, and never a lie.

Every recorded exchange, and the stand-in's answer where an endpoint has no recording, is changed at random and asked
for through a whole node. The rows of a list stand for themselves: one that cannot be read takes no other with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import count
from pathlib import Path as Folder
from typing import Any

import orjson
import pytest
import trio
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from gateway.calls.shaping import shape
from tests.fakes.calling import Answered
from tests.fakes.scripted_upstream import Told
from tests.platforms.case import drive, from_sandbox
from tests.platforms.drive import told_as_sent
from tests.platforms.odd import CARRIED, UNREADABLE, Change, Path, carried, changes, paths, text_of
from tests.platforms.odd_node import SESSION, Question, check_envelope, open_bench
from tests.platforms.promised import check_data
from tests.platforms.test_recordings import PLATFORMS
from upstreams.model.endpoint import Platform
from upstreams.model.errors import UpstreamError
from upstreams.model.steps import Answer, Call
from upstreams.sandbox.rehearse import example_values

Record = dict[str, Any]
ASKS_FOR_REST = frozenset(("backoff", "quota_remaining"))
"""Members by which an upstream asks to be left alone: the next example would find it held."""
ROWS_AT = frozenset(("items", "hits", "feed", "posts", "likes", "followers", "follows", "actors", "children"))
"""Where the rows of a list stand in a body that is no list itself."""
SUMS = frozenset(("shares", "downloads", "posts_count"))
OUR_OWN = frozenset(("computed", "legs", "velocity"))
ODD = settings(max_examples=100, derandomize=True, database=None, deadline=None, phases=(Phase.generate,))
"""No example is made smaller: it has three changes at most, and a node of tests does not live for long."""


def row_of(path: Path) -> Path | None:
    """The row of a list that a path lies in."""
    for depth, name in enumerate(path):
        if isinstance(name, int) and (depth == 0 or path[depth - 1] in ROWS_AT):
            return path[: depth + 1]
        if name == "replies":  # of a thread's root
            return path[: depth + 2] if len(path) > depth + 1 else None
    return None


def changed(body: Any, wanted: list[Change]) -> tuple[Any, set[Path | None]]:
    """The body with the changes, and the rows that they lie in: None stands for the rest of the body."""
    known = [path for path in paths(body) if not (path and path[0] in ASKS_FOR_REST)]
    odd, rows = deepcopy(body), set[Path | None]()
    for change in wanted:
        path = change.at(odd, known)
        note(f"{change.kind} at {path}: {change.value!r:.60}")
        rows.add(row_of(path) if change.value not in UNREADABLE else None)
        odd = change.on(odd, path)
    return odd, rows


@pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])
async def test_a_body_with_odd_values_is_read_or_refused_and_never_a_lie(platform: Platform, tmp_path: Folder) -> None:
    """Method: up to three changes inside of one of the upstream's answers; a second look where all lie in rows."""
    async with open_bench(platform, tmp_path) as bench:

        @ODD
        @given(
            which=st.integers(0, 10_000),
            odd=st.integers(0, 100),
            wanted=st.lists(changes(), min_size=1, max_size=3),
        )
        def asked(which: int, odd: int, wanted: list[Change]) -> None:
            question = bench.questions[which % len(bench.questions)]
            odd_one = question.odd_ones[odd % len(question.odd_ones)]
            good = question.told[odd_one]
            body, rows = changed(orjson.loads(good.body), wanted)
            note(f"{question.target}: {odd_one}")
            told = Told(good.status, text_of(body), good.headers)
            answer = trio.from_thread.run(bench.ask_with, question, odd_one, told)
            check_envelope(question, answer)
            if answer.status == 200:
                check_numbers(question, answer, body, wanted)
                check_emptiness(question, answer, wanted)
                assert b"None" not in answer.body or any(b"None" in one.body for one in (told, good))
            if question.endpoint.archetype.many and None not in rows and len(question.odd_ones) == 1:
                check_other_rows(question, answer, len(wanted))

        await trio.to_thread.run_sync(asked)


def check_numbers(question: Question, answer: Answered, body: Any, wanted: list[Change]) -> None:
    """No number is there that nobody sent: each is as it was, or one that a change brought, or none at all."""
    data = answer.json["data"]
    known = numbers_in([body, *(orjson.loads(one.body) for one in question.told.values())])
    assert {value for _, value in counts_in(data)} <= known
    if all(change.kind in ("drop", "put", "add") for change in wanted) and lengths(data) == lengths(question.data):
        before, brought = dict(counts_in(question.data)), numbers_in([change.value for change in wanted])
        for path, value in counts_in(data):
            assert value in brought or value == before.get(path), f"{path} became {value}"


def check_emptiness(question: Question, answer: Answered, wanted: list[Change]) -> None:
    """A list is empty only where one came that is, or none at all; not where something else came in its place."""
    if answer.json["data"].get("items") == [] and lengths(question.data) > len(wanted):
        assert any(change.kind != "put" or change.value is None or isinstance(change.value, list) for change in wanted)


def lengths(data: Record) -> int:
    return len(data.get("items", ()))


def numbers_in(body: Any) -> set[int]:
    """The whole numbers in it, also those that came as text or as 3.0."""
    if isinstance(body, dict | list):
        return set[int]().union(*map(numbers_in, body.values() if isinstance(body, dict) else body))
    if isinstance(body, int):
        return {body}
    with suppress(OverflowError, TypeError, ValueError):
        return {int(body)} if int(body) == float(body) else set()
    return set()


def counts_in(data: Any, here: Path = ()) -> Iterator[tuple[Path, int]]:
    """Where an answer tells which numbers, but for those that are sums or made by the gateway."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in inner:
        if type(value) is int and name not in SUMS:
            yield (*here, name), value
        elif name not in OUR_OWN:
            yield from counts_in(value, (*here, name))


def check_other_rows(question: Question, answer: Answered, changes_made: int) -> None:
    """All rows that were not changed are there as before."""
    assert answer.status == 200, answer.json
    items = answer.json["data"]["items"]
    lost = [item for item in question.data["items"] if item not in items]
    assert len(lost) <= changes_made, f"{len(lost)} rows are lost or other than they were"


@pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])
async def test_a_body_that_is_carried_oddly_is_read_or_refused(platform: Platform, tmp_path: Folder) -> None:
    """Method: every way of carrying a body, for one question of each archetype."""
    async with open_bench(platform, tmp_path) as bench:
        by_archetype = {question.endpoint.archetype.name: question for question in bench.questions}
        for question in by_archetype.values():
            for odd_one in question.odd_ones[:1]:
                for how in CARRIED:
                    good = question.told[odd_one]
                    told = carried(good.body, how, good.status, good.headers)
                    answer = await bench.ask_with(question, odd_one, told)
                    check_envelope(question, answer)
                    assert answer.status in how.statuses or len(question.odd_ones) > 1, (how.name, question.target)


EVERY_RUNG = [
    (platform, endpoint, rung_index)
    for platform in PLATFORMS
    for endpoint in platform.endpoints
    if endpoint.archetype.key
    for rung_index in range(len(endpoint.fallbacks) + 1)
]


@settings(ODD, max_examples=200)
@given(
    which=st.integers(0, 10_000),
    odd=st.integers(0, 5),
    wanted=st.lists(changes(), min_size=1, max_size=3),
)
def test_an_odd_body_of_a_fallback_is_read_or_refused_too(which: int, odd: int, wanted: list[Change]) -> None:
    """Method: each source of each endpoint by itself, without sockets; one of the stand-in's answers is changed."""
    platform, endpoint, rung_index = EVERY_RUNG[which % len(EVERY_RUNG)]
    note(f"{platform.slug}/{endpoint.resource} by rung {rung_index}")
    stand_in, asked = from_sandbox(), count()

    def upstream(place: str, call: Call) -> Answer:
        good = stand_in(place, call)
        if good.status != 200 or isinstance(good.body, str) or next(asked) != odd:
            return good
        return told_as_sent(200, good.headers, text_of(changed(good.body, wanted)[0]).decode())

    with suppress(UpstreamError):
        result = drive(
            platform, endpoint.resource, example_values(endpoint), upstream, credentials=SESSION, rung_index=rung_index
        )
        shaped = shape(endpoint.archetype, result, lambda state: orjson.dumps(state).decode())
        written = orjson.dumps(shaped.data)
        check_data(endpoint.archetype.name, orjson.loads(written))
        assert b"None" not in written
