"""Purchases are counted once, and reversals take back remaining credits, whatever the order of the events."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import trio

from billing.accounts.accounts import Account
from billing.charges.batch_rows import ChargeRequest
from billing.errors import AccountUnknown, PackUnknown
from billing.ledger.forecast import forecast
from billing.packs.packs import Packs
from billing.packs.payments import Abandoned, Paid, PaymentChange, PaymentEvent, Payments
from billing.packs.records import Pack, Payment, Purchase, credits_reversed
from tests.billing.desk import EPOCH, Desk

STARTER = Pack("starter", 1_000, 900, "usd", "starter")
PRO = Pack("pro", 50_000, 39_900, "usd", "pro")
PAYMENT = "pi_1"


class Counter:
    """A desk that sells packs, and the events of one buyer."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        events = desk.published
        self.packs = Packs(
            desk.store, desk.accounts, (STARTER, PRO), now=desk.now, make_id=desk.make_id, billing_events=events
        )
        self.payments = Payments(
            desk.store, self.packs, desk.accounts, desk.charges, now=desk.now, billing_events=events
        )
        self._numbers = itertools.count(1)

    async def told(self, *events: PaymentEvent) -> list[str]:
        """Count events, each with its own id."""
        counted = [await self.payments.count(f"evt_{next(self._numbers)}", "of.a.test", event) for event in events]
        return [one.outcome for one in counted]

    async def account(self, account_id: str) -> Account:
        return await self.desk.accounts.get(account_id)

    async def only(self, account_id: str) -> Purchase:
        """Return the only purchase of an account."""
        (one,) = await self.packs.list(account_id, limit=10)
        return one

    async def spend(self, account_id: str, credits: int) -> None:  # noqa: A002 - the specification's noun
        charge = await self.desk.charges.take(self.desk.request(account_id, credits=credits))
        await self.desk.charges.close(charge, used=credits)


@pytest.fixture
async def counter(desk: Desk) -> Counter:
    return Counter(desk)


async def buyer(counter: Counter, credits: int = 0) -> tuple[str, Purchase]:  # noqa: A002 - the specification's noun
    """Add an account, and a purchase that it has begun."""
    account = await counter.desk.accounts.create("Ada", credits=credits)
    return account.id, await counter.packs.begin(account.id, "starter")


def paid(purchase: Purchase) -> Paid:
    return Paid(purchase.id, 900, "usd", PAYMENT)


def refunded(cents: int) -> PaymentChange:
    return PaymentChange(PAYMENT, Payment(refunded_cents=cents))


def disputed(dispute: str, cents: int = 900) -> PaymentChange:
    return PaymentChange(PAYMENT, Payment(disputed_cents=cents, dispute=dispute))  # type: ignore[arg-type] # as the test says


async def test_granted_pack_adds_credits_and_plan_and_is_published(counter: Counter) -> None:
    account = await counter.desk.accounts.create("Ada", credits=5)
    assert await counter.packs.grant(account.id, "starter") == (account.id, 1_005, "starter")
    now = await counter.account(account.id)
    assert (now.balance, now.plan, now.mark) == (1_005, "starter", None)
    (one,) = await counter.packs.list(account.id, limit=10)
    assert (one.source, one.status, one.paid_at) == ("operator", "paid", EPOCH)
    assert [(told.id, balance) for told, balance in counter.desk.published.purchases] == [(one.id, 1_005)]


async def test_smaller_pack_keeps_the_plan_of_a_larger_one(counter: Counter) -> None:
    account = await counter.desk.accounts.create("Ada")
    for name, plan in (("pro", "pro"), ("starter", "pro")):
        await counter.packs.grant(account.id, name)
        assert (await counter.account(account.id)).plan == plan


async def test_unknown_pack_or_account_is_refused_without_adding_credits(counter: Counter) -> None:
    account = await counter.desk.accounts.create("Ada", credits=0)
    with pytest.raises(PackUnknown, match="the packs are starter, pro; did you mean starter"):
        await counter.packs.grant(account.id, "startr")
    with pytest.raises(AccountUnknown):
        await counter.packs.grant("acc_none", "starter")
    assert await counter.packs.list(account.id, limit=10) == []


