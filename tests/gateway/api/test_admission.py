"""Admission: keys in headers and URLs, the window and the lease, and keys that change in the meantime."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from billing.accounts.balances import Balances
from billing.errors import KeyUnusable
from billing.keys.cache import Key
from gateway.api.admission import LOOKUPS_MAX, WINDOW, Admission, window_values
from gateway.http.errors import KeyMissing, Refused
from gateway.http.request import Caller, Request
from limits.errors import ConcurrencyReached, GenerationPassed, RateLimited, WindowState
from limits.gate import Admitted, BalanceUpdate, Gate, Leases, MemoryGate
from limits.window import Window
from storage.errors import StateUnavailable

GOOD = "sl_" + "Ab-_0" * 8 + "xyz"
KEY = Key("key_1", "acc_1", "test", None)


class KnownKeys:
    """Has one key. The store returns it with any requested generation."""

    def __init__(self, found: Key | None = KEY) -> None:
        self.found = found
        self.presented: list[str] = []
        self.generations: list[bytes | None] = []

    def find_nowait(self, presented: str) -> Key | None:
        self.presented.append(presented)
        if presented != GOOD:
            raise KeyUnusable("unknown")
        return self.found

    async def find(self, presented: str, generation: bytes | None = None) -> Key:
        await trio.lowlevel.checkpoint()
        self.presented.append(presented)
        self.generations.append(generation)
        if self.found is None:
            raise KeyUnusable("revoked")
        return self.found


class SharedGate(MemoryGate):
    """A gate that must be awaited. Each answer of the test is an exception to raise or an admission to return."""

    def __init__(self, *answers: Exception | Admitted) -> None:
        super().__init__(Window(9), Leases(9), lambda: 0.0)
        self.answers = list(answers)
        self.generations: list[bytes] = []

    def admit_nowait(self, account_id: str, key_id: str) -> None:  # type: ignore[override]
        return None

    async def admit(self, account_id: str, key_id: str, generation: bytes = b"") -> Admitted:
        await trio.lowlevel.checkpoint()
        self.generations.append(generation)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Lease:
    def release(self) -> None:
        raise AssertionError("the lease must not be released here")


def balances() -> Balances:
    store: Any = None  # a known balance is not read from the store
    return Balances(store)


def admission(gate: Gate | None = None, keys: Any = None, known: Balances | None = None) -> Admission:
    alone = MemoryGate(Window(2), Leases(1), lambda: 0.0)
    return Admission(keys or KnownKeys(), gate or alone, known or balances(), key_prefix="sl_")


def request(query: str = "", **headers: str) -> Request:
    named = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    return Request("req_1", "GET", "/v1/a", query.encode(), named, 0.0)


# A key in the URL (spec 5.1)

IN_ADDRESS = (
    f"{GOOD}={GOOD}",
    f"handle={GOOD}",
    f"api_key={GOOD}",
    "api_key=anything",
    "X-API-Key=x",
    "apikey=x",
    "API-KEY=x",
    "api%5Fkey=x",
    f"url=https%3A%2F%2Fx.test%2F%3Fk%3D{GOOD}",
    f"handle=a+{GOOD}",
    f"a=b&c={GOOD.replace('l', '%6C')}",
    f"a={GOOD}more",
    f"{GOOD}={GOOD}",
)
NONE_IN_ADDRESS = (
    "",
    "handle=octocat",
    "handle=key",
    "key=x",
    "api_key=",
    "monkey=1",
    f"handle={GOOD[:-1]}",
    f"cursor=cur_FR1tW8BlZG{GOOD}",
    f"a=-{GOOD}",
    f"a=xx_{GOOD[3:]}",
)


@pytest.mark.parametrize("query", IN_ADDRESS)
def test_key_in_url_is_rejected_and_not_repeated(query: str) -> None:
    for sent, code in (
        (request(query, x_api_key=GOOD), "INVALID_REQUEST"),
        (request(query, authorization=f"Bearer {GOOD}"), "INVALID_REQUEST"),
        (request(query), "MISSING_API_KEY"),
    ):
        with pytest.raises(Refused) as refused:
            admission().refuse_key_in_query(sent)
        assert refused.value.code.name == code
        assert refused.value.details is not None
        assert refused.value.details["reason"] == "key_in_query"
        assert GOOD not in refused.value.details["param"]
        assert "Revoke this key" in refused.value.message
        assert GOOD not in refused.value.message


@pytest.mark.parametrize("query", NONE_IN_ADDRESS)
def test_text_that_resembles_a_key_passes(query: str) -> None:
    admission().refuse_key_in_query(request(query))


# A key in the header (spec 5.2)


async def test_key_is_read_from_its_header_and_looked_up() -> None:
    for headers in ({}, {"x_api_key": ""}, {"authorization": f"Basic {GOOD}"}):
        with pytest.raises(KeyMissing):
            admission().key_of_nowait(request(**headers))
    keys = KnownKeys()
    assert admission(keys=keys).key_of_nowait(request(x_api_key=GOOD)) is KEY
    with pytest.raises(KeyUnusable):
        admission(keys=keys).key_of_nowait(request(x_api_key="\xff" * 43))
    assert keys.presented == [GOOD, "\xff" * 43]
    unknown = admission(keys=KnownKeys(None))
    assert unknown.key_of_nowait(request(x_api_key=GOOD)) is None
    with pytest.raises(KeyUnusable):
        await unknown.key_of(request(x_api_key=GOOD))


# The window and the lease (decisions 5)


def test_concurrency_429_does_not_count_in_the_window() -> None:
    """A rejection at one step changes no counter of another step, and reports that step only."""
    one, first = admission(), Caller(KEY)
    assert one.enter_nowait(first) is True
    assert first.window == WindowState(2, 1, 60)
    assert first.lease is not None
    for _ in range(5):
        refused = Caller(KEY)
        with pytest.raises(ConcurrencyReached):
            one.enter_nowait(refused)
        assert (refused.window, refused.lease) == (None, None)
    assert one.enter_nowait(Caller(Key("key_2", "acc_1", "test", None))), "each key has its own window"
    first.lease.release()
    second = Caller(KEY)
    assert one.enter_nowait(second)
    assert second.window == WindowState(2, 0, 60)
    assert one.counts == {"admitted": 3, "rate_limited": 0, "concurrency_limited": 5, "state_away": 0}


def test_window_429_reports_the_window_and_uses_no_lease() -> None:
    one = admission(MemoryGate(Window(1), Leases(1), lambda: 0.0))
    first, refused = Caller(KEY), Caller(KEY)
    one.enter_nowait(first)
    assert first.lease is not None
    first.lease.release()
    with pytest.raises(RateLimited):
        one.enter_nowait(refused)
    assert (refused.window, refused.lease) == (WindowState(1, 0, 60), None)
    assert one.gate.statistics().leases == 0
    assert one.counts == {"admitted": 1, "rate_limited": 1, "concurrency_limited": 0, "state_away": 0}


# Many nodes

STATE = WindowState(9, 8, 60)
LET_IN = Admitted(STATE, Lease(), BalanceUpdate(3, 77))


async def test_shared_gate_returns_window_lease_and_balance() -> None:
    known = balances()
    one, caller = admission(SharedGate(LET_IN), known=known), Caller(KEY)
    assert one.enter_nowait(caller) is False
    assert (caller.window, caller.lease) == (None, None)
    await one.enter(request(x_api_key=GOOD), caller)
    assert (caller.window, caller.lease) == (STATE, LET_IN.lease)
    assert known.nowait("acc_1") == 77
    assert one.counts["admitted"] == 1


async def test_key_changed_elsewhere_is_looked_up_again_a_few_times() -> None:
    gate, keys = SharedGate(GenerationPassed(b"g2"), LET_IN), KnownKeys(Key("key_1", "acc_1", "new", None, b"g2"))
    caller, sent = Caller(KEY), request(x_api_key=GOOD)
    sent.caller = caller
    await admission(gate, keys).enter(sent, caller)
    assert (caller.key.name, sent.caller) == ("new", caller)
    assert (keys.generations, gate.generations) == ([b"g2"], [b"", b"g2"])
    keys, gate = KnownKeys(), SharedGate(*[GenerationPassed(b"%d" % nth) for nth in range(LOOKUPS_MAX + 1)])
    with pytest.raises(StateUnavailable):
        await admission(gate, keys).enter(request(x_api_key=GOOD), Caller(KEY))
    assert len(keys.generations) == LOOKUPS_MAX


async def test_key_revoked_in_the_meantime_reveals_no_account() -> None:
    sent = request(x_api_key=GOOD)
    sent.caller = caller = Caller(KEY)
    with pytest.raises(KeyUnusable):
        await admission(SharedGate(GenerationPassed(b"g2")), KnownKeys(None)).enter(sent, caller)
    assert sent.caller is None


@pytest.mark.parametrize(
    ("refusal", "counted", "window"),
    [
        (RateLimited(WindowState(9, 0, 7)), "rate_limited", WindowState(9, 0, 7)),
        (ConcurrencyReached(9), "concurrency_limited", None),
        (StateUnavailable("no Redis"), "state_away", None),
    ],
)
async def test_shared_gate_rejections_are_counted_by_kind(
    refusal: Exception, counted: str, window: WindowState | None
) -> None:
    one, caller = admission(SharedGate(refusal)), Caller(KEY)
    with pytest.raises(type(refusal)):
        await one.enter(request(x_api_key=GOOD), caller)
    assert {name for name, number in one.counts.items() if number} == {counted}
    assert (caller.window, caller.lease) == (window, None)


# Headers (decisions 2)


@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(0, 60))
def test_window_is_reported_in_x_ratelimit_and_ratelimit_headers(limit: int, remaining: int, reset_s: int) -> None:
    headers = dict(zip(WINDOW, window_values(WindowState(limit, remaining, reset_s)), strict=True))
    assert headers == {
        b"x-ratelimit-limit": str(limit).encode(),
        b"x-ratelimit-remaining": str(remaining).encode(),
        b"x-ratelimit-reset": str(reset_s).encode(),
        b"ratelimit-policy": f'"key";q={limit};w=60'.encode(),
        b"ratelimit": f'"key";r={remaining};t={reset_s}'.encode(),
    }
