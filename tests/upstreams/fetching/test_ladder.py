"""Ladders of sources: when an endpoint falls back to its next source, when it does not, and what the caller receives.

All tests run in virtual time, with one scripted exchange per source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.breaker import BreakerRules
from limits.errors import CircuitOpen, LimitError, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    SILENCE,
    Scripted,
    ScriptedExchange,
    Slow,
    http_answer,
    outcomes,
    source_over,
)
from upstreams.fetching.fetch import fetch, state_of
from upstreams.fetching.plan import Plan, plan
from upstreams.fetching.site import Site
from upstreams.fetching.source import Rules
from upstreams.model.archetypes import DOSSIER
from upstreams.model.endpoint import Endpoint, Fallback, Platform, Read
from upstreams.model.errors import (
    InvalidArgument,
    InvalidCursor,
    NotFound,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.fields import obj
from upstreams.model.params import Args, State
from upstreams.model.refusals import by_status
from upstreams.model.steps import Answer, Call, Fetched, Leg, Missing, Page, Part, Single, Steps

trio_run = run_virtually

ROUNDING_S = 1e-9
"""A tolerance for the rounding errors that accumulate when the virtual clock jumps."""
MAIN, SECOND, THIRD = "main", "second", "third"
ELSEWHERE = http_answer({"from": "elsewhere"})


def one(_args: Args) -> Steps:
    """The endpoint's own read, which makes one call."""
    answer = yield Call("/x")
    return Single({"body": obj(answer.body)})


def by(source: str) -> Read:
    """A fallback with a read of its own."""

    def read(_args: Args) -> Steps:
        answer = yield Call("/y", source=source)
        return Single({"body": obj(answer.body)})

    return read


def paged(source: str = "") -> Read:
    """Return a read of an endless list, whose pages are numbered by `p`."""

    def read(args: Args) -> Steps:
        page = args.position("p", 1)
        yield Call("/pages", {"p": page}, source=source)
        return Page([{"id": f"{source}{page}"}], next={"p": page + 1})

    return read


def next_of(fetched: Fetched) -> State | None:
    """Return the cursor after a page."""
    assert isinstance(fetched.result, Page)
    return fetched.result.next


def legs_of(fetched: Fetched) -> list[Any]:
    """Return the answers to the parts of a composite."""
    assert isinstance(fetched.result, Single)
    return [leg.answer for leg in fetched.result.legs]


def judge(answer: Answer) -> UpstreamError | None:
    """Treat a body with an error member as a definite answer."""
    if isinstance(answer.body, dict) and "gone" in answer.body:
        return NotFound(reason="account_gone")
    if isinstance(answer.body, dict) and "wrong" in answer.body:
        return InvalidArgument("id", "is wrong")
    return by_status(answer)


@dataclass(slots=True)
class Ladder:
    """A platform with three sources and one endpoint, and what the sources answer."""

    main: ScriptedExchange
    second: ScriptedExchange
    third: ScriptedExchange
    site: Site
    endpoint: Endpoint

    def planned(self, cursor: State | None = None) -> Plan:
        """Begin the endpoint's read, up to its first call."""
        return plan(self.site, self.endpoint, Args({}, cursor, self.site.credentials))

    async def fetch(self, *, cursor: State | None = None, within_s: float = LONG_S) -> Fetched:
        """Return the endpoint's answer."""
        return await fetch(self.planned(cursor), trio.current_time() + within_s)

    @property
    def asked(self) -> tuple[int, int, int]:
        """Return how many calls each source received."""
        return len(self.main.calls), len(self.second.calls), len(self.third.calls)


