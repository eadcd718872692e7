"""The proof finds all that is tampered with in the tables."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psycopg
import pytest
import trio

from billing.ledger.verification import RULES, verify
from billing.migrations import MIGRATIONS
from storage.errors import ConstraintViolated
from storage.postgres.link import open_link
from storage.postgres.transaction import PostgresTx
from storage.sqlite.transaction import SqliteTx
from storage.store import Store, Tx
from tests.billing.desk import Desk
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.inline_store import InlineStore, open_inline
from tests.servers.postgres import PostgresServer

ENTRY_COLUMNS = "account_id, kind, debit, credit, amount, balance_after, request_id, description, created_at"

# Ada: acc_00000001, key_00000002, settled req_00000003, part-refunded req_00000004, open req_00000005.
# Bob: acc_00000006.
TAMPERING = [
    ("the balance is the sum of the entries", "UPDATE accounts SET balance = balance + 1 WHERE id = 'acc_00000001'"),
    ("what is held is the sum of the entries", "UPDATE accounts SET held = held + 1 WHERE id = 'acc_00000001'"),
    ("what is held is what is open", "DELETE FROM charges WHERE request_id = 'req_00000005'"),
    ("what is held is what is open", "UPDATE charges SET credits = 9 WHERE request_id = 'req_00000005'"),
    ("an open charge was deducted and not closed", "UPDATE charges SET credits = 9 WHERE request_id = 'req_00000005'"),
    (
        "an open charge was deducted and not closed",
        "INSERT INTO charges VALUES ('req_x', 'acc_00000001', NULL, 0, 'n', 'p', 'e', 0)",
    ),
    (
        "an open charge was deducted and not closed",
        "INSERT INTO charges VALUES ('req_00000003', 'acc_00000001', NULL, 0, 'n', 'p', 'e', 0)",
    ),
    ("balances follow from one entry to the next", "UPDATE ledger_entries SET balance_after = 1 WHERE id = 2"),
    ("balances follow from one entry to the next", "UPDATE ledger_entries SET amount = 1000 WHERE kind = 'bonus'"),
    ("balances follow from one entry to the next", "DELETE FROM ledger_entries WHERE id = 1"),
    (
        "a closed charge was settled and refunded to what was deducted",
        "DELETE FROM ledger_entries WHERE request_id = 'req_00000003' AND kind = 'settlement'",
    ),
    (
        "a closed charge was settled and refunded to what was deducted",
        "UPDATE ledger_entries SET amount = 4 WHERE request_id = 'req_00000004' AND kind = 'refund'",
    ),
    (
        "a request is charged once and closed once, in one account",
        "DELETE FROM ledger_entries WHERE request_id = 'req_00000003' AND kind = 'deduction'",
    ),
    (
        "a request is charged once and closed once, in one account",
        f"INSERT INTO ledger_entries ({ENTRY_COLUMNS}) SELECT {ENTRY_COLUMNS} FROM ledger_entries "
        "WHERE request_id = 'req_00000003' AND kind = 'settlement'",
    ),
    (
        "a request is charged once and closed once, in one account",
        "UPDATE ledger_entries SET account_id = 'acc_00000006' "
        "WHERE request_id = 'req_00000003' AND kind = 'settlement'",
    ),
    (
        "entries move between the right books",
        "UPDATE ledger_entries SET debit = 'issued' WHERE request_id = 'req_00000003' AND kind = 'settlement'",
    ),
    ("entries move between the right books", "UPDATE ledger_entries SET kind = 'gift' WHERE kind = 'bonus'"),
    ("entries move between the right books", "UPDATE ledger_entries SET amount = -1 WHERE kind = 'settlement'"),
    ("entries belong to accounts", "DELETE FROM accounts WHERE id = 'acc_00000006'"),
    ("entries name real keys", "DELETE FROM keys"),
    ("entries name real keys", "UPDATE keys SET account_id = 'acc_00000006'"),
    ("keys belong to accounts", "UPDATE keys SET used = -1"),
    ("a key's counter holds its open charges since the last reset", "UPDATE keys SET used = 0"),
    ("keys belong to accounts", "UPDATE keys SET account_id = 'acc_none'"),
]


INSERT_CHARGE = """
INSERT INTO charges (request_id, account_id, key_id, credits, node, platform, endpoint, taken_at) VALUES
"""
# Checks, references and triggers; what is left are the tables.
UNLOCK = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT conrelid::regclass AS place, conname FROM pg_constraint
               WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.place, one.conname);
    END LOOP;
    DROP FUNCTION ledger_entries_refuses_changes CASCADE;
END $$
"""


