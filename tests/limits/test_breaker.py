"""The breaker beyond `test_breaker_exhaustive`, which checks every reachable state: accounts, pages and counts."""

import math

import pytest
import trio

from limits.breaker import Breaker, BreakerRules
from limits.errors import CircuitOpen, LimitError

RULES = BreakerRules()
SMALL = BreakerRules(failures=2, window_s=60.0, open_s=30.0, open_max_s=120.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.take_nowait().fail()


def opened(rules: BreakerRules = RULES) -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(rules, clock)
    failed(breaker, rules.failures)
    return breaker, clock


def test_five_failures_in_a_minute_open_the_breaker_for_thirty_seconds():
    breaker, clock = opened()
    assert breaker.state == "open"
    assert breaker.retry_after_s == 30
    clock.now += 29.5
    with pytest.raises(CircuitOpen) as refusal:
        breaker.take_nowait()
    assert isinstance(refusal.value, LimitError)
    assert refusal.value.retry_after_s == 1
    clock.now += 0.5
    assert breaker.state == "half_open"
    assert breaker.retry_after_s == 0


async def test_cancelled_probe_frees_its_slot(autojump_clock):
    breaker, clock = opened()
    clock.now += 30.0
    with trio.move_on_after(1), breaker.take_nowait():
        await trio.sleep_forever()
    breaker.take_nowait()


def test_new_rules_apply_to_the_next_failure():
    clock = Clock()
    breaker = Breaker(RULES, clock)
    failed(breaker, 2)
    breaker.change(SMALL)
    failed(breaker, 1)
    assert breaker.state == "open"


def test_statistics_are_a_snapshot():
    breaker, clock = opened()
    with pytest.raises(CircuitOpen):
        breaker.take_nowait()
    record = breaker.statistics()
    assert (record.state, record.retry_after_s, record.opened_total, record.refused_total) == ("open", 30, 1, 1)
    clock.now = math.inf
    assert record.state == "open"


# Several accounts


def failures_of(breaker: Breaker, account: str, *addresses: str) -> None:
    for address in addresses:
        breaker.take_nowait(account).fail(address)


@pytest.mark.critical
def test_failures_of_one_account_block_only_that_account():
    """Regression: five failing calls of one account closed a platform to every account for up to five minutes."""
    clock = Clock()
    breaker = Breaker(RULES, clock)
    told: list[float] = []
    breaker.on_open = told.append
    failures_of(breaker, "a", *"vwxyz")
    with pytest.raises(CircuitOpen) as refusal:
        breaker.take_nowait("a")
    assert refusal.value.retry_after_s == 30
    assert (breaker.state, breaker.statistics().only_account, told) == ("open", "a", [])
    running = [breaker.take_nowait("b") for _ in range(3)]
    clock.now += 30
    breaker.take_nowait("a").fail()
    assert breaker.retry_after_s == 60
    breaker.take_nowait("b").succeed()
    assert breaker.state == "closed"
    running[0].fail()
    assert breaker.statistics().failures == 0
    breaker.take_nowait("a")


@pytest.mark.critical
def test_constantly_failing_account_needs_more_than_one_failure_of_others():
    breaker = Breaker(RULES, Clock())
    failures_of(breaker, "a", *"vwxyz")
    failures_of(breaker, "b", "x")
    breaker.take_nowait("c")
    failures_of(breaker, "b", "x")
    assert breaker.statistics().only_account == ""
    for account in ("a", "b", "c"):
        with pytest.raises(CircuitOpen):
            breaker.take_nowait(account)


def test_failures_of_several_accounts_open_the_breaker_for_all():
    breaker = Breaker(RULES, Clock())
    told: list[float] = []
    breaker.on_open = told.append
    failures_of(breaker, "a", *"xyz")
    failures_of(breaker, "b", *"xy")
    with pytest.raises(CircuitOpen):
        breaker.take_nowait("c")
    assert told == [30.0]


def test_connect_failures_open_the_breaker_for_all():
    for needs_several in (False, True):
        breaker = Breaker(RULES, Clock(), needs_several=needs_several)
        for _ in range(5):
            breaker.take_nowait("a").fail("x", certain=True)
        with pytest.raises(CircuitOpen):
            breaker.take_nowait("b")


def test_hint_from_another_node_opens_the_breaker_for_all_accounts():
    breaker = Breaker(RULES, Clock())
    failures_of(breaker, "a", *"vwxyz")
    breaker.apply_hint(10.0)
    with pytest.raises(CircuitOpen):
        breaker.take_nowait("b")


# Hosts chosen by callers


@pytest.mark.critical
@pytest.mark.parametrize("account_of", [lambda _n: "a", lambda n: f"a{n}"], ids=["one account", "many accounts"])
@pytest.mark.parametrize("address_of", [lambda _n: "x", lambda n: f"x{n}"], ids=["one page", "many pages"])
def test_named_host_needs_several_pages_and_several_accounts(account_of, address_of):
    breaker = Breaker(RULES, Clock(), needs_several=True)
    for number in range(5):
        failures_of(breaker, account_of(number), address_of(number))
    assert breaker.state == ("open" if address_of(0) != address_of(1) else "closed")
    if breaker.state == "open" and account_of(0) == account_of(1):
        breaker.take_nowait("another").succeed()
        assert breaker.state == "closed"
    elif breaker.state == "open":
        with pytest.raises(CircuitOpen):
            breaker.take_nowait("another")


@pytest.mark.critical
def test_failures_at_a_named_host_are_bounded():
    breaker = Breaker(RULES, Clock(), needs_several=True)
    failures_of(breaker, "a", *["x"] * 1_000)
    assert (breaker.state, breaker.statistics().failures) == ("closed", 20)


@pytest.mark.critical
def test_failing_page_does_not_keep_a_named_host_open():
    clock = Clock()
    breaker = Breaker(RULES, clock, needs_several=True)
    for _ in range(5):
        breaker.take_nowait("a").fail(certain=True)
    clock.now += 30
    breaker.take_nowait("a").fail(certain=True)
    assert breaker.retry_after_s == 60
    clock.now += 60
    breaker.take_nowait("a").fail("x")
    assert (breaker.state, breaker.statistics().failures) == ("closed", 1), "the probe has reached the host"
    breaker.take_nowait("b")