def ladder(
    *says: Scripted | ScriptedExchange,
    fallbacks: tuple[Fallback, ...] = (Fallback(source=SECOND), Fallback(source=THIRD, read=by(THIRD))),
    read: Read = one,
    more: tuple[Endpoint, ...] = (),
    credentials: Mapping[str, str] | None = None,
    rules: Rules = Rules(retries=0),  # noqa: B008 - it is frozen
    breaker: BreakerRules = BreakerRules(),  # noqa: B008 - it is frozen
) -> Ladder:
    """Return a ladder whose sources give these answers in order. Sources without an answer succeed."""
    exchanges = [what if isinstance(what, ScriptedExchange) else ScriptedExchange(what) for what in says]
    exchanges += [ScriptedExchange(OK) for _ in range(3 - len(says))]
    named = dict(zip((MAIN, SECOND, THIRD), exchanges, strict=True))
    endpoint = Endpoint(resource="x", summary="An x.", archetype=DOSSIER, read=read, fallbacks=fallbacks)
    platform = Platform(
        slug="odd",
        title="Odd",
        sources={name: f"https://{name}.test/v1" for name in named},
        endpoints=(endpoint, *more),
        headers=lambda _credentials: (("authorization", "Bearer secret"),),
        **FIELDS,
    )
    sources = {
        name: source_over(
            exchange, name=name, base_url=platform.sources[name], judge=judge, rules=rules, breaker=breaker
        )
        for name, exchange in named.items()
    }
    site = Site(platform, sources, credentials=credentials or {}, user_agent="sluice/1")
    return Ladder(named[MAIN], named[SECOND], named[THIRD], site, endpoint)


def throttling(wait_s: int) -> Scripted:
    return http_answer(status=429, retry_after=str(wait_s))


# Fallbacks


FALLS: list[Scripted] = [
    http_answer(status=501),
    http_answer({"message": "bad credentials"}, 401),
    http_answer(b"<html>Sorry</html>"),
    http_answer([1]),
    http_answer(status=302, location="https://elsewhere.test/"),
    http_answer(status=429, retry_after="7"),
    httpx.ReadError("cut"),
    httpx.ConnectTimeout("nobody is there"),
    SILENCE,
]


@pytest.mark.parametrize("answer", FALLS, ids=repr)
async def test_failed_or_throttled_source_falls_back(answer: Scripted) -> None:
    rungs = ladder(answer, ELSEWHERE)
    fetched = await rungs.fetch()
    assert fetched.result == Single({"body": {"from": "elsewhere"}})
    assert (fetched.source, fetched.rung_index, rungs.asked) == (SECOND, 1, (1, 1, 0))


async def test_retries_precede_the_fallback() -> None:
    rungs = ladder(FAILING, rules=Rules(retries=2))
    assert (await rungs.fetch()).source == SECOND
    assert rungs.asked == (3, 1, 0)


@pytest.mark.parametrize(
    ("answers", "source", "asked"),
    [((OK,), MAIN, (1, 0, 0)), ((FAILING, OK), SECOND, (1, 1, 0)), ((FAILING, FAILING, OK), THIRD, (1, 1, 1))],
)
async def test_first_working_source_answers(
    answers: tuple[Scripted, ...], source: str, asked: tuple[int, int, int]
) -> None:
    rungs = ladder(*answers)
    fetched = await rungs.fetch()
    assert (fetched.source, fetched.rung_index, rungs.asked) == (source, sum(asked) - 1, asked)


async def test_held_or_open_source_falls_back_without_a_call() -> None:
    rungs = ladder(http_answer(status=429, retry_after="60"))
    for _ in range(2):
        assert (await rungs.fetch()).source == SECOND
    assert rungs.asked == (1, 2, 0)
    rungs.site.sources[SECOND].breaker.isolate()
    assert (await rungs.fetch()).source == THIRD
    assert rungs.asked == (1, 2, 1)


async def test_held_source_is_not_waited_for_if_another_can_answer() -> None:
    rungs = ladder(throttling(5))
    for _ in range(3):
        assert ((await rungs.fetch()).source, trio.current_time()) == (SECOND, 0.0)
    await trio.sleep(5.0)
    rungs.main.script(OK)
    assert (await rungs.fetch()).source == MAIN


async def test_calls_fall_back_while_one_tries_after_a_hold() -> None:
    rungs = ladder(throttling(5))
    await rungs.fetch()
    await trio.sleep(5.0)
    rungs.main.script(Slow(2.0, OK))
    ended = await outcomes(*[rungs.fetch] * 10)
    sources = [fetched.source for fetched in ended if isinstance(fetched, Fetched)]
    assert sources == [SECOND] * 9 + [MAIN]
    assert rungs.asked == (2, 10, 0)