async def test_event_and_purchase_are_counted_once(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    outcomes = [(await counter.payments.count("evt_same", "t", paid(purchase))).outcome for _ in range(3)]
    assert outcomes == ["counted", "repeated", "repeated"]
    assert await counter.told(paid(purchase)) == ["repeated"], "the other event of the same session"
    assert (await counter.account(account)).balance == 1_000


async def test_event_sent_many_times_concurrently_is_counted_once(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    outcomes: list[str] = []

    async def send(event_id: str) -> None:
        outcomes.append((await counter.payments.count(event_id, "t", paid(purchase))).outcome)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(send, f"evt_{number % 3}")
    assert sorted(outcomes) == ["counted"] + ["repeated"] * 19
    assert (await counter.account(account)).balance == 1_000


async def test_refund_takes_back_its_share_and_marks_the_account(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    await counter.spend(account, 300)
    await counter.told(refunded(450))
    one = await counter.only(account)
    assert (one.status, one.reversed, one.taken_back) == ("partly_reversed", 500, 500)
    assert ((await counter.account(account)).balance, (await counter.account(account)).mark) == (200, "refund")
    await counter.told(refunded(900))
    one = await counter.only(account)
    assert (one.status, one.reversed, one.taken_back) == ("reversed", 1_000, 700), "only 200 credits were left"
    assert (await counter.account(account)).balance == 0
    told = counter.desk.published.reversals
    assert [(each.reason, each.purchase.taken_back, each.balance) for each in told] == [
        ("refund", 500, 200),
        ("refund", 700, 0),
    ]
    assert counter.desk.published.steps(account) == ["low", "exhausted"]


async def test_removed_mark_is_set_again_only_by_the_next_reversal(
    counter: Counter,
) -> None:
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    assert await counter.packs.unmark(account) == (account, None, None)
    await counter.payments.count("evt_refund", "t", refunded(450))
    assert await counter.packs.unmark(account) == (account, "refund", None)
    assert (await counter.payments.count("evt_refund", "t", refunded(450))).outcome == "repeated"
    assert await counter.told(refunded(450)) == ["counted"], "another event about the same refund"
    assert (await counter.account(account)).mark is None
    await counter.told(disputed("open", 450))
    assert await counter.packs.unmark(account) == (account, "dispute", None)
    with pytest.raises(AccountUnknown):
        await counter.packs.unmark("acc_none")


async def test_refund_keeps_credits_of_other_packs(counter: Counter) -> None:
    account, purchase = await buyer(counter, credits=100)
    await counter.told(paid(purchase), refunded(900))
    assert (await counter.account(account)).balance == 100


async def test_dispute_takes_back_credits_and_a_won_dispute_returns_them(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    await counter.spend(account, 400)
    await counter.told(disputed("open"))
    assert ((await counter.account(account)).balance, (await counter.account(account)).mark) == (0, "dispute")
    await counter.told(disputed("won"))
    assert ((await counter.account(account)).balance, (await counter.account(account)).mark) == (600, "dispute")
    one = await counter.only(account)
    assert (one.status, one.taken_back) == ("paid", 0)
    await counter.told(disputed("open"), disputed("lost"))
    assert (await counter.account(account)).balance == 600, "these events are older than the won dispute"


ORDERS = list(itertools.permutations(range(4)))


@pytest.mark.parametrize("last", ["lost", "won"])
async def test_order_and_repetition_of_events_do_not_matter(desk: Desk, last: str) -> None:
    """Goal: an account's final state depends on the events, not on their order. Method: all 24 orders, each twice."""
    ends = set()
    for order in ORDERS:
        counter = Counter(desk)
        account, purchase = await buyer(counter)
        payment = f"pi_{purchase.id}"
        events: Sequence[PaymentEvent] = (
            Paid(purchase.id, 900, "usd", payment),
            PaymentChange(payment, Payment(refunded_cents=300)),
            PaymentChange(payment, Payment(disputed_cents=600, dispute="open")),
            PaymentChange(payment, Payment(disputed_cents=600, dispute=last)),  # type: ignore[arg-type] # as the test says
        )
        for number in (*order, *reversed(order)):
            await counter.payments.count(f"evt_{purchase.id}_{number}", "t", events[number])
        now, one = await counter.account(account), await counter.only(account)
        ends.add((now.balance, now.plan, one.status, one.reversed))
    assert ends == {(0, "starter", "reversed", 1_000) if last == "lost" else (667, "starter", "partly_reversed", 333)}


async def test_refund_applies_to_a_suspended_account(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    await counter.desk.lifecycle.suspend(account)
    await counter.told(refunded(900))
    assert (await counter.account(account)).balance == 0


async def test_payment_of_a_deleted_account_is_reported_and_adds_nothing(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.desk.lifecycle.delete(account)
    assert await counter.told(paid(purchase), refunded(900)) == ["account_deleted", "unknown_purchase"]
    assert (await counter.account(account)).balance == 0


async def test_abandoned_purchase_is_removed_but_paid_one_is_kept(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.told(Abandoned(purchase.id))
    assert await counter.packs.list(account, limit=10) == []
    assert await counter.told(paid(purchase)) == ["unknown_purchase"]
    again = await counter.packs.begin(account, "starter")
    await counter.told(Paid(again.id, 900, "usd", "pi_2"), Abandoned(again.id))
    assert (await counter.only(account)).status == "paid"


async def test_purchases_are_listed_newest_first_in_pages(counter: Counter) -> None:
    account = (await counter.desk.accounts.create("Ada")).id
    for _ in range(5):
        counter.desk.time += 1
        await counter.packs.grant(account, "starter")
    whole = await counter.packs.list(account, limit=10)
    first = await counter.packs.list(account, limit=2)
    rest = await counter.packs.list(account, before=(first[-1].created_at, first[-1].id), limit=10)
    assert [*first, *rest] == whole
    assert [one.created_at for one in whole] == sorted((one.created_at for one in whole), reverse=True)


@pytest.mark.parametrize(
    ("payment", "credits"),
    [
        (Payment(), 0),
        (Payment(refunded_cents=1), 1),
        (Payment(refunded_cents=899), 998),
        (Payment(refunded_cents=5_000), 1_000),
        (Payment(disputed_cents=900, dispute="won"), 0),
        (Payment(450, 450, "open"), 1_000),
    ],
)
def test_reversed_credits_are_proportional_to_the_returned_money(payment: Payment, credits: int) -> None:  # noqa: A002
    purchase = Purchase("pur_1", "acc_1", "starter", 1_000, 900, "usd", "starter", "stripe", EPOCH, EPOCH, 900, PAYMENT)
    assert credits_reversed(purchase, payment) == credits


async def test_forecast_counts_calls_of_the_last_day_without_reversals(counter: Counter) -> None:
    desk = counter.desk
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    assert await desk.store.read(lambda tx: forecast(tx, account, 1_000, desk.now())) is None
    await counter.spend(account, 30)
    desk.time += 3 * 3_600
    await counter.spend(account, 60)
    await counter.told(refunded(90))
    hours = desk.now() / 3_600 - EPOCH // 3_600
    ahead = await desk.store.read(lambda tx: forecast(tx, account, 810, desk.now()))
    assert ahead is not None
    assert ahead.credits_per_day == pytest.approx(24 * 90 / hours)
    assert ahead.exhausted_at == pytest.approx(desk.now() + 810 / 90 * hours * 3_600)
    desk.time += 2 * 86_400
    assert await desk.store.read(lambda tx: forecast(tx, account, 810, desk.now())) is None


async def test_reversal_keeps_credits_held_by_open_charges(counter: Counter) -> None:
    account, purchase = await buyer(counter)
    await counter.told(paid(purchase))
    charge = await counter.desk.charges.take(ChargeRequest("req_open", account, None, 700, "github", "profile"))
    await counter.told(refunded(900))
    assert ((await counter.account(account)).balance, (await counter.account(account)).held) == (0, 700)
    await counter.desk.charges.close(charge, used=100)
    assert (await counter.account(account)).balance == 600
