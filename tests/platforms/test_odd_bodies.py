"""The gateway keeps its promises whatever the upstream answers: it returns a record, "not found" or a failure.

The stand-in's answer to an endpoint's example is changed at random. The request is sent to a node that all tests share.
The rows of a list are independent, so an unreadable row must not affect others. A run checks some endpoints of each
platform, or all of them with `SLUICE_WHOLE_MATRIX=1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, NamedTuple

import orjson
import pytest

from gateway.calls.shaping import shape
from tests.fakes.calling import Answered
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gate.matrix import SHARE, by_platform, sample_platforms
from tests.platforms.case import drive, from_sandbox
from tests.platforms.credentials import known_of
from tests.platforms.drive import endpoint as endpoint_of
from tests.platforms.drive import rules_of, told_as_sent
from tests.platforms.each import PLATFORMS, few_rows
from tests.platforms.odd import CARRIED, UNREADABLE, Carried, Change, Path, carried, changes, numbers_in, paths, text_of
from tests.platforms.odd_node import OddBench, Question, check_envelope, counts_in, is_json, running_bench
from tests.platforms.promised import check_data
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamError, UpstreamThrottled
from upstreams.model.fields.maps import RecordMap
from upstreams.model.fields.readers import Reader
from upstreams.model.fields.readers import count as count_of
from upstreams.model.steps import Answer, Call
from upstreams.platforms import load_platform

Record = dict[str, Any]
ONE_MEMBER = type(count_of("a"))
"""The reader of a member that may have several names."""
EXAMPLES = 8
"""Changed answers for each source of an endpoint. They do not depend on which endpoints a run checks."""


Endpoints = Sequence[tuple[Platform, Endpoint]]
ENDPOINTS: Endpoints = [(platform, endpoint) for platform in PLATFORMS for endpoint in platform.endpoints]


def slug_of(one: Sequence[Any]) -> str:
    return str(one[0].slug)


def sampled(items: Iterable[tuple[Any, ...]], share: int = SHARE) -> pytest.MarkDecorator:
    """Run a test for each platform, with those of its items that the run checks."""
    chosen = by_platform(items, slug_of, share)
    return pytest.mark.parametrize("chosen", chosen.values(), ids=chosen)


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
        touched.add(row_of(path, rows) if change.value not in UNREADABLE else None)
        shifts |= change.kind not in ("put", "add") and bool(path) and isinstance(path[-1], int)
        odd = change.on(odd, path)
    return Changed(odd, touched, shifts)


@sampled(ENDPOINTS)
def test_body_with_odd_values_is_read_or_refused(chosen: Endpoints, bench: OddBench) -> None:
    """Method: up to three changes to one upstream answer.

    If all of them are inside rows, the other rows must stay the same.
    """
    for platform, endpoint in chosen:
        question = bench.question(platform, endpoint)
        for chance in odd_examples(question.target):
            odd_one, wanted = chance.choice(question.odd_ones), changes(chance)
            if is_json(question.told[odd_one]):
                check_changed(bench, question, odd_one, wanted, platform=platform)
            else:
                good = question.told[odd_one]
                text = cut_up(good.body.decode(), wanted).encode(errors="surrogatepass")
                check_envelope(question, bench.run(bench.ask_with, question, odd_one, replace(good, body=text)))


def odd_examples(name: str) -> Iterator[Random]:
    """Yield a source of random choices for each example. pytest shows the choices of a failed example."""
    yield from (Random(f"{name} {number}") for number in range(EXAMPLES))


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


def cut_up(text: str, wanted: list[Change]) -> str:
    """Return a page or a feed in which pieces are removed, doubled or replaced."""
    for change in wanted:
        start = change.place % max(1, len(text))
        piece = text[start : start + 40]
        put = {"drop": "", "twice": piece * 2}.get(change.kind, str(change.value)[:200])
        text = text[:start] + put + text[start + len(piece) :]
    return text


def test_rows_are_found_in_most_lists(bench: OddBench) -> None:
    """Goal: the check of the unchanged rows really runs."""
    lists = [one for one in ENDPOINTS if one[1].archetype.many]
    questions = [bench.question(*chosen) for chosen in sample_platforms(lists, slug_of)]
    bodies = [(one, one.told[one.odd_ones[0]]) for one in questions if len(one.odd_ones) == 1]
    found = [rows_at(orjson.loads(told.body), lengths(one.data)) for one, told in bodies if is_json(told)]
    assert found.count(None) <= len(found) / 2


def check_numbers(question: Question, answer: Answered, odd: Changed, wanted: list[Change]) -> None:
    """Check that no number is invented. Each number is unchanged, comes from a change, or is null."""
    data = answer.json["data"]
    told = question.told.values()
    known = numbers_in([odd.body, *(orjson.loads(one.body) for one in told if is_json(one))])
    if not all(map(is_json, told)):  # In a feed, numbers are part of the text, and durations are written as times.
        known |= {value for _, value in counts_in(question.data)}
    derived = question.computed | combined_in(question.endpoint.record)
    assert {value for path, value in counts_in(data) if path[-1] not in derived} <= known
    if not odd.shifts and sizes(data) == sizes(question.data) and ids(data) == ids(question.data):
        before, brought = dict(counts_in(question.data)), numbers_in([change.value for change in wanted])
        for path, value in counts_in(data):
            is_free = path[-1] in derived or path == ("total",)  # a total may be counted in several ways
            assert value in brought or value == before.get(path) or is_free, f"{path} became {value}"


def combined_in(record: RecordMap | None) -> frozenset[str]:
    """Return the fields of a record that are not read from one member, but for example from the first of several."""
    if record is None:
        return frozenset()
    readers = {**record.readers, **record.ext}
    own = {name for name, reader in readers.items() if not (type(reader) is ONE_MEMBER and len(reader.names) == 1)}
    return frozenset(own).union(*(combined_in(inner) for reader in readers.values() for inner in maps_in(reader)))


def maps_in(reader: Reader) -> Iterator[RecordMap]:
    """Yield the maps of the records that a reader reads."""
    for name in getattr(reader, "__dataclass_fields__", ()):
        value = getattr(reader, name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, RecordMap):
                yield inner
            elif isinstance(inner, Reader):
                yield from maps_in(inner)


def check_emptiness(question: Question, answer: Answered, wanted: list[Change]) -> None:
    """Check that a list is empty only if its source was a list or missing.

    If another value replaced the source, it must not be.
    """
    if answer.json["data"].get("items") == [] and lengths(question.data) > len(wanted):
        assert any(change.kind != "put" or change.value is None or isinstance(change.value, list) for change in wanted)


def lengths(data: Record) -> int:
    return len(data.get("items", ()))


def ids(data: Record) -> list[Any]:
    """Return the id of each row, because a row may take the place of another one that cannot be read."""
    return [record.get("id") for item in data.get("items", ()) for record in item.values() if isinstance(record, dict)]


def sizes(data: Any) -> Any:
    """Return the number of entries in each list of an answer, by the names that lead to it."""
    if isinstance(data, list):
        return [len(data), *map(sizes, data)]
    return {name: sizes(one) for name, one in data.items()} if isinstance(data, dict) else None


def check_other_rows(question: Question, answer: Answered, changes_made: int) -> None:
    """Check that all unchanged rows are returned as before."""
    assert answer.status == 200, answer.json
    items = answer.json["data"]["items"]
    lost = [item for item in question.data["items"] if item not in items]
    assert len(lost) <= changes_made, f"{len(lost)} unchanged rows are missing or different"


def throttles(platform: Platform, told: ScriptedAnswer) -> bool:
    """Return whether the platform treats the answer as throttling, because that would delay all later requests."""
    answer = Answer(told.status, {}, None if told.body.strip() in (b"", b"null") else "")
    return isinstance(rules_of(platform).judge(answer), UpstreamThrottled)


ENCODED = [
    (platform, endpoint, how)
    for platform in PLATFORMS
    for endpoint in {endpoint.archetype.name: endpoint for endpoint in platform.endpoints}.values()
    for how in CARRIED
]
"""Each way of sending a body, with one request for each archetype of each platform."""


@sampled(ENCODED, share=4 * SHARE)
def test_oddly_encoded_body_is_read_or_refused(
    chosen: Sequence[tuple[Platform, Endpoint, Carried]], bench: OddBench
) -> None:
    """A run checks one in 24, because the same code reads the bodies of all archetypes."""
    for platform, endpoint, how in chosen:
        question = bench.question(platform, endpoint)
        odd_one = question.odd_ones[0]
        good = question.told[odd_one]
        told = carried(good.body, how, good.status, good.headers)
        if throttles(platform, told):
            continue
        answer = bench.run(bench.ask_with, question, odd_one, told)
        check_envelope(question, answer)
        is_one_of_several = len(question.odd_ones) > 1 or not is_json(good)
        elsewhere = {404} if how.status == 301 and any(map(platform.host_of, platform.sources)) else set()
        closed = {404} if isinstance(rules_of(platform).judge(Answer(how.status or 200, {}, None)), NotFound) else set()
        assert answer.status in how.statuses | elsewhere | closed or is_one_of_several, (how.name, question.target)


def test_session_that_the_upstream_refuses_is_renewed(bench: OddBench) -> None:
    """Goal: a platform that signs in can be tested with any answer. Method: Bluesky refuses a search twice."""
    platform = load_platform("bluesky")
    question = bench.question(platform, endpoint_of(platform, "search"))
    (odd_one,) = question.odd_ones
    upstream, site = bench.node.upstream, bench.node.node.catalog.sites["bluesky"]
    site._sessions_of("pds")._refused_at = float("-inf")  # a session is renewed at most every 30 s
    upstream.requests.clear()
    answer = bench.run(bench.ask_with, question, odd_one, ScriptedAnswer(401))
    check_envelope(question, answer)
    assert answer.code == "UPSTREAM_ERROR"
    assert [bench.signs_in(asked) or asked for asked in upstream.requests] == [odd_one, True, odd_one]


SOURCES = [
    (platform, endpoint, rung)
    for platform, endpoint in ENDPOINTS
    if endpoint.archetype.key
    for rung in range(len(endpoint.fallbacks) + 1)
]


@sampled(SOURCES)
def test_odd_body_of_any_source_is_read_or_refused(chosen: Sequence[tuple[Platform, Endpoint, int]]) -> None:
    """Method: each source of each endpoint separately, without sockets. One of the stand-in's answers is changed."""
    for platform, endpoint, rung in chosen:
        for chance in odd_examples(f"{platform.slug}/{endpoint.resource} {rung}"):
            check_source(platform, (endpoint, rung), chance.randint(0, 5), changes(chance))


def check_source(platform: Platform, which: tuple[Endpoint, int], odd: int, wanted: list[Change]) -> None:
    endpoint, rung_index = which
    stand_in, asked = from_sandbox(), count()

    def upstream(place: str, call: Call) -> Answer:
        good = stand_in(place, call)
        if good.status != 200 or isinstance(good.body, str) or next(asked) != odd:
            return good
        told = told_as_sent(200, good.headers, text_of(changed(good.body, wanted).body))
        platform.rest(told)
        return told

    values, signed_in = few_rows(endpoint), known_of(platform)
    with suppress(UpstreamError):
        result = drive(platform, endpoint.resource, values, upstream, credentials=signed_in, rung_index=rung_index)
        shaped = shape(endpoint.archetype, result, lambda state: orjson.dumps(state).decode())
        written = orjson.dumps(shaped.data)
        check_data(endpoint.archetype, orjson.loads(written))
        assert b"None" not in written
