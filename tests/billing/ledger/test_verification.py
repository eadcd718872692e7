"""The proof finds all tampering in the tables."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psycopg
import pytest
import trio

from billing.ledger.rules import (
    CHAINED,
    CLOSED_ONCE,
    COMPLETE,
    CONSERVED,
    COUNTED,
    NAMES,
    ROWS_FIT,
    ROWS_OF_ACCOUNTS,
    ROWS_OF_KEYS,
)
from billing.ledger.verification import verify
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

COLUMNS = "taken, refunded, issued, taken_at, closed_after, balance_after, balance_closed, place, refund_place, account"
STILL_OPEN = """
INSERT INTO charges (id, kind, account, key, credits, balance_after, place, taken_at, endpoint, node)
SELECT journal.id, journal.kind, charges.account, charges.key, 0, 0, 90, 0, charges.endpoint, node
FROM charges, journal
WHERE taken = 5 AND refunded = 0 AND journal.issued = 0 AND charges.account = 1 AND journal.account = 1
"""
# Ada: acc_00000001, key_00000002, settled req_00000003, part-refunded req_00000004, open req_00000005.
# Bob: acc_00000006, is unlimited and has paid for req_00000007.
SETTLED, REFUNDED, COVERED = "taken = 5 AND refunded = 0 AND issued = 0", "refunded > 0", "issued > 0 AND taken > 0"
TAMPERING = [
    (CONSERVED, "UPDATE accounts SET balance = balance + 1 WHERE id = 'acc_00000001'"),
    (CONSERVED, "UPDATE accounts SET held = held + 1 WHERE id = 'acc_00000001'"),
    (CONSERVED, f"UPDATE journal SET taken = 4 WHERE {SETTLED}"),
    (CONSERVED, f"UPDATE journal SET refunded = 1 WHERE {REFUNDED}"),
    (CONSERVED, "UPDATE journal SET issued = 1000 WHERE kind = 4 AND account = 1"),
    (CONSERVED, f"UPDATE journal SET account = 2 WHERE {SETTLED}"),
    (CONSERVED, "UPDATE charges SET issued = 1"),
    (CONSERVED, "INSERT INTO openings (account, day, issued, spent, postings, chain) VALUES (1, 0, 5, 0, 0, 0)"),
    ("an account holds the credits of its open charges", "DELETE FROM charges WHERE credits > 0"),
    ("an account holds the credits of its open charges", "UPDATE charges SET credits = 9"),
    (COMPLETE, f"DELETE FROM journal WHERE {SETTLED}"),
    (COMPLETE, f"UPDATE journal SET refund_place = NULL WHERE {REFUNDED}"),
    (COMPLETE, "UPDATE accounts SET place = place + 1"),
    (COMPLETE, "UPDATE accounts SET place = place - 1"),
    (CLOSED_ONCE, STILL_OPEN),
    (CHAINED, "UPDATE journal SET balance_after = balance_after + 1 WHERE place = 2 AND account = 1"),
    (CHAINED, f"UPDATE journal SET balance_closed = balance_closed + 1 WHERE {REFUNDED}"),
    (CHAINED, "UPDATE journal SET place = 30 - place WHERE account = 1"),
    (CHAINED, "UPDATE charges SET balance_after = balance_after + 1"),
    (CHAINED, f"UPDATE journal SET balance_after = 3000000000 - balance_after WHERE {SETTLED}"),
    (CHAINED, f"UPDATE journal SET issued_place = 90 WHERE {COVERED}"),
    (CHAINED, f"DELETE FROM journal WHERE {SETTLED}"),
    (ROWS_FIT, "UPDATE journal SET kind = 7 WHERE kind = 4"),
    (ROWS_FIT, f"UPDATE journal SET refunded = 6 WHERE {REFUNDED}"),
    (ROWS_FIT, f"UPDATE journal SET refund_place = NULL WHERE {REFUNDED}"),
    (ROWS_FIT, f"UPDATE journal SET endpoint = NULL WHERE {SETTLED}"),
    (ROWS_OF_ACCOUNTS, "DELETE FROM accounts WHERE id = 'acc_00000006'"),
    (ROWS_OF_KEYS, "DELETE FROM keys"),
    (ROWS_OF_KEYS, "UPDATE keys SET account_id = 'acc_00000006'"),
    ("open charges belong to accounts and their keys", "DELETE FROM keys"),
    ("open charges belong to accounts and their keys", "DELETE FROM endpoints"),
    ("open charges belong to accounts and their keys", "DELETE FROM charging_nodes"),
    ("keys belong to accounts", "UPDATE keys SET used = -1"),
    ("keys belong to accounts", "UPDATE keys SET account_id = 'acc_none'"),
    ("a key's counter includes its open charges since the last reset", "UPDATE keys SET used = 0"),
    (COUNTED, "UPDATE usage SET credits = credits + 1 WHERE account = 1"),
    (COUNTED, "DELETE FROM usage"),
]

# All checks, references and triggers are removed; only the tables remain.
UNLOCK = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT conrelid::regclass AS place, conname FROM pg_constraint
               WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace AND coninhcount = 0 LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.place, one.conname);
    END LOOP;
    DROP FUNCTION journal_refuses_changes CASCADE;
    DROP FUNCTION journal_refuses_deletes CASCADE;
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
    bob = await desk.accounts.create("Bob", credits=2, unlimited=True)
    await desk.charges.close(await desk.charges.take(desk.request(bob.id, credits=5)), used=5)


def test_unmodified_ledger_passes_verification(store: InlineCalls) -> None:
    assert store.look(verify) == []


@pytest.mark.sqlite
@pytest.mark.parametrize(("rule", "sql"), TAMPERING)
def test_tampering_is_found(store: InlineStore, rule: str, sql: str) -> None:
    """On SQLite, whose protections are removed differently than a server's.

    Method: first remove all protections from the schema, as is possible for anyone with the file.
    """
    cursor = store.connection.cursor()
    for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    for trigger in ("update", "delete"):
        cursor.execute(f"DROP TRIGGER journal_refuses_{trigger}")
    assert cursor.execute(sql).rowcount > 0
    found = verify(SqliteTx(cursor))
    assert rule in {violation.rule for violation in found}
    assert all(violation.subject and "{}" not in violation.detail for violation in found)


@pytest.fixture(scope="module")
def sound_url(postgres: PostgresServer) -> str:
    """A PostgreSQL database with the same ledger, without the protections of its schema."""
    url = postgres.fresh()
    store = InlinePostgres(url, [MIGRATIONS])
    trio.run(fill, store)
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(UNLOCK)
    return url


def test_unmodified_ledger_passes_verification_on_postgresql(sound_url: str) -> None:
    with closing(open_link(sound_url, name="test")) as link:
        link.queue("BEGIN")
        assert verify(PostgresTx(link)) == []


@pytest.mark.parametrize(("rule", "sql"), TAMPERING)
def test_tampering_is_found_on_postgresql(sound_url: str, rule: str, sql: str) -> None:
    with closing(open_link(sound_url, name="test")) as link:
        tx = PostgresTx(link)
        link.queue("BEGIN")
        assert tx.run(sql) > 0
        found = verify(tx)
        link.queue("ROLLBACK")
        link.fetch()
    assert rule in {violation.rule for violation in found}
    assert all(violation.subject and "{}" not in violation.detail for violation in found)


def test_every_rule_has_a_tampering_case() -> None:
    assert set(NAMES) == {rule for rule, _sql in TAMPERING}


# A refund above the charge; a refund without a position; a position without a refund; a charge without an endpoint.
WRONG_ROWS = (
    "1, 2, 0, 0, 0, 0, 0, 91, 92, 1, 1, 0",
    "1, 1, 0, 0, 0, 0, 0, 91, NULL, 1, 1, 0",
    "1, 0, 0, 0, 0, 0, 0, 91, 92, 1, 1, 0",
    "1, 0, 0, 0, 0, 0, 0, 91, NULL, 1, NULL, 0",
    "1, 0, 0, 0, 0, 0, 0, 91, NULL, 1, 1, 4",
)


def test_schema_refuses_to_rewrite_history(store: InlineCalls) -> None:
    for sql in (
        "DELETE FROM journal",
        "UPDATE journal SET taken = 0",
        "UPDATE accounts SET balance = -1",
        "UPDATE keys SET used = -1",
        "DELETE FROM accounts",
        *(f"INSERT INTO journal ({COLUMNS}, endpoint, kind, id) VALUES ({row}, 'x')" for row in WRONG_ROWS),
        f"INSERT INTO journal SELECT * FROM journal WHERE {SETTLED}",
        f"INSERT INTO journal ({COLUMNS}, kind, id) VALUES (0, 0, 1, 0, 0, 1, 1, 1, NULL, 1, 4, 'same place')",
    ):
        with pytest.raises(ConstraintViolated, match=r"append-only|constraint"):
            store.do(partial(_run, sql=sql))


def _run(tx: Tx, sql: str) -> None:
    tx.run(sql)