async def test_last_source_is_waited_for() -> None:
    rungs = ladder(FAILING, throttling(5), fallbacks=(Fallback(source=SECOND),))
    with pytest.raises(UpstreamFailed):
        await rungs.fetch()
    rungs.second.script(OK)
    assert ((await rungs.fetch()).source, trio.current_time()) == (SECOND, 5.0)


async def test_own_source_is_waited_for_if_all_others_failed() -> None:
    rungs = ladder(throttling(5), Slow(1.0, FAILING), fallbacks=(Fallback(source=SECOND),))
    with pytest.raises(UpstreamThrottled):
        await rungs.fetch()
    rungs.main.script(OK)
    fetched = await rungs.fetch()
    assert (fetched.source, fetched.rung_index, fetched.took_s, trio.current_time()) == (MAIN, 0, 4.0, 5.0)
    assert rungs.asked == (2, 2, 0)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (http_answer(status=404), NotFound),
        (http_answer(b"null"), NotFound),
        (http_answer({"gone": True}, 400), NotFound),
        (http_answer({"wrong": True}, 400), InvalidArgument),
        (ZeroDivisionError(), ZeroDivisionError),
    ],
    ids=repr,
)
async def test_definite_answers_and_bugs_do_not_fall_back(answer: Scripted, refusal: type[Exception]) -> None:
    rungs = ladder(answer)
    with pytest.raises(refusal):
        await rungs.fetch()
    assert rungs.asked == (1, 0, 0)


async def test_cancelled_caller_does_not_fall_back() -> None:
    rungs = ladder(SILENCE)
    with trio.move_on_after(3.0) as patience:
        await rungs.fetch()
    assert patience.cancelled_caught
    assert rungs.asked == (1, 0, 0)


@pytest.mark.parametrize(
    ("answer", "is_believed"),
    [
        (http_answer(status=404), False),
        (http_answer(status=410), False),
        (http_answer(b"null"), True),
        (http_answer({"gone": True}, 404), True),
    ],
    ids=repr,
)
async def test_fallback_status_alone_is_not_a_definite_not_found(answer: Scripted, is_believed: bool) -> None:
    """A server returns 404 for unknown paths too. A 404 is definite only if it comes from the endpoint's own source."""
    rungs = ladder(FAILING, answer)
    if is_believed:
        with pytest.raises(NotFound):
            await rungs.fetch()
    else:
        assert (await rungs.fetch()).source == THIRD
    alone = ladder(FAILING, answer, fallbacks=(Fallback(source=SECOND),))
    with pytest.raises(NotFound if is_believed else UpstreamFailed) as failure:
        await alone.fetch()
    assert is_believed or getattr(failure.value, "source", None) == MAIN


# Time


@pytest.mark.parametrize(
    ("answers", "asked_at"),
    [
        ((SILENCE, SILENCE, Slow(19.0, OK)), [0.0, 20.0, 40.0]),
        ((Slow(6.0, FAILING), SILENCE, Slow(26.0, OK)), [0.0, 6.0, 33.0]),
        ((FAILING, FAILING, Slow(59.0, OK)), [0.0, 0.0, 0.0]),
    ],
    ids=["equally", "unused time", "the last gets the rest"],
)
async def test_sources_share_the_remaining_time(answers: tuple[Scripted, ...], asked_at: list[float]) -> None:
    """Goal: a source that hangs leaves time for the others. Method: 60 s for three sources."""
    rungs = ladder(*answers, rules=Rules(timeout_s=LONG_S, retries=0))
    fetched = await rungs.fetch(within_s=60.0)
    assert [exchange.asked_at[0] for exchange in (rungs.main, rungs.second, rungs.third)] == pytest.approx(asked_at)
    assert (fetched.source, fetched.took_s) == (THIRD, pytest.approx(59.0))


async def test_silent_ladder_ends_at_its_deadline() -> None:
    rungs = ladder(SILENCE, SILENCE, SILENCE, rules=Rules(timeout_s=LONG_S, retries=2))
    with pytest.raises(UpstreamFailed, match="main: no response within"):
        await rungs.fetch(within_s=60.0)
    assert trio.current_time() == pytest.approx(60.0)


# The breaker


