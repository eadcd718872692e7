"""How one account's calls to a source affect other accounts: circuits and holds.

Time is virtual. Whenever all tasks wait, the clock jumps to the next deadline, so waits are exact and cost nothing.
"""

from __future__ import annotations

import httpx
import pytest
import trio

from limits.errors import CircuitOpen, Throttled
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    Scripted,
    ScriptedExchange,
    asking,
    http_answer,
    source_over,
)
from upstreams.fetching.source import WHOLE_HOST_S, Rules, Source
from upstreams.model.errors import UpstreamError
from upstreams.model.refusals import Backoff
from upstreams.model.steps import Answer
from upstreams.transport.http import HttpCall

pytestmark, trio_run = pytest.mark.critical, run_virtually
ATTEMPT_S = 0.25
DAY = http_answer(status=429, retry_after="86400")


def host_of(answers: dict[str, Scripted], *, by_page: bool = True) -> tuple[Source, ScriptedExchange]:
    """A host with one scripted answer for each target, and OK for any other target."""

    def script(call: HttpCall) -> Scripted:
        return answers.get(call.target, OK)

    exchange = ScriptedExchange(script=script)
    rules = Rules(timeout_s=ATTEMPT_S, retries=0)
    return source_over(exchange, rules=rules, by_page=by_page, backoff=_rest), exchange


def _rest(answer: Answer) -> Backoff | None:
    return Backoff(answer.body["rests"], "source") if "rests" in answer.body else None


async def fail(source: Source, account: str, target: str, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises((UpstreamError, Throttled, CircuitOpen)):
            await source.ask(asking(target), LONG_S, account_id=account)


async def get(source: Source, account: str, target: str) -> object:
    return (await source.ask(asking(target), LONG_S, account_id=account)).body


# Circuits


async def test_failing_page_does_not_close_its_host() -> None:
    """Regression: two requests for a page that returned 500, with their retries, closed the host to every account."""
    source, _ = host_of({"/bad": FAILING})
    for account in ("a", "b", "c"):
        await fail(source, account, "/bad", 10)
    assert await get(source, "a", "/good") == await get(source, "d", "/good") == {"ok": True}


async def test_failing_pages_of_one_account_close_the_host_for_that_account_only() -> None:
    source, exchange = host_of({f"/bad{number}": FAILING for number in range(20)})
    for number in range(20):
        await fail(source, "a", f"/bad{number}")
    assert len(exchange.calls) == 5
    with pytest.raises(CircuitOpen):
        await get(source, "a", "/good")
    assert await get(source, "b", "/good") == {"ok": True}


async def test_failures_of_several_accounts_close_the_host() -> None:
    source, exchange = host_of({f"/bad{number}": FAILING for number in range(5)})
    for number in range(5):
        await fail(source, f"a{number % 2}", f"/bad{number}")
    with pytest.raises(CircuitOpen):
        await get(source, "c", "/good")
    assert len(exchange.calls) == 5


async def test_five_refused_connections_close_the_host() -> None:
    source, exchange = host_of({"/": httpx.ConnectError("refused")})
    await fail(source, "a", "/", 5)
    with pytest.raises(CircuitOpen):
        await get(source, "b", "/good")
    assert len(exchange.calls) == 5


async def test_redirect_to_a_dead_host_does_not_count_against_its_source() -> None:
    """Otherwise, anyone could close a host to every account through an open redirect on it."""

    def script(call: HttpCall) -> Scripted:
        if call.origin.host != "api.test":
            return httpx.ConnectError("refused")
        return OK if call.target == "/good" else http_answer(status=302, location=f"https://dead.test{call.target}")

    source = source_over(ScriptedExchange(script=script), rules=Rules(retries=0), by_page=True)
    for number in range(20):
        await fail(source, "a", f"/bad{number}")
    assert await get(source, "b", "/good") == {"ok": True}


async def test_failed_requests_hold_back_only_their_account() -> None:
    source, _ = host_of({"/heavy": FAILING}, by_page=False)
    await fail(source, "a", "/heavy", 5)
    for target in ("/heavy", "/light"):
        with pytest.raises(CircuitOpen):
            await get(source, "a", target)
    assert await get(source, "b", "/light") == {"ok": True}
    assert source.breaker.state == "closed"


# Holds


async def test_long_page_hold_affects_only_that_page() -> None:
    """Regression: a page's owner could close the whole host to every account for an hour."""
    for answer in (DAY, http_answer({"rests": 86_400})):
        source, exchange = host_of({"/sly": answer})
        if answer is DAY:
            await fail(source, "a", "/sly")
        else:
            await get(source, "a", "/sly")
        assert await get(source, "a", "/good") == await get(source, "b", "/good") == {"ok": True}
        await fail(source, "b", "/sly")
        assert exchange.targets == ["/sly", "/good", "/good"], "the page itself is not called"
        await trio.sleep(3_600)
        exchange.calls.clear()
        await get(source, "b", "/good")


async def test_second_throttling_page_holds_the_account() -> None:
    source, exchange = host_of(
        {"/1": http_answer(status=429, retry_after="7"), "/2": http_answer(status=429, retry_after="7")}
    )
    for target in ("/1", "/2"):
        await fail(source, "a", target)
    with pytest.raises(Throttled) as held:
        await get(source, "a", "/good")
    assert held.value.retry_after_s == 7
    assert await get(source, "b", "/good") == {"ok": True}
    await trio.sleep(7.0)
    await get(source, "a", "/good")
    assert len(exchange.calls) == 4


async def test_host_that_throttles_several_accounts_is_held_for_all() -> None:
    source, exchange = host_of({"/1": DAY, "/2": DAY})
    await fail(source, "a", "/1")
    await fail(source, "b", "/2")
    with pytest.raises(Throttled) as held:
        await get(source, "c", "/good")
    assert held.value.retry_after_s == WHOLE_HOST_S
    assert len(exchange.calls) == 2
    await trio.sleep(WHOLE_HOST_S)
    assert await get(source, "c", "/good") == {"ok": True}