@pytest.fixture
def store() -> Iterator[InlineCalls]:
    store = open_inline([MIGRATIONS])
    trio.run(fill, store)
    yield store
    store.close()


async def fill(store: Store) -> None:
    desk = Desk(store)
    ada = await desk.accounts.create("Ada")
    key = await desk.keys.create(ada.id)
    settled, refunded, _open = [await desk.charges.take(desk.request(ada.id, key.id, credits=5)) for _ in range(3)]
    await desk.charges.close(settled, used=5)
    await desk.charges.close(refunded, used=3)
    await desk.accounts.create("Bob")


def test_sound_books_are_proved(store: InlineCalls) -> None:
    assert store.look(verify) == []


@pytest.mark.sqlite
@pytest.mark.parametrize(("rule", "sql"), TAMPERING)
def test_tampering_is_found(store: InlineStore, rule: str, sql: str) -> None:
    """On SQLite, whose locks come off otherwise than a server's.

    Method: take every lock off the schema first, as somebody with the file in hand could.
    """
    cursor = store.connection.cursor()
    for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    for trigger in ("update", "delete"):
        cursor.execute(f"DROP TRIGGER ledger_entries_refuses_{trigger}")
    cursor.execute("DROP INDEX ledger_of_request")
    assert cursor.execute(sql.replace("INSERT INTO charges VALUES", INSERT_CHARGE)).rowcount > 0
    found = verify(SqliteTx(cursor))
    assert rule in {violation.rule for violation in found}
    assert all(violation.subject and "{}" not in violation.detail for violation in found)


@pytest.fixture(scope="module")
def sound_url(postgres: PostgresServer) -> str:
    """A PostgreSQL database with the same books, and every lock taken off its schema."""
    url = postgres.fresh()
    store = InlinePostgres(url, [MIGRATIONS])
    trio.run(fill, store)
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(UNLOCK)
        connection.execute("DROP INDEX ledger_of_request")
    return url


def test_sound_books_are_proved_on_postgresql(sound_url: str) -> None:
    with closing(open_link(sound_url, name="test")) as link:
        assert verify(PostgresTx(link)) == []


@pytest.mark.parametrize(("rule", "sql"), TAMPERING)
def test_tampering_is_found_on_postgresql(sound_url: str, rule: str, sql: str) -> None:
    with closing(open_link(sound_url, name="test")) as link:
        tx = PostgresTx(link)
        link.queue("BEGIN")
        assert tx.run(sql.replace("INSERT INTO charges VALUES", INSERT_CHARGE)) > 0
        found = verify(tx)
        link.queue("ROLLBACK")
        link.fetch()
    assert rule in {violation.rule for violation in found}
    assert all(violation.subject and "{}" not in violation.detail for violation in found)


def test_every_rule_has_a_tampering_that_it_finds() -> None:
    assert {rule.name for rule in RULES} == {rule for rule, _sql in TAMPERING}


def test_the_schema_itself_refuses_to_rewrite_history(store: InlineCalls) -> None:
    for sql in (
        "DELETE FROM ledger_entries",
        "UPDATE ledger_entries SET amount = 0",
        "UPDATE accounts SET balance = -1",
        "UPDATE keys SET used = -1",
        "DELETE FROM accounts",
        "INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, description, created_at) "
        "VALUES ('acc_00000001', 'bonus', 'spent', 'available', 1, 1, '', 0)",
        f"INSERT INTO ledger_entries ({ENTRY_COLUMNS}) SELECT {ENTRY_COLUMNS} FROM ledger_entries "
        "WHERE kind = 'settlement'",
    ):
        with pytest.raises(ConstraintViolated, match=r"append-only|constraint"):
            store.do(partial(_run, sql=sql))


def _run(tx: Tx, sql: str) -> None:
    tx.run(sql)
