"""Accounts, and the views of the ledger for their owners."""

import pytest

from billing.accounts.accounts import GRANT_MAX
from billing.errors import AccountUnknown, TermsInvalid
from billing.ledger.transactions import NEWEST, OF_REQUEST, OPEN_OF_REQUEST, PAGES, BalanceReport
from billing.migrations import MIGRATIONS
from billing.prices import credits_for
from tests.billing.desk import EPOCH, Desk
from tests.fakes.inline_store import InlineStore

DAY_S = 86_400


async def test_new_account_has_100_welcome_credits(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    assert (account.balance, account.held, account.plan, account.created_at) == (100, 0, "free", EPOCH)
    assert await desk.accounts.get(account.id) == account
    (line,) = (await desk.ledger.transactions(account.id, limit=10)).lines
    assert (line.type, line.amount, line.balance_after, line.description) == ("bonus", 100, 100, "Welcome credits")


async def test_account_may_start_with_zero_credits(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=0, plan="pro", unlimited=True)
    assert (account.balance, account.plan, account.unlimited) == (0, "pro", True)
    assert (await desk.ledger.transactions(account.id, limit=10)).lines == []


async def test_invalid_account_terms_and_grants_are_refused(desk: Desk) -> None:
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


async def test_statement_pages_backwards_and_hides_settlements(desk: Desk) -> None:
    account = await desk.accounts.create("Ada")
    other = await desk.accounts.create("Bob")
    key = await desk.keys.create(account.id)
    await desk.accounts.grant(account.id, 50, "Starter pack")
    charge = await desk.charges.take(desk.request(account.id, key.id, credits=5))
    await desk.charges.close(charge, used=2)
    lines = (await desk.ledger.transactions(account.id, limit=10)).lines
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
    while page := (await desk.ledger.transactions(account.id, limit=1, before=before)).lines:
        paged += page
        before = page[-1].id
    assert paged == lines
    of_request = (await desk.ledger.transactions(account.id, limit=10, request_id=charge.request_id)).lines
    assert of_request == lines[:2]
    assert (await desk.ledger.transactions(other.id, limit=10, request_id=charge.request_id)).lines == []


async def test_report_counts_recent_deductions_minus_refunds(desk: Desk) -> None:
    account = await desk.accounts.create("Ada", credits=1000)
    for age_days, price, used in ((8, 100, 100), (3, 50, 20), (0.5, 10, 10), (0.25, 7, 0)):
        desk.time = EPOCH - age_days * DAY_S
        await desk.charges.close(await desk.charges.take(desk.request(account.id, credits=price)), used=used)
    desk.time = EPOCH
    await desk.charges.take(desk.request(account.id, credits=4))
    assert await desk.ledger.report(account.id) == BalanceReport(balance=866, held=4, last_24h=14, last_7d=34)
    with pytest.raises(AccountUnknown):
        await desk.ledger.report("acc_none")


def test_tier_sets_the_price_unless_it_is_overridden() -> None:
    assert [credits_for("standard"), credits_for("advanced"), credits_for("premium")] == [1, 5, 10]
    assert [credits_for("premium", 0), credits_for("standard", 3)] == [0, 3]


async def test_recent_spending_is_counted_in_whole_hours(desk: Desk) -> None:
    """The hour in which the last day began counts in full, and the hour before it does not count."""
    account = await desk.accounts.create("Ada", credits=1000)
    desk.time = EPOCH - EPOCH % 3600 + 1800
    began = desk.time - DAY_S
    for at, price in ((began - 1801, 1), (began - 1800, 10), (began, 100), (desk.time, 200)):
        later, desk.time = desk.time, at
        await desk.charges.close(await desk.charges.take(desk.request(account.id, credits=price)), used=price)
        desk.time = later
    assert (await desk.ledger.report(account.id)).last_24h == 310


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (PAGES[0], "INDEX journal_of_account"),
        (PAGES[1], "INDEX journal_refunds"),
        (PAGES[2], "INDEX journal_issues"),
        (OF_REQUEST, "PRIMARY KEY"),
        (OPEN_OF_REQUEST, "PRIMARY KEY"),
    ],
)
async def test_statement_page_uses_one_index_without_sorting(sql: str, index: str) -> None:
    """Checked on SQLite, whose query plan does not depend on the number of rows."""
    store = InlineStore([MIGRATIONS])
    params = ("acc", 0, NEWEST, 9) if sql in PAGES else ("acc", b"req")[: sql.count("?")]
    plan = [str(row[3]) for row in await store.read(lambda tx: tx.all(f"EXPLAIN QUERY PLAN {sql}", params))]
    assert any(f" USING {index}" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step or "SCAN" in step for step in plan), plan
    store.close()
