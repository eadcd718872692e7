"""A statement is the same before and after its days are archived; without the archive they are shown as sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import trio

from billing.archive import archiver, index
from billing.archive.archiver import Archiver
from billing.archive.days import DAY_S, date_of
from billing.archive.files import read_manifest
from billing.archive.index import index_name
from billing.archive.months import make_months
from billing.archive.statement import line_of
from billing.ledger.lines import Transaction
from billing.ledger.transactions import SUMMED, UNREAD, Ledger
from billing.migrations import MIGRATIONS
from storage.opening import open_store
from storage.store import Store
from tests.billing.archive.past import PastDesk, last_days_of_a_month, play
from tests.billing.desk import Desk


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several members per file, and several blocks per index."""
    monkeypatch.setattr(archiver, "ROWS_A_MEMBER", 3)
    monkeypatch.setattr(index, "MEMBERS_A_BLOCK", 4)


@pytest.fixture
def desk(desk: Desk) -> PastDesk:
    return PastDesk(desk.store)


def ledger_of(store: Store, folder: Path | None) -> Ledger:
    return Ledger(store, now=lambda: 0.0, archive=folder)


async def statement(ledger: Ledger, account: str, *, limit: int) -> list[Transaction]:
    """Return every line, page by page."""
    lines: list[Transaction] = []
    while page := (await ledger.transactions(account, limit=limit, before=lines[-1].id if lines else None)).lines:
        assert len(page) <= limit
        lines += page
    return lines


def told(lines: Sequence[Transaction]) -> list[Transaction]:
    """Return the lines without their source."""
    return [replace(line, source="journal") for line in lines]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("17", 17),
        ("2026-01-31.2", "2026-01-31.2"),
        ("1" * 19, None),
        ("2026-01-31", None),
        ("2026-13-31.2", None),
        ("", None),
        ("-1", None),
        ("\u0663", None),
    ],
)
def test_line_id_is_a_position_or_a_daily_sum(text: str, line: int | str | None) -> None:
    assert line_of(text) == line


async def accounts_of(desk: PastDesk) -> list[str]:
    return [account.id for account in await desk.accounts.list()]


async def hold_one_open(desk: PastDesk) -> None:
    """Add a charge that is taken on one day and refunded three days later."""
    ada = (await accounts_of(desk))[0]
    request = desk.request(ada, None, credits=9)
    request.request_id = desk.id_now()
    charge = await desk.charges.take(request)
    desk.time += 3 * DAY_S
    await desk.charges.close(charge, used=4)


async def test_statement_from_the_archive_equals_the_one_from_the_journal(desk: PastDesk, tmp_path: Path) -> None:
    """Compare whole pages and each request's lines: some days archived, one of them in part, or all archived."""
    await play(desk, days=2, calls=4)
    await hold_one_open(desk)
    began = desk.time
    for _ in range(3):
        desk.time += DAY_S
        await desk.accounts.grant((await accounts_of(desk))[0], 7, "Pack")
    accounts, ledger = await accounts_of(desk), ledger_of(desk.store, tmp_path)
    before = {account: await statement(ledger, account, limit=100) for account in accounts}
    assert {line.source for line in before[accounts[0]]} == {"journal"}
    for days, until in ((12, 0), (12.5, 0), (14.5, 0), (40, 1)):
        await archive(desk.store, tmp_path, began + days * DAY_S, whole=bool(until))
        for account in accounts:
            for limit in (1, 3, 100):
                assert told(await statement(ledger, account, limit=limit)) == before[account]
            for line in before[account]:
                if line.request_id is not None:
                    of_request = await ledger.transactions(account, limit=9, request_id=line.request_id)
                    assert told(of_request.lines) == [
                        one for one in before[account] if one.request_id == line.request_id
                    ]
    sources = [line.source for line in await statement(ledger, accounts[0], limit=7)]
    assert sources.count("journal") == 1, "the lines of an open charge are not archived"
    assert sources.count("archive") == len(before[accounts[0]]) - 1
    other = next(line.request_id for line in before[accounts[1]] if line.request_id)
    assert (await ledger.transactions(accounts[0], limit=9, request_id=other)).lines == []


async def archive(store: Store, folder: Path, now: float, *, whole: bool) -> None:
    """Archive all old days, or if not `whole`, stop when part of a file has left the journal."""
    one = Archiver(store, folder, detail_days=10)
    if whole:
        assert (await one.run(now)).is_done
        return
    with trio.move_on_after(0.2):
        await one.run(now)


