"""The pure decisions about charges, without a database."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.charges import decisions
from billing.charges.batch_rows import (
    AccountState,
    BatchRows,
    Charge,
    ChargeRequest,
    Closed,
    CloseRequest,
    Decision,
    Extra,
    KeyState,
    OpenRow,
    Request,
)
from billing.charges.decisions import KEPT_CREDITS, spare_credits
from billing.errors import BillingError, InsufficientCredits, KeyBudgetReached, KeyUnusable
from billing.journal import NAMED, micros

NOW = 1000.0


def books(balance: int = 100, *, limit: int | None = None, unlimited: bool = False) -> BatchRows:
    account = AccountState(balance, 0, unlimited=unlimited)
    keys = {"key": KeyState("acc", limit, 0, None, None)}
    return BatchRows({"acc": account}, keys, {}, {}, set(), {("github", "repository"): 1}, {"Refund": 2})


def take(number: int, credits: int, least: int | None = None) -> ChargeRequest:  # noqa: A002
    return ChargeRequest(f"req_{number}", "acc", "key", credits, "github", "repository", least)


def charged(number: int, credits: int, *, place: int) -> Charge:  # noqa: A002
    id_ = f"req_{number}"
    row = (id_.encode(), 0, None, 1, credits, 90, place, micros(NOW) - 5, 0)
    return Charge(id_, "acc", "key", credits, 90, row, (NAMED, 0, None))


def decide(rows: BatchRows, requests: Sequence[Request], now: float) -> Decision:
    return decisions.decide(rows, requests, now, micros(now))


class Row(NamedTuple):
    """A row of the journal, by its columns."""

    id: bytes
    kind: int
    account: int
    key: int | None
    endpoint: int | None
    taken: int
    refunded: int
    issued: int
    taken_at: int
    closed_after: int
    balance_after: int
    balance_closed: int
    place: int
    refund_place: int | None
    issued_place: int | None
    note: int | None


def rows_of(decision: Decision) -> list[Row]:
    return [Row(*row) for row in decision.journal]


def opened_rows(decision: Decision) -> list[tuple[OpenRow, Extra]]:
    return [(charge.row, charge.extra) for charge in decision.opened.values()]


def postings_of(decision: Decision) -> list[tuple[int, int, int]]:
    """Return every change of the balance: its position, its amount, and the balance after it."""
    found = [(row.refund_place, row.refunded, row.balance_closed) for row in rows_of(decision) if row.refund_place]
    taken = [(row.place, row.taken, row.balance_after, row.issued_place, row.issued) for row in rows_of(decision)]
    open_ = [(row[6], row[4], row[5], extra[2], extra[1]) for row, extra in opened_rows(decision)]
    for place, price, after, issued_place, issued in (*taken, *open_):
        found.append((place, -price, after))
        if issued_place is not None:
            found.append((issued_place, issued, after + price))
    return sorted(found)


@given(
    balance=st.integers(0, 60),
    limit=st.none() | st.integers(0, 60),
    unlimited=st.booleans(),
    prices=st.lists(
        st.tuples(st.integers(0, 20), st.none() | st.integers(0, 20), st.none() | st.integers(0, 20)), max_size=20
    ),
)
def test_decisions_conserve_credits(
    balance: int, limit: int | None, unlimited: bool, prices: list[tuple[int, int | None, int | None]]
) -> None:
    """Each price is taken. With a second number, as much as possible is taken, but at least that number.

    A third number closes the charge in the same batch, with up to that use.
    """
    requests: list[ChargeRequest | CloseRequest] = []
    for number, (price, least, used) in enumerate(prices):
        surely = price if least is None else min(price, least)
        requests.append(take(number, price, None if least is None else surely))
        if used is not None:
            requests.append(CloseRequest(f"req_{number}", "acc", "key", min(surely, used)))
    state = books(balance, limit=limit, unlimited=unlimited)
    decision = decide(state, requests, NOW)

    assert len(decision.outcomes) == len(requests)
    account, key = state.accounts["acc"], state.keys["key"]
    postings = postings_of(decision)
    assert [place for place, _moved, _after in postings] == list(range(1, account.place + 1))
    available = balance
    for _place, moved, balance_after in postings:
        available += moved
        assert balance_after == available >= 0
    spent = sum(row.taken - row.refunded for row in rows_of(decision))
    assert account.balance == available
    assert account.held == sum(charge.credits for charge in decision.opened.values())
    assert account.balance + account.held + spent == balance + decision.issued
    closings = decision.closings()
    assert (closings.credits, decision.taken) == (spent, spent + account.held + closings.refunds)
    assert unlimited or decision.issued == 0
    assert key.used == account.held + spent
    assert limit is None or key.used <= limit
    counted = [(one.calls, one.credits, one.refunds) for one in decision.usage.values()]
    closed = len(rows_of(decision))
    assert counted == ([(closed, spent, closings.refunds)] if closed else [])
    assert decision.closed == []  # opened and closed in one batch, so no row is written


@given(
    balance=st.integers(0, 40),
    limit=st.none() | st.integers(0, 40),
    used=st.integers(0, 45),
    unlimited=st.booleans(),
    least=st.integers(0, 30),
    more=st.integers(0, 30),
)
def test_charge_takes_required_and_spare_optional_credits(
    balance: int, limit: int | None, used: int, unlimited: bool, least: int, more: int
) -> None:
    state = books(balance, limit=limit, unlimited=unlimited)
    state.keys["key"].used = used
    budget = math.inf if limit is None else limit - used
    means = min(math.inf if unlimited else balance, budget)
    decision = decide(state, [take(1, least + more, least)], NOW)
    (outcome,) = decision.outcomes
    if not unlimited and balance < least:
        assert isinstance(outcome, InsufficientCredits)
        assert (outcome.required, outcome.balance) == (least, balance)
    elif least > max(0, budget):
        assert isinstance(outcome, KeyBudgetReached)
        assert (outcome.required, outcome.limit, outcome.used) == (least, limit, used)
    else:
        assert isinstance(outcome, Charge)
        assert outcome.credits == least + (more if means == math.inf else min(more, spare_credits(int(means) - least)))
        assert not more or means <= least or outcome.credits < means, "optional credits do not exhaust the balance"
        assert least <= outcome.credits <= least + more
        assert state.accounts["acc"].held == outcome.credits
        assert state.keys["key"].used == used + outcome.credits
        assert decision.opened["req_1"].credits == outcome.credits, "what recovery would refund"
        assert unlimited or state.accounts["acc"].balance == balance - outcome.credits
        return
    assert (rows_of(decision), decision.opened) == ([], {}), "a refusal changes no balance"


@given(balance=st.integers(0, 40), prices=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_optional_credits_are_shared_in_order_within_a_batch(balance: int, prices: list[tuple[int, int]]) -> None:
    requests = [take(number, least + more, least) for number, (least, more) in enumerate(prices)]
    left = balance
    for request, outcome in zip(requests, decide(books(balance), requests, NOW).outcomes, strict=True):
        assert request.credits_least is not None
        if isinstance(outcome, Charge):
            spare = spare_credits(left - request.credits_least)
            assert outcome.credits == min(request.credits, request.credits_least + spare)
            left -= outcome.credits
            assert outcome.balance_after == left
        else:
            assert left < request.credits_least


def test_request_sees_the_changes_of_earlier_requests_in_its_batch() -> None:
    outcomes = decide(books(3), [take(1, 2), take(2, 2), take(3, 1)], NOW).outcomes
    assert [type(outcome).__name__ for outcome in outcomes] == ["Charge", "InsufficientCredits", "Charge"]


def test_request_is_charged_once_within_a_batch() -> None:
    close = CloseRequest("req_1", "acc", "key", 2)
    outcomes = decide(books(9), [take(1, 2), take(1, 2), close, take(1, 2)], NOW).outcomes
    assert [type(outcome).__name__ for outcome in outcomes] == ["Charge", "ChargeExists", "Closed", "ChargeExists"]


def test_batch_of_refusals_writes_nothing() -> None:
    decision = decide(books(0), [take(1, 2), take(2, 1)], NOW)
    assert all(isinstance(outcome, BillingError) for outcome in decision.outcomes)
    assert not rows_of(decision)
    assert not decision.usage
    assert not decision.opened
    assert not decision.accounts
    assert not decision.keys


def test_key_expires_exactly_at_its_expiry() -> None:
    state = books()
    state.keys["key"].expires_at = NOW
    assert isinstance(decide(state, [take(1, 1)], NOW).outcomes[0], KeyUnusable)
    assert isinstance(decide(state, [take(1, 1)], NOW - 0.001).outcomes[0], Charge)


def test_charge_without_its_object_is_closed_by_its_row() -> None:
    state = books(90)
    state.accounts["acc"].held = 10
    state.keys["key"].used = 10
    state.accounts["acc"].place = 7
    state.open["req_1"] = charged(1, 10, place=7)
    decision = decide(state, [CloseRequest("req_1", "acc", "key", 4), CloseRequest("req_1", "acc", "key", 10)], NOW)
    assert decision.outcomes == [Closed(4, 96), Closed(4, 96)]
    assert decision.closed == ["req_1"]
    (row,) = rows_of(decision)
    assert row[5:] == (10, 6, 0, micros(NOW) - 5, 5, 90, 96, 7, 8, None, 2)


def test_full_settlements_do_not_change_the_balance() -> None:
    """Their rows are already written; the decision counts them, and returns the outcome of earlier closings."""
    state = books(90)
    account = state.accounts["acc"]
    account.held, account.place, state.keys["key"].used = 10, 2, 10
    first, second = (charged(number, 5, place=number) for number in (1, 2))
    state.settled = {"req_1": first, "req_2": second}
    state.closed = {"req_0": Closed(1, 7)}
    earlier = charged(0, 1, place=0)
    decision = decide(state, [first, take(3, 4), second, earlier], NOW)
    assert rows_of(decision) == []
    assert decision.outcomes == [first, decision.opened["req_3"], second, Closed(1, 7)]
    assert [row[5:7] for row, _extra in opened_rows(decision)] == [(86, 3)]
    assert [(one.calls, one.credits) for one in decision.usage.values()] == [(2, 10)]
    assert (account.balance, account.held, state.keys["key"].used, decision.closings().credits) == (86, 4, 14, 10)


@pytest.mark.critical
@given(left=st.integers(-100, 10_000))
def test_optional_credits_never_exhaust_balance_or_budget(left: int) -> None:
    """At least half of it stays, or as many credits as a key has concurrent requests."""
    assert 0 <= spare_credits(left) <= max(left, 0)
    assert left - spare_credits(left) >= min(left, KEPT_CREDITS, -(-left // 2))
    assert left <= 0 or spare_credits(left) < left


@pytest.mark.critical
@pytest.mark.parametrize(("balance", "is_held"), [(0, True), (1, True), (0, False)])
def test_refusal_reports_whether_refunds_could_cover_the_price(balance: int, *, is_held: bool) -> None:
    state = books(balance)
    state.accounts["acc"].held = 2 - balance if is_held else 1
    (refusal,) = decide(state, [take(1, 2)], NOW).outcomes
    assert isinstance(refusal, InsufficientCredits)
    assert refusal.is_held is is_held
