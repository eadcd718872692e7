"""The feed scenarios against real servers, each with few polls and events, and their reports."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from anyio.from_thread import start_blocking_portal

from bench.control.control_protocol import WAITING, ControlAddress, Waiting, open_control
from bench.core.errors import ChildFailed
from bench.core.results import new_results
from bench.core.scenarios import Stage
from bench.load.histogram import Histogram
from bench.peers.servers import ServerTarget, open_stage
from bench.scenarios.depth import DepthFigures
from bench.scenarios.feed import (
    SCENARIOS,
    FeedOptions,
    measure_growth,
    measure_parked,
    measure_reads,
    polls_possible,
)
from bench.scenarios.feed_marks import (
    GOAL,
    depth_found,
    extrapolated,
    growth_found,
    parked_figures,
    parked_marks,
    reads_found,
)
from bench.scenarios.feed_reads import ReadFigures
from bench.scenarios.growth import GrowthSetting
from bench.scenarios.parked import POLLS_EACH, Parked
from bench.scenarios.poll_clients import PollClients, UnexpectedPoll
from bench.suite import NAMES, SuiteOptions, run_suite, works_of

SEEN = Parked(
    count=10_000,
    bytes_each=14_336.0,
    park_cpu_us=400.0,
    all_woken_s=0.9,
    wake_cpu_us=80.0,
    idle_cpu_share=0.004,
    to_a_key={},
    to_an_account={},
    drained_s=2.0,
    ended_s=2.5,
    lost=0,
)


async def test_parked_polls_are_measured_while_woken_idle_and_drained() -> None:
    """Method: 60 polls belong to two whole accounts and a part of a third."""
    with trio.fail_after(90):
        seen = await measure_parked(60, to_a_key=6, to_an_account=3, idle_s=0.3)
    assert (seen.count, seen.lost) == (60, 0)
    assert seen.bytes_each > 1_000
    assert min(seen.park_cpu_us, seen.wake_cpu_us, seen.all_woken_s) > 0
    assert seen.idle_cpu_share is not None
    assert 0 < seen.drained_s <= seen.ended_s
    to_a_key, to_an_account = Histogram(seen.to_a_key), Histogram(seen.to_an_account)
    assert to_a_key.total == 6 * 5
    assert POLLS_EACH < to_an_account.total < 3 * POLLS_EACH
    assert to_a_key.percentile_ms(1) >= to_a_key.percentile_ms(0.5) > 0


async def test_reader_catches_up_and_consumers_acknowledge_to_the_end() -> None:
    """Method: two consumers have ten pages each, and more time than needed; the first page of each is not counted."""
    with trio.fail_after(90):
        seen = await measure_reads(events=1_000, consumers=2, seconds=30)
    assert seen.events == 1_000
    assert 0 < seen.acks <= 20 - 2
    assert min(seen.events_per_s, seen.event_cpu_us, seen.acks_per_s, seen.ack_cpu_us) > 0


@pytest.fixture(scope="module")
def one_poll_a_key() -> Iterator[ServerTarget]:
    """A node shared by several tests, at which each key may hold one poll."""
    stage = open_stage(Stage("feed", {"limits.long_polls": 1}))
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(stage) as target:
        yield target


@pytest.mark.parametrize(
    ("key", "said"), [("", "too early"), ("sl_nobody", "answered with 401")], ids=["one poll too many", "unknown key"]
)
def test_unexpected_poll_response_ends_the_run(key: str, said: str, one_poll_a_key: ServerTarget) -> None:
    """Method: a key may hold one poll here, so its second gets a response immediately; an unknown key is rejected."""
    clients = PollClients(one_poll_a_key.url)
    with open_control(one_poll_a_key.control) as control:
        (person,) = control.people(1, 1)
    try:
        for _ in range(2):
            clients.join(person.account, person.keys[0].id, key or person.keys[0].key)
        with pytest.raises(UnexpectedPoll, match=said):
            clients.read(10)
    finally:
        clients.close()


@pytest.mark.parametrize(
    ("order", "token", "said"),
    [("bench.frobnicate", None, "unknown operation bench.frobnicate"), (WAITING, "wrong", "token is missing or wrong")],
)
def test_rejected_command_fails_with_the_servers_message(
    order: str, token: str | None, said: str, one_poll_a_key: ServerTarget
) -> None:
    place = ControlAddress(one_poll_a_key.control.url, token or one_poll_a_key.control.token)
    with open_control(place) as control:
        control.send(order)
        with pytest.raises(RuntimeError, match=said):
            control.receive(Waiting)


def test_parked_polls_have_six_marks_and_twelve_figures() -> None:
    seen = replace(SEEN, to_a_key=counts(1.0, 9.0))
    marks = parked_marks(seen)
    assert [(mark.limit, mark.unit) for mark in marks] == [
        (15, "KiB each"),
        (1, "%"),
        (2, "ms"),
        (10, "ms"),
        (1, "s"),
        (3, "s"),
    ]
    assert [mark.value for mark in marks] == pytest.approx([14, 0.4, 1, 9, 0.9, 2], rel=0.01)
    assert all(mark.met for mark in marks)
    assert all(mark.name.startswith("10000 parked polls") for mark in marks)
    figures = parked_figures("10000 polls", SEEN)
    assert len({figure.name for figure in figures}) == len(figures) == 12
    assert all(figure.name.startswith("10000 polls, ") for figure in figures)


def test_drain_that_lost_polls_and_interrupted_idle_time_have_no_value() -> None:
    marks = parked_marks(replace(SEEN, lost=1, idle_cpu_share=None))
    assert (marks[1].value, marks[-1].value) == (None, None)
    assert extrapolated(replace(SEEN, idle_cpu_share=None))[1].value is None


def test_extrapolated_costs_are_labeled_as_such() -> None:
    figures = extrapolated(SEEN)
    assert all(figure.name.startswith(f"{GOAL} polls, extrapolated from 10000") for figure in figures)
    assert [figure.value for figure in figures] == pytest.approx([683.6, 2, 4.5, 10], rel=0.001)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_settled_miss_adds_few_bytes_to_the_store(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On SQLite the limit is the mark; a small PostgreSQL table has half-empty pages."""
    url = f"sqlite:///{tmp_path}/sluice.db"
    if engine == "postgres":
        url = request.getfixturevalue("postgres").fresh()
    with trio.fail_after(120):
        seen = await measure_growth(GrowthSetting(url, 8_000, accounts=20))
    assert seen.charges == 8_000
    assert 0 < seen.bytes_each <= (150 if engine == "sqlite" else 300)
    assert seen.log_bytes <= 64 * 2**20
    assert (seen.log_bytes > 0) is (engine == "sqlite")
    found = growth_found("SQLite", seen, bytes_most=150)
    assert [mark.unit for mark in found.marks] == ["bytes each", "MiB"]