async def test_open_circuit_costs_no_call_and_no_time() -> None:
    """Method: each call to the main source hangs for 10 s until the circuit opens. Then the fallback answers."""
    rungs = ladder(
        SILENCE,
        fallbacks=(Fallback(source=SECOND),),
        rules=Rules(timeout_s=10.0, retries=0),
        breaker=BreakerRules(3, 60.0, 30.0),
    )
    took = [(await rungs.fetch(within_s=60.0)).took_s for _ in range(6)]
    assert took == [10.0, 10.0, 10.0, 0.0, 0.0, 0.0]
    assert rungs.asked == (3, 6, 0)
    assert [source.breaker.state for source in rungs.site.sources.values()] == ["open", "closed", "closed"]


# Which fallbacks are called


async def test_fallback_without_credentials_is_skipped() -> None:
    fallbacks = (Fallback(source=SECOND, needs=("token",)), Fallback(source=THIRD, read=by(THIRD)))
    rungs = ladder(FAILING, fallbacks=fallbacks)
    fetched = await rungs.fetch()
    assert (fetched.source, fetched.rung_index, rungs.asked) == (THIRD, 2, (1, 0, 1))
    knowing = ladder(FAILING, fallbacks=fallbacks, credentials={"token": "t"})
    assert (await knowing.fetch()).rung_index == 1


async def test_fallback_that_cannot_serve_the_values_is_skipped() -> None:
    def refuses(args: Args) -> Steps:
        if not args.values:
            raise InvalidArgument("id", "is written differently here")
        yield from one(args)
        return Single({})

    rungs = ladder(FAILING, fallbacks=(Fallback(source=SECOND, read=refuses), Fallback(source=THIRD, read=by(THIRD))))
    assert (await rungs.fetch()).rung_index == 2
    alone = ladder(FAILING, fallbacks=(Fallback(source=SECOND, read=refuses),))
    with pytest.raises(UpstreamFailed, match="main"):
        await alone.fetch()


async def test_mirror_receives_only_calls_to_the_first_source() -> None:
    def two(_args: Args) -> Steps:
        first, second = yield (Call("/a"), Call("/b", source=THIRD))
        return Single({"bodies": [first.body, second.body]})

    rungs = ladder(FAILING, fallbacks=(Fallback(source=SECOND),), read=two)
    assert (await rungs.fetch()).source == SECOND
    assert (rungs.second.targets, set(rungs.third.targets)) == (["/v1/a"], {"/v1/b"})


async def test_platform_headers_go_only_to_its_first_host() -> None:
    rungs = ladder(FAILING)
    await rungs.fetch()
    [there], [elsewhere] = rungs.main.calls, rungs.second.calls
    assert ("authorization", "Bearer secret") in there.headers
    assert [name for name, _ in elsewhere.headers] == ["user-agent", "accept"]


# The error if all sources are down


@pytest.mark.parametrize(
    ("says", "refusal", "source"),
    [
        ((FAILING, throttling(5), FAILING), UpstreamFailed, MAIN),
        ((throttling(50), FAILING, http_answer(status=404)), UpstreamThrottled, MAIN),
        ((throttling(50), throttling(5), throttling(9)), UpstreamThrottled, SECOND),
        ((throttling(0), http_answer(status=429), FAILING), UpstreamThrottled, MAIN),
        ((http_answer(status=429), FAILING, throttling(9)), UpstreamThrottled, THIRD),
    ],
)
async def test_own_failure_or_shortest_wait_is_reported(
    says: tuple[Scripted, ...], refusal: type[Exception], source: str
) -> None:
    with pytest.raises(refusal) as failure:
        await ladder(*says).fetch()
    assert getattr(failure.value, "source", None) == source


async def test_all_open_circuits_report_the_earliest_retry() -> None:
    rungs = ladder(FAILING, FAILING, FAILING, breaker=BreakerRules(1, 60.0, 30.0))
    with pytest.raises(UpstreamFailed):
        await rungs.fetch()
    with pytest.raises(CircuitOpen) as refusal:
        await rungs.fetch()
    assert refusal.value.retry_after_s == 30
    assert rungs.asked == (1, 1, 1)


async def test_held_source_reports_the_remaining_hold() -> None:
    rungs = ladder(throttling(60), throttling(30), fallbacks=(Fallback(source=SECOND),))
    with pytest.raises(UpstreamThrottled):
        await rungs.fetch()
    await trio.sleep(2.0)
    with pytest.raises(Throttled) as refusal:
        await rungs.fetch()
    assert refusal.value.retry_after_s == 28


