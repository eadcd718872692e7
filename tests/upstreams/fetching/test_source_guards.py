"""What guards a platform's source: its breaker, the holds that its upstream requests, and the rules for redirects.

Time is virtual. Whenever all tasks wait, the clock jumps to the next deadline, so waits are exact and cost nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest
import trio

from limits.breaker import BreakerRules
from limits.errors import CircuitOpen, Throttled
from tests.fakes.cancelling import cancel_everywhere
from tests.fakes.patient_clock import run_virtually
from tests.fakes.scripted_exchange import (
    FAILING,
    LONG_S,
    OK,
    SILENCE,
    LongestPauses,
    ScriptedExchange,
    Slow,
    asking,
    http_answer,
    outcomes,
    source_over,
)
from upstreams.fetching.source import THROTTLED_S, Rules, Source
from upstreams.model.errors import (
    HELD_MAX_S,
    InvalidArgument,
    NotFound,
    UpstreamError,
    UpstreamFailed,
    UpstreamThrottled,
)
from upstreams.model.refusals import Backoff
from upstreams.model.steps import Answer
from upstreams.transport.http import HttpAnswer

trio_run = run_virtually

IMPATIENT = Rules(timeout_s=0.25)
"""Rules with a timeout too short to wait for most holds."""


async def opened(**options: Any) -> tuple[ScriptedExchange, Source]:
    """Return a source that has failed until its circuit opened, without these calls."""
    exchange = ScriptedExchange(http_answer(status=501))
    source = source_over(exchange, **options)
    for _ in range(5):
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), LONG_S)
    assert source.breaker.state == "open"
    exchange.calls.clear()
    return exchange, source


async def half_open(**options: Any) -> tuple[ScriptedExchange, Source]:
    """Return a source whose open circuit allows a probe again."""
    opening = await opened(**options)
    await trio.sleep(30.0)
    return opening


# The breaker


async def test_five_failures_open_the_circuit() -> None:
    exchange, source = await opened()
    with pytest.raises(CircuitOpen) as refused:
        await source.ask(asking(), LONG_S)
    assert refused.value.retry_after_s == 30
    assert exchange.calls == []


async def test_request_counts_once_despite_retries() -> None:
    """Regression: two requests with two retries each counted as six failures, and five failures open the circuit."""
    exchange = ScriptedExchange(FAILING)
    source = source_over(exchange, breaker=BreakerRules(failures=3))
    for failures in (1, 2):
        with pytest.raises(UpstreamFailed):
            await source.ask(asking(), LONG_S)
        assert source.breaker.statistics().failures == failures
    assert len(exchange.calls) == 5, "three attempts, and two more within the retry budget"
    exchange.script(FAILING, OK)
    await trio.sleep(20.0)
    await source.ask(asking(), LONG_S)
    assert (source.breaker.state, source.breaker.statistics().failures) == ("closed", 2)


async def test_retries_stop_at_an_open_circuit() -> None:
    exchange = ScriptedExchange(FAILING)
    source = source_over(exchange, breaker=BreakerRules(failures=1), rng=LongestPauses())

    async def later() -> object:
        await trio.sleep(0.05)
        return await source.ask(asking(method="POST"), LONG_S)

    failed, refused = await outcomes(partial(source.ask, asking(), LONG_S), later)
    assert [type(failed), type(refused)] == [UpstreamFailed, CircuitOpen]
    assert len(exchange.calls) == 2


@pytest.mark.critical
async def test_own_waits_and_short_timeouts_do_not_count_against_the_source() -> None:
    """A caller can choose a timeout of one millisecond, or occupy all connections to a source."""
    for said_, within_s in ((SILENCE, 0.001), (httpx.ConnectTimeout("slow"), 1.0), (httpx.PoolTimeout("busy"), LONG_S)):
        source = source_over(ScriptedExchange(said_))
        for _ in range(10):
            with pytest.raises(UpstreamFailed):
                await source.ask(asking(), trio.current_time() + within_s)
        assert source.breaker.statistics().failures == 0
    source = source_over(ScriptedExchange(SILENCE), rules=Rules(timeout_s=6.0))
    with pytest.raises(UpstreamFailed):
        await source.ask(asking(), trio.current_time() + 15.0)
    assert source.breaker.statistics().failures == 1, "its last attempt had 3 s, but the first two had 6 s"


async def test_failed_probe_is_not_retried_and_doubles_the_open_time() -> None:
    exchange, source = await half_open()
    exchange.script(FAILING)
    await outcomes(partial(source.ask, asking(), LONG_S))
    assert len(exchange.calls) == 1
    assert 59 <= source.breaker.retry_after_s <= 60


async def test_cancelled_probe_releases_its_permit() -> None:
    exchange, source = await half_open()
    exchange.script(Slow(1.0, http_answer(status=302, location="/v1/y")), Slow(1.0, OK))

    async def check(got_through: bool) -> None:
        await trio.lowlevel.checkpoint()
        exchange.script(Slow(1.0, http_answer(status=302, location="/v1/y")), Slow(1.0, OK))
        assert source.breaker.state == ("closed" if got_through else "half_open")
        assert source.breaker.statistics().retry_after_s == 0

    assert await cancel_everywhere(lambda: source.ask(asking(), LONG_S), check) >= 2


@pytest.mark.parametrize("refusal", [NotFound(), InvalidArgument("handle", "is none")])
async def test_not_found_is_a_success_of_the_source(refusal: UpstreamError) -> None:
    exchange, source = await half_open(judge=lambda answer: refusal if answer.status == 404 else None)
    exchange.script(http_answer(status=404))
    for _ in range(10):
        with pytest.raises(type(refusal)):
            await source.ask(asking(), LONG_S)
        assert source.breaker.state == "closed"


async def test_throttled_probe_releases_its_permit_without_a_verdict() -> None:
    exchange, source = await half_open()
    exchange.script(http_answer(status=429, retry_after="1"), OK)
    with pytest.raises(UpstreamThrottled):
        await source.ask(asking(), LONG_S)
    assert (source.breaker.state, source.breaker.retry_after_s) == ("half_open", 0)
    await trio.sleep(1.0)
    await source.ask(asking(), LONG_S)
    assert source.breaker.state == "closed"


async def test_bug_passes_through_and_does_not_count_against_the_source() -> None:
    source = source_over(ScriptedExchange(ZeroDivisionError()))
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            await source.ask(asking(), LONG_S)
    assert source.breaker.statistics().failures == 0


# Holds


@pytest.mark.parametrize(
    ("answer", "told_s", "held_s"),
    [
        (http_answer(status=429, retry_after="7"), 7.0, 7),
        (http_answer(status=503, retry_after="7"), 7.0, 7),
        (http_answer(status=429), None, THROTTLED_S),
        (http_answer(status=429, retry_after="9" * 400), HELD_MAX_S, 3600),
    ],
)
async def test_throttling_holds_the_source_for_retry_after(
    answer: HttpAnswer, told_s: float | None, held_s: float
) -> None:
    exchange = ScriptedExchange(answer, OK)
    source = source_over(exchange, rules=IMPATIENT)
    with pytest.raises(UpstreamThrottled) as throttled:
        await source.ask(asking("/v1/one"), LONG_S)
    assert throttled.value.retry_after_s == told_s
    for target in ("/v1/one", "/v1/two?q=1"):
        with pytest.raises(Throttled) as held:
            await source.ask(asking(target), LONG_S)
        assert held.value.retry_after_s == held_s
    await trio.sleep(held_s - 0.5)
    with pytest.raises(Throttled) as held:
        await source.ask(asking(), LONG_S)
    assert held.value.retry_after_s == 1
    assert len(exchange.calls) == 1
    await trio.sleep(0.5)
    await source.ask(asking(), LONG_S)


async def test_method_pause_holds_only_that_method() -> None:
    exchange = ScriptedExchange(http_answer({"rests": 10}), OK)
    source = source_over(exchange, backoff=_rest, method_of=lambda path: path.rstrip("0123456789"), rules=IMPATIENT)
    assert (await source.ask(asking("/v1/one/1?page=1"), LONG_S)).body == {"rests": 10}
    with pytest.raises(Throttled) as held:
        await source.ask(asking("/v1/one/2?page=1"), LONG_S)
    assert held.value.retry_after_s == 10
    await source.ask(asking("/v1/two/1?page=1"), LONG_S)
    await trio.sleep(10.0)
    await source.ask(asking("/v1/one/2?page=1"), LONG_S)
    assert exchange.targets == ["/v1/one/1?page=1", "/v1/two/1?page=1", "/v1/one/2?page=1"]


async def test_method_is_found_from_the_path_below_the_base() -> None:
    paths: list[str] = []

    def method_of(path: str) -> str:
        paths.append(path)
        return path

    source = source_over(ScriptedExchange(http_answer({"rests": 10})), backoff=_rest, method_of=method_of)
    await source.ask(asking(f"{source.base_path}/one?page=1"), LONG_S)
    assert paths == ["/one"]


async def test_source_pause_holds_every_method() -> None:
    exchange = ScriptedExchange(http_answer({"spent": 10}), OK)
    source = source_over(exchange, backoff=_rest, rules=IMPATIENT)
    await source.ask(asking("/v1/one"), LONG_S)
    for target in ("/v1/one", "/v1/two"):
        with pytest.raises(Throttled) as held:
            await source.ask(asking(target), LONG_S)
        assert held.value.retry_after_s == 10
    assert source.statistics().throttled_total == 2


def _rest(answer: Answer) -> Backoff | None:
    """Return the pause that an answer requests: `rests` is for its method, `spent` for the whole source."""
    if rests := answer.body.get("rests"):
        return Backoff(rests, "method")
    return Backoff(spent, "source") if (spent := answer.body.get("spent")) else None


async def test_throttling_is_not_a_failure() -> None:
    source = source_over(ScriptedExchange(http_answer(status=429, retry_after="1")))
    for _ in range(10):
        with pytest.raises(UpstreamThrottled):
            await source.ask(asking(), LONG_S)
        await trio.sleep(1.0)
    assert source.breaker.statistics().failures == 0


# Redirects


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/v2/y?z=1", "/v2/y?z=1"),
        ("https://api.test/v2/y", "/v2/y"),
        ("https://API.test:443/v2/y", "/v2/y"),
        ("//api.test/v2/y", "/v2/y"),
        ("y", "/v1/y"),
        ("?q=2", "/v1/x?q=2"),
        ("/v2/y#part", "/v2/y"),
        ("/v2/a b", "/v2/a%20b"),
    ],
)
async def test_redirect_on_the_same_host_is_followed(status: int, location: str, target: str) -> None:
    exchange = ScriptedExchange(http_answer(status=status, location=location), OK)
    answer = await source_over(exchange).ask(asking(headers={"authorization": "t"}), LONG_S)
    assert answer.body == {"ok": True}
    assert exchange.targets == ["/v1/x", target]
    assert exchange.calls[1].headers == (("authorization", "t"),)


@pytest.mark.parametrize(
    "location",
    [
        "https://other.test/v1/x",
        "//other.test/v1/x",
        "http://api.test/v1/x",
        "https://api.test:8443/v1/x",
        "https://api.test@other.test/",
        "ftp://api.test/",
        "http://[::1",
        "https://api.test:abc/",
        "https://api.test/\x00",
        "",
        "/" + "a" * 70_000,
    ],
)
async def test_unusable_redirect_fails_and_no_other_url_is_called(location: str) -> None:
    exchange = ScriptedExchange(http_answer(status=302, location=location))
    with pytest.raises(UpstreamFailed, match="redirects"):
        await source_over(exchange).ask(asking(), LONG_S)
    assert {(call.origin.authority, call.target) for call in exchange.calls} == {("api.test", "/v1/x")}


async def test_at_most_three_redirects_are_followed() -> None:
    hops = [http_answer(status=302, location=f"/hop/{place}") for place in range(4)]
    assert (await source_over(ScriptedExchange(*hops[:3], OK)).ask(asking(), LONG_S)).body == {"ok": True}
    exchange = ScriptedExchange(*hops, OK)
    with pytest.raises(UpstreamFailed, match="too many redirects"):
        await source_over(exchange).ask(asking(), LONG_S)
    assert len(exchange.calls) == 4


async def test_redirects_share_the_time_of_their_attempt() -> None:
    exchange = ScriptedExchange(Slow(3.0, http_answer(status=302, location="/v1/y")))
    with pytest.raises(UpstreamFailed, match=r"no response within 5\.0 s"):
        await source_over(exchange, rules=Rules(timeout_s=5.0, retries=0)).ask(asking(), LONG_S)
    assert trio.current_time() == 5.0


async def test_post_is_not_redirected() -> None:
    exchange = ScriptedExchange(http_answer({"a": 1}, 307, location="/v2/y"))
    with pytest.raises(UpstreamFailed, match="status 307"):
        await source_over(exchange).ask(asking(method="POST"), LONG_S)
    assert exchange.targets == ["/v1/x"]