def test_reads_have_only_figures_and_depth_also_has_marks() -> None:
    read = reads_found(ReadFigures(200_000, 50_000.0, 9.0, 2_000, 400.0, 1_500.0))
    assert read.marks == []
    assert [figure.value for figure in read.figures] == [50_000, 9, 400, 1_500]
    deep = depth_found(DepthFigures(1_000_000, counts(2.0, 4.0), counts(0.2, 0.4), fill_s=50.0))
    assert [(mark.limit, mark.met) for mark in deep.marks] == [(5, True), (1, True)]
    assert deep.figures[-1].value == 20_000


def test_possible_polls_are_a_multiple_of_an_accounts_polls_up_to_the_goal() -> None:
    possible = polls_possible()
    assert 0 < possible <= GOAL
    assert possible % POLLS_EACH == 0


async def test_feed_scenario_runs_once_without_rates() -> None:
    options = SuiteOptions(("depth",), feed=FeedOptions(events=1_000))
    results, told = new_results(), list[str]()
    with trio.fail_after(90):
        await run_suite(options, results, told.append)
    assert told == ["depth"]
    assert works_of(options) == 1
    assert results.figures[-1].value
    assert (len(results.marks), len(results.figures), results.points) == (2, 3, [])


async def test_node_that_does_not_start_fails_the_scenario() -> None:
    with trio.fail_after(90), pytest.raises(ChildFailed, match="long_polls"):
        await measure_parked(25, Stage("feed", {"limits.long_polls": -1}))


def test_command_offers_every_feed_scenario() -> None:
    assert set(SCENARIOS) == {"parked", "reads", "depth", "growth", "monitors", "deliveries", "flood"} < set(NAMES)


def counts(p50_ms: float, p99_ms: float) -> dict[int, int]:
    """Return a histogram with these two percentiles."""
    histogram = Histogram()
    for nth in range(100):
        histogram.record(round((p50_ms if nth < 98 else p99_ms) * 1e6))
    return dict(histogram.counts)