# Cursors


PAGED = (Fallback(source=SECOND), Fallback(source=THIRD, read=paged(THIRD)))


async def test_mirror_cursor_is_valid_for_all_its_sources() -> None:
    rungs = ladder(FAILING, read=paged(), fallbacks=PAGED)
    assert next_of(await rungs.fetch()) == {"p": 2}
    assert (await rungs.fetch(cursor={"p": 2})).source == SECOND
    rungs.main.script(OK)
    fetched = await rungs.fetch(cursor={"p": 2})
    assert (fetched.source, fetched.result) == (MAIN, Page([{"id": "2"}], next={"p": 3}))


async def test_own_cursor_is_not_sent_to_a_different_fallback() -> None:
    rungs = ladder(FAILING, FAILING, read=paged(), fallbacks=PAGED)
    with pytest.raises(UpstreamFailed, match="main"):
        await rungs.fetch(cursor={"p": 2})
    assert rungs.asked == (1, 1, 0)


async def test_fallback_cursor_is_sent_only_to_its_fallback() -> None:
    rungs = ladder(FAILING, FAILING, read=paged(), fallbacks=PAGED)
    cursor: State | None = None
    for page in (1, 2, 3):
        fetched = await rungs.fetch(cursor=cursor)
        cursor = next_of(fetched)
        assert (fetched.result, fetched.rung_index) == (Page([{"id": f"third{page}"}], next=cursor), 2)
    assert rungs.asked == (1, 1, 3)
    rungs.third.script(FAILING)
    for exchange in (rungs.main, rungs.second):
        exchange.script(OK)
    with pytest.raises(UpstreamFailed, match="third"):
        await rungs.fetch(cursor=cursor)
    assert rungs.asked == (1, 1, 4)


async def test_cursor_survives_a_reordered_ladder() -> None:
    before = ladder(FAILING, FAILING, read=paged(), fallbacks=PAGED)
    after = ladder(read=paged(), fallbacks=PAGED[::-1])
    fetched = await after.fetch(cursor=next_of(await before.fetch()))
    assert (fetched.source, fetched.result) == (THIRD, Page([{"id": "third2"}], next=next_of(fetched)))


@pytest.mark.parametrize(
    "fallbacks",
    [
        (),
        (Fallback(source=SECOND),),
        (Fallback(source=THIRD),),
        (Fallback(source=THIRD, read=paged(THIRD), needs=("token",)),),
    ],
    ids=["no fallback left", "another fallback left", "became a mirror", "credential removed"],
)
async def test_cursor_of_a_removed_fallback_is_refused_before_any_call(fallbacks: tuple[Fallback, ...]) -> None:
    before = ladder(FAILING, FAILING, read=paged(), fallbacks=PAGED)
    after = ladder(read=paged(), fallbacks=fallbacks)
    with pytest.raises(InvalidCursor):
        after.planned(next_of(await before.fetch()))
    assert after.asked == (0, 0, 0)


async def test_cursor_state_leads_to_the_source_of_the_page() -> None:
    rungs = ladder(FAILING, FAILING, read=paged(), fallbacks=PAGED)
    planned = rungs.planned()
    fetched = await fetch(planned, LONG_S)
    again = await rungs.fetch(cursor=state_of(planned, fetched))
    assert again.result == fetched.result


# Parts of a composite, each with its own ladder


def part(resource: str, source: str, *fallbacks: Fallback) -> Endpoint:
    def read(args: Args) -> Steps:
        answer = yield Call(f"/{args.text('name')}", source=source)
        return Single({"body": obj(answer.body)})

    return Endpoint(resource=resource, summary="A part.", archetype=DOSSIER, read=read, fallbacks=fallbacks)


def composed(args: Args) -> Steps:
    """Return two legs, the second of which is optional."""
    first, second = yield (Part("first", {"name": "a"}), Part("second", {"name": "b"}, optional=True))
    return Single({"second": bool(second)}, legs=(Leg("odd/first", first), Leg("odd/second", second)))


PARTS = (
    part("first", MAIN, Fallback(source=SECOND, read=by(SECOND))),
    part("second", MAIN, Fallback(source=THIRD, read=by(THIRD))),
)


