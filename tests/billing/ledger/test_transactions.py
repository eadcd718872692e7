"""Accounts, and what their owners read of the ledger."""

import pytest

from billing.accounts.accounts import GRANT_MAX
from billing.errors import AccountUnknown, TermsInvalid
from billing.ledger.transactions import NEWEST, PAGE_OF_REQUEST, BalanceReport
from billing.migrations import MIGRATIONS
from billing.prices import credits_for
from tests.billing.desk import EPOCH, Desk
from tests.fakes.inline_store import InlineStore

DAY_S = 86_400


async def test_a_new_account_has_a_hundred_welcome_credits(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    assert (account.balance, account.held, account.plan, account.created_at) == (100, 0, "free", EPOCH)
    assert await desk.accounts.get(account.id) == account
    (line,) = await desk.ledger.transactions(account.id, limit=10)
    assert (line.type, line.amount, line.balance_after, line.description) == ("bonus", 100, 100, "Welcome credits")


async def test_an_account_may_begin_with_nothing(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=0, plan="pro", unlimited=True)
    assert (account.balance, account.plan, account.unlimited) == (0, "pro", True)
    assert await desk.ledger.transactions(account.id, limit=10) == []


async def test_impossible_terms_are_refused(desk: Desk) -> None:
    for name, plan, credits_ in (("", "free", 1), ("Ada", "gold", 1), ("Ada", "free", -1), ("Ada", "free", 2**70)):
        with pytest.raises(TermsInvalid):
            await desk.accounts.create(name, plan=plan, credits=credits_)  # type: ignore[arg-type]
    account = await desk.accounts.create("Ada")
    for amount in (0, -5, GRANT_MAX + 1):
        with pytest.raises(TermsInvalid):
            await desk.accounts.grant(account.id, amount)
    with pytest.raises(AccountUnknown):
        await desk.accounts.grant("acc_none", 5)
    with pytest.raises(AccountUnknown):
        await desk.accounts.get("acc_none")


async def test_accounts_are_listed_oldest_first(desk: Desk) -> None:
    names = ["Ada", "Bob", "Cy"]
    for name in names:
        await desk.accounts.create(name)
        desk.time += 1
    assert [account.name for account in await desk.accounts.list()] == names
    assert [account.name for account in await desk.accounts.list(limit=2)] == names[:2]


async def test_a_statement_pages_backwards_and_hides_settlements(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    other = await desk.accounts.create("Bob")
    key = await desk.keys.create(account.id)
    await desk.accounts.grant(account.id, 50, "Starter pack")
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    await desk.charges.close(charge, used=2)
    lines = await desk.ledger.transactions(account.id, limit=10)
    assert [(line.type, line.amount, line.balance_after) for line in lines] == [
        ("refund", 3, 148),
        ("deduction", -5, 145),
        ("purchase", 50, 150),
        ("bonus", 100, 100),
    ]
    deduction = lines[1]
    assert (deduction.platform, deduction.endpoint, deduction.description) == (
        "github",
        "repository",
        "repository",
    )
    assert (deduction.request_id, deduction.key_id) == (charge.request_id, key.id)

    paged, before = [], None
    while page := await desk.ledger.transactions(account.id, limit=1, before=before):
        paged += page
        before = page[-1].id
    assert paged == lines
    of_request = await desk.ledger.transactions(account.id, limit=10, request_id=charge.request_id)
    assert of_request == lines[:2]
    assert await desk.ledger.transactions(other.id, limit=10, request_id=charge.request_id) == []


async def test_the_report_counts_recent_deductions_less_their_refunds(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=1000)
    for age_days, price, used in ((8, 100, 100), (3, 50, 20), (0.5, 10, 10), (0.25, 7, 0)):
        desk.time = EPOCH - age_days * DAY_S
        await desk.charges.close(await desk.charges.take(desk.request(account.id, credits=price)), used=used)
    desk.time = EPOCH
    await desk.charges.take(desk.request(account.id, credits=4))
    assert await desk.ledger.report(account.id) == BalanceReport(balance=866, held=4, last_24h=14, last_7d=34)
    with pytest.raises(AccountUnknown):
        await desk.ledger.report("acc_none")


def test_tiers_have_their_prices_and_an_endpoint_may_have_its_own() -> None:
    assert [credits_for("standard"), credits_for("advanced"), credits_for("premium")] == [1, 5, 10]
    assert [credits_for("premium", 0), credits_for("standard", 3)] == [0, 3]


@pytest.mark.sqlite
async def test_the_lines_of_one_request_are_found_without_walking_through_the_account() -> None:
    """On SQLite, which plans without looking at how much there is."""
    store = InlineStore([MIGRATIONS])
    plan = await store.read(lambda tx: tx.all(f"EXPLAIN QUERY PLAN {PAGE_OF_REQUEST}", ("req", "acc", NEWEST, 9)))
    used = {word for row in plan for word in str(row[3]).split() if word.startswith("ledger_of_")}
    assert used == {"ledger_of_request"}
    store.close()
