"""The database of a simulated world, which outlives its nodes, and its contents after each commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache, partial
from typing import NamedTuple

from billing.journal import request_text
from gateway.node.stores import MIGRATIONS
from storage.sqlite.files import migrate
from storage.store import Tx
from tests.fakes.entries import EntryRow, read_entries
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import InlineOwnPostgres, InlineSqlite
from tests.fakes.stores import engine

COUNT = """
INSERT INTO sim_counters (key_id, used, entry_id)
VALUES (NEW.id, NEW.used, (SELECT place FROM accounts WHERE id = NEW.account_id));
"""
WATCH_COUNTERS = (
    "CREATE TABLE sim_counters (id INTEGER PRIMARY KEY, key_id TEXT, used INTEGER, entry_id INTEGER)",
    f"CREATE TRIGGER sim_counted AFTER UPDATE OF used ON keys BEGIN {COUNT} END",
)
WATCH_COUNTERS_OF_A_SERVER = (
    "CREATE TABLE sim_counters (id BIGINT GENERATED ALWAYS AS IDENTITY, key_id TEXT, used BIGINT, entry_id BIGINT)",
    f"CREATE FUNCTION sim_count() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {COUNT} RETURN NULL; END $$",
    "CREATE TRIGGER sim_counted AFTER UPDATE OF used ON keys FOR EACH ROW EXECUTE FUNCTION sim_count()",
)
"""A table that the tests add. It records each change of a key's counter, because the counter itself has no history."""
CLAIMS = "SELECT claims.id, owner, status, body FROM claims LEFT JOIN replies ON replies.id = claims.reply"
OPEN = "SELECT kind, charges.id, accounts.id, credits FROM charges JOIN accounts ON accounts.number = charges.account"
COUNTERS = "SELECT id, key_id, used, entry_id FROM sim_counters WHERE id > ? ORDER BY id"


class KeyRow(NamedTuple):
    """The credits of a key."""

    used: int
    credit_limit: int | None
    revoked_at: float | None


class Rows(NamedTuple):
    """The database after a commit; `entries` and `counters` contain the new rows."""

    entries: list[EntryRow]
    counters: list[tuple[int, str, int, int]]
    accounts: dict[str, tuple[int, int]]
    """The balance and the reserved credits of each account."""
    keys: dict[str, KeyRow]
    charges: dict[str, tuple[str, int]]
    """The account and the credits of each open charge, by request."""
    claims: dict[str, tuple[str, int | None, str | None]]
    """The owner, status and text of each idempotency key."""


@cache
def _empty() -> bytes:
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        migrate(connection, MIGRATIONS)
        for statement in WATCH_COUNTERS:
            connection.execute(statement)
        return connection.serialize()


def open_database() -> InlineCalls:
    """Return a new, migrated database: in memory, or on the run's server."""
    if engine() == "sqlite":
        connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        connection.deserialize(_empty())
        return InlineSqlite(connection)
    database = InlineOwnPostgres(MIGRATIONS)
    change(database, WATCH_COUNTERS_OF_A_SERVER)
    return database


def change(database: InlineCalls, statements: Iterable[str]) -> None:
    """Run statements without the nodes' knowledge."""
    for sql in statements:
        database.do(partial(_run, sql=sql))


def _run(tx: Tx, *, sql: str) -> None:
    tx.run(sql)


def read_rows(tx: Tx, *, seen: set[EntryRow], after_counter: int) -> Rows:
    """Return the current rows."""
    run = tx.all
    return Rows(
        entries=[entry for entry in read_entries(run) if entry not in seen],
        counters=[(*row,) for row in run(COUNTERS, (after_counter,))],
        accounts={row[0]: (row[1], row[2]) for row in run("SELECT id, balance, held FROM accounts")},
        keys={row[0]: KeyRow(*row[1:]) for row in run("SELECT id, used, credit_limit, revoked_at FROM keys")},
        charges={request_text(row[0], row[1]) or "": (row[2], row[3]) for row in run(OPEN)},
        claims={row[0]: (row[1], row[2], row[3]) for row in run(CLAIMS)},
    )