async def test_parts_fall_back_separately_and_legs_name_the_source() -> None:
    def script(call: object) -> Scripted:
        return Slow(2.0, FAILING) if getattr(call, "target", "") == "/v1/a" else OK

    rungs = ladder(ScriptedExchange(script=script), Slow(3.0, OK), read=composed, fallbacks=(), more=PARTS)
    first, second = legs_of(await rungs.fetch())
    assert (first.source, first.rung_index, first.took_s) == (SECOND, 1, 5.0)
    assert (second.source, second.rung_index, second.took_s) == (MAIN, 0, 0.0)
    assert rungs.asked == (2, 1, 0)


async def test_optional_part_without_a_working_source_is_missing() -> None:
    def script(call: object) -> Scripted:
        return Slow(2.0, FAILING) if getattr(call, "target", "") == "/v1/b" else OK

    third = Slow(4.0, FAILING)
    rungs = ladder(ScriptedExchange(script=script), OK, third, read=composed, fallbacks=(), more=PARTS)
    _, second = legs_of(await rungs.fetch())
    assert second == Missing("main: status 503", MAIN, 6.0)


async def test_required_part_fails_its_composite_with_its_own_failure() -> None:
    rungs = ladder(throttling(50), FAILING, OK, read=composed, fallbacks=(), more=PARTS)
    with pytest.raises(UpstreamThrottled):
        await rungs.fetch()


async def test_composite_with_silent_parts_ends_by_its_deadline() -> None:
    rungs = ladder(SILENCE, OK, SILENCE, read=composed, fallbacks=(), more=PARTS, rules=Rules(LONG_S, 0))
    first, second = legs_of(await rungs.fetch(within_s=30.0))
    assert (first.took_s, second.took_s) == (15.0, 30.0)
    assert (bool(first), bool(second)) == (True, False)


# Any sequence of answers


async def test_cancelled_ladder_leaks_no_tasks_or_permits() -> None:
    """Method: cancel at every checkpoint. Every circuit must still admit calls afterwards, so no permit was lost."""
    rungs = ladder(Slow(1.0, FAILING), Slow(1.0, throttling(1)), Slow(1.0, OK), breaker=BreakerRules(1, 60.0, 0.5))

    async def run() -> None:
        assert (await rungs.fetch()).source == THIRD

    async def check(_got_through: bool) -> None:
        assert [exchange.running for exchange in (rungs.main, rungs.second, rungs.third)] == [0, 0, 0]
        await trio.sleep(400.0)  # after the end of every hold and open circuit
        for name in (MAIN, SECOND, THIRD):
            rungs.site.sources[name].breaker.take_nowait().abandon()

    assert await cancel_everywhere(run, check) >= 3


ANSWERS: st.SearchStrategy[Scripted] = st.builds(
    Slow,
    st.sampled_from((0.0, 0.5, 3.0, math.inf)),
    st.sampled_from(
        (OK, FAILING, throttling(2), http_answer(status=404), http_answer([1]), http_answer({"gone": 1}, 400))
    ),
)
SCRIPTS = st.lists(ANSWERS, min_size=1, max_size=4)


@given(st.tuples(SCRIPTS, SCRIPTS, SCRIPTS), st.floats(0, 20), st.integers(0, 2), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_ladder_ends_by_its_deadline_with_an_answer_or_refusal(
    scripts: tuple[list[Scripted], ...], within_s: float, retries: int, rounds: int
) -> None:
    async def run() -> None:
        exchanges = [ScriptedExchange(*script) for script in scripts]
        rungs = ladder(*exchanges, rules=Rules(timeout_s=4.0, retries=retries), breaker=BreakerRules(2, 60.0, 5.0))
        for _ in range(rounds):
            started = trio.current_time()
            with suppress(UpstreamError, LimitError):
                fetched = await rungs.fetch(within_s=within_s)
                assert fetched.source == (MAIN, SECOND, THIRD)[fetched.rung_index]
                assert fetched.result == Single({"body": {"ok": True}})
                assert fetched.took_s <= within_s + ROUNDING_S
            assert trio.current_time() - started <= within_s + ROUNDING_S
            assert [exchange.running for exchange in exchanges] == [0, 0, 0]

    run_virtually(run)