async def test_statement_is_identical_with_and_without_months(store_url: str, tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_store(store_url, [MIGRATIONS]) as store:
            desk = PastDesk(store)
            desk.time = last_days_of_a_month(2)
            await make_months(store, desk.time)
            await play(desk, days=4, calls=2)
            account, ledger = (await accounts_of(desk))[0], ledger_of(store, tmp_path)
            before = await statement(ledger, account, limit=100)
            for days in (8, 9, 40):
                await archive(store, tmp_path, desk.time + days * DAY_S, whole=True)
                for limit in (2, 100):
                    assert told(await statement(ledger, account, limit=limit)) == before


async def test_statement_without_its_archive_shows_exact_sums(desk: PastDesk, tmp_path: Path) -> None:
    """Sums are shown by endpoint, unless a charge of the day was closed on another day, which then includes it."""
    await play(desk, days=2, calls=4)
    await hold_one_open(desk)
    now = desk.time + 30 * DAY_S
    accounts, ledger = await accounts_of(desk), ledger_of(desk.store, None)
    before = {account: await statement(ledger, account, limit=100) for account in accounts}
    await archive(desk.store, tmp_path, now, whole=True)
    for account, limit in product(accounts, (2, 3, 100)):
        lines = await statement(ledger, account, limit=limit)
        assert sum(line.amount for line in lines) == sum(line.amount for line in before[account])
        assert len({line.id for line in lines}) == len(lines)
        sums = [line for line in lines if line.source == "usage"]
        assert {line.balance_after for line in sums} == {None}
        assert [line.created_at for line in sums] == sorted((line.created_at for line in sums), reverse=True)
        assert "/v1" in str(sums[-2].endpoint) or sums[-2].endpoint == "repository"
        first = date_of(int(before[account][-1].created_at // DAY_S))
        assert sums[-1].description == f"Credits received on {first}"
    page = await ledger.transactions(accounts[0], limit=100)
    assert page.warnings == (SUMMED,)
    assert any(line.endpoint is None and line.type == "deduction" for line in page.lines), "the day of the open charge"


async def test_request_of_an_unreadable_day_returns_a_warning(desk: PastDesk, tmp_path: Path) -> None:
    await play(desk, days=1, calls=2)
    account = (await accounts_of(desk))[0]
    lines = await statement(ledger_of(desk.store, tmp_path), account, limit=100)
    request = next(line.request_id for line in lines[::-1] if line.request_id)
    await archive(desk.store, tmp_path, desk.time + 30 * DAY_S, whole=True)
    assert await ledger_of(desk.store, None).transactions(account, limit=9, request_id=request) == ([], (UNREAD,))
    unknown = await ledger_of(desk.store, None).transactions(account, limit=9, request_id="req_" + "f" * 32)
    assert unknown == ([], ())


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(b"x" * 100)])
@pytest.mark.parametrize("of_index", [False, True])
async def test_unreadable_file_leaves_the_total_amount_unchanged(
    desk: PastDesk, tmp_path: Path, harm: object, of_index: bool
) -> None:
    await play(desk, days=3, calls=2)
    account, ledger = (await accounts_of(desk))[0], ledger_of(desk.store, tmp_path)
    before = await statement(ledger, account, limit=100)
    await archive(desk.store, tmp_path, desk.time + 30 * DAY_S, whole=True)
    name = read_manifest(tmp_path)[0].name
    assert callable(harm)
    harm(tmp_path / (index_name(name) if of_index else name))
    page = await ledger.transactions(account, limit=100)
    assert page.warnings == (SUMMED,)
    assert sum(line.amount for line in page.lines) == sum(line.amount for line in before)
    request = next(line.request_id for line in before[::-1] if line.request_id)
    assert (await ledger.transactions(account, limit=9, request_id=request)).warnings == (UNREAD,)


async def test_page_reads_only_archive_members_that_contain_its_lines(
    desk: PastDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(desk, days=3, calls=10)
    account, ledger = (await accounts_of(desk))[0], ledger_of(desk.store, tmp_path)
    await archive(desk.store, tmp_path, desk.time + 30 * DAY_S, whole=True)
    read = list[int]()
    whole = archiver.read_member

    def counted(folder: Path, name: str, begin: int) -> object:
        read.append(begin)
        return whole(folder, name, begin)

    monkeypatch.setattr("billing.archive.statement.read_member", counted)
    await ledger.transactions(account, limit=10)
    assert 0 < len(read) <= 10
    lines = await statement(ledger, account, limit=100)
    request = next(line.request_id for line in lines[::-1] if line.request_id)
    del read[:]
    assert (await ledger.transactions(account, limit=9, request_id=request)).lines
    assert 0 < len(read) <= 2
