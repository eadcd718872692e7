"""The tables of accounts, keys, the journal, usage and open charges."""

from billing.accounts.lifecycle import m0009_account_states
from billing.archive.schema import OPENINGS, m0008_archives, m0010_months, m0011_partitions
from billing.old_entries import enter_old_entries, prove_old_entries, reopen_charges
from billing.open_charges import m0012_small_charges
from billing.packs.schema import m0013_packs, m0014_payment_faults
from storage.migrations import MigrationSet, Schema

ACCOUNTS = """
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL CHECK (plan IN ('free', 'starter', 'growth', 'pro', 'enterprise')),
    unlimited INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
    balance BIGINT NOT NULL CHECK (balance >= 0),
    held BIGINT NOT NULL CHECK (held >= 0),
    created_at DOUBLE PRECISION NOT NULL
)
"""

KEYS = """
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    sealed TEXT NOT NULL,
    last4 TEXT NOT NULL,
    credit_limit BIGINT CHECK (credit_limit >= 0),
    used BIGINT NOT NULL CHECK (used >= 0),
    expires_at DOUBLE PRECISION,
    revoked_at DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL
)
"""

# Each row moves `amount` between two books of one account, from `debit` to `credit`, so no credits can be created by
# mistake. `balance_after` is the balance of the book `available` after the row.
LEDGER_ENTRIES = """
CREATE TABLE ledger_entries (
    id {serial},
    account_id TEXT NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL,
    debit TEXT NOT NULL,
    credit TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0),
    balance_after BIGINT NOT NULL CHECK (balance_after >= 0),
    request_id TEXT,
    key_id TEXT,
    platform TEXT,
    endpoint TEXT,
    description TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    CHECK (
        (kind IN ('purchase', 'bonus') AND debit = 'issued' AND credit = 'available')
        OR (kind = 'deduction' AND debit = 'available' AND credit = 'held')
        OR (kind = 'settlement' AND debit = 'held' AND credit = 'spent')
        OR (kind = 'refund' AND debit = 'held' AND credit = 'available')
    ),
    CHECK (request_id IS NOT NULL OR kind IN ('purchase', 'bonus'))
)
"""

CHARGES = """
CREATE TABLE charges (
    request_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT REFERENCES keys (id),
    credits BIGINT NOT NULL CHECK (credits >= 0),
    node TEXT NOT NULL,
    platform TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    taken_at DOUBLE PRECISION NOT NULL
)
"""

INDEXES = (
    "CREATE INDEX keys_of_account ON keys (account_id)",
    "CREATE INDEX ledger_of_account ON ledger_entries (account_id, id)",
    # At most one deduction, one settlement and one refund per request, so the database itself refuses a second closing.
    "CREATE UNIQUE INDEX ledger_of_request ON ledger_entries (request_id, kind) WHERE request_id IS NOT NULL",
    "CREATE INDEX ledger_spending ON ledger_entries (account_id, created_at, amount) WHERE kind = 'settlement'",
)

# A bonus with a request id covers a call of an unlimited account. This migration scans the ledger once.
FILL_PACKS = """
WITH last (account_id, id) AS (
    SELECT account_id, MAX(id) FROM ledger_entries
    WHERE kind IN ('purchase', 'bonus') AND request_id IS NULL GROUP BY account_id
)
UPDATE accounts SET pack = ledger_entries.amount FROM last JOIN ledger_entries ON ledger_entries.id = last.id
WHERE accounts.id = last.account_id
"""

# A key whose `used` is below the sum of its open charges was reset by an older version, which did not mark them.
FIND_UNCOUNTED = """
UPDATE charges SET counted = 0 WHERE key_id IN (
    SELECT keys.id FROM keys JOIN charges AS running ON running.key_id = keys.id
    GROUP BY keys.id, keys.used HAVING keys.used < SUM(running.credits)
)
"""

ENDPOINTS = """
CREATE TABLE endpoints (id {serial}, platform TEXT NOT NULL, path TEXT NOT NULL, UNIQUE (platform, path))
"""
NOTES = "CREATE TABLE notes (id {serial}, text TEXT NOT NULL UNIQUE)"

# One row per closed charge or issue of credits (see `billing.journal`). Rows are ordered by id, and ids begin with the
# time, so new rows are appended and whole days are contiguous. The columns before the amounts fill four 8-byte words.
JOURNAL = """
CREATE TABLE journal (
    id BYTEA NOT NULL PRIMARY KEY,
    kind SMALLINT NOT NULL,
    account INTEGER NOT NULL,
    key INTEGER,
    endpoint INTEGER,
    taken BIGINT NOT NULL,
    refunded BIGINT NOT NULL DEFAULT 0,
    issued BIGINT NOT NULL DEFAULT 0 CHECK (issued >= 0),
    taken_at BIGINT NOT NULL,
    closed_after BIGINT NOT NULL,
    balance_after BIGINT NOT NULL CHECK (balance_after >= 0),
    balance_closed BIGINT NOT NULL CHECK (balance_closed >= 0),
    place BIGINT NOT NULL,
    refund_place BIGINT,
    issued_place BIGINT,
    note INTEGER,
    CHECK (refunded BETWEEN 0 AND taken),
    CHECK ((refunded = 0) = (refund_place IS NULL)),
    CHECK (kind IN (0, 1, 2) AND endpoint IS NOT NULL OR kind IN (3, 4) AND taken = 0)
) {clustered}
"""

# Hours are counted from 1970. A key of 0 means no key. The report of recent deductions uses the primary key.
USAGE = """
CREATE TABLE usage (
    account INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    key INTEGER NOT NULL,
    calls BIGINT NOT NULL,
    hits BIGINT NOT NULL DEFAULT 0,
    refusals BIGINT NOT NULL DEFAULT 0,
    credits BIGINT NOT NULL,
    refunds BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    PRIMARY KEY (account, hour, endpoint, key)
) {clustered}
"""
DONE = "CREATE TABLE journal_done (entry BIGINT NOT NULL)"

OPEN_CHARGES = """
CREATE TABLE charges (
    request_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT REFERENCES keys (id),
    credits BIGINT NOT NULL CHECK (credits >= 0),
    balance_after BIGINT NOT NULL CHECK (balance_after >= 0),
    place BIGINT NOT NULL,
    taken_at BIGINT NOT NULL,
    issued BIGINT NOT NULL CHECK (issued >= 0),
    issued_place BIGINT,
    endpoint INTEGER NOT NULL,
    node TEXT NOT NULL,
    counted BIGINT NOT NULL DEFAULT 1 CHECK (counted IN (0, 1))
) {clustered}
"""
# Finds the statement lines of an account's open charges. There are only as many open charges as calls in progress.
OPEN_OF_ACCOUNT = "CREATE INDEX charges_of_account ON charges (account_id)"

JOURNAL_INDEXES = (
    # Finds a page of an account's statement, and ensures that no place is used twice.
    "CREATE UNIQUE INDEX journal_of_account ON journal (account, place)",
    # These indexes find the lines of refunds, and of credits issued to unlimited accounts.
    "CREATE UNIQUE INDEX journal_refunds ON journal (account, refund_place) WHERE refund_place IS NOT NULL",
    "CREATE UNIQUE INDEX journal_issues ON journal (account, issued_place) WHERE issued_place IS NOT NULL",
)

NUMBER = """
UPDATE {table} SET number = numbered.number
FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY created_at, id) AS number FROM {table}) AS numbered
WHERE numbered.id = {table}.id
"""
FILL_NAMES = (
    """
    INSERT INTO endpoints (platform, path)
    SELECT DISTINCT platform, endpoint FROM ledger_entries WHERE kind = 'deduction'
    """,
    """
    INSERT INTO notes (text) SELECT DISTINCT description FROM ledger_entries
    WHERE kind IN ('purchase', 'refund') OR (kind = 'bonus' AND request_id IS NULL)
    """,
    "INSERT INTO journal_done (entry) VALUES (0)",
)


def m0001_accounts(schema: Schema) -> None:
    """Create the tables of accounts, keys, ledger entries and open charges."""
    for table in (ACCOUNTS, KEYS, LEDGER_ENTRIES, CHARGES):
        schema.execute(table)
    for index in INDEXES:
        schema.execute(index)
    schema.append_only("ledger_entries")


def m0002_versions(schema: Schema) -> None:
    """Add a version to accounts.

    Every change of the row increases the version, so that nodes can recognize the newer of two balances.
    """
    schema.execute("ALTER TABLE accounts ADD COLUMN version BIGINT NOT NULL DEFAULT 0 CHECK (version >= 0)")


def m0003_packs(schema: Schema) -> None:
    """Add the credits of the account's last pack, which is its last purchase, or its welcome bonus before that."""
    schema.execute("ALTER TABLE accounts ADD COLUMN pack BIGINT NOT NULL DEFAULT 0 CHECK (pack >= 0)")
    schema.execute(FILL_PACKS)


def m0004_counted(schema: Schema) -> None:
    """Record for each open charge whether its key's counter includes it, because only then a refund lowers the counter.

    A reset of the counter excludes the open charges.
    """
    schema.execute("ALTER TABLE charges ADD COLUMN counted BIGINT NOT NULL DEFAULT 1 CHECK (counted IN (0, 1))")
    schema.execute(FIND_UNCOUNTED)


def m0005_journal(schema: Schema) -> None:
    """Create the journal with its tables of names and the hourly usage, and number the accounts and keys."""
    for table in (ENDPOINTS, NOTES, JOURNAL, OPENINGS, USAGE, DONE):
        schema.execute(table)
    for table in ("accounts", "keys"):
        schema.execute(f"ALTER TABLE {table} ADD COLUMN number INTEGER NOT NULL DEFAULT 0")
        schema.execute(NUMBER.format(table=table))
        schema.execute(f"CREATE UNIQUE INDEX {table}_by_number ON {table} (number)")
    schema.execute("ALTER TABLE accounts ADD COLUMN place BIGINT NOT NULL DEFAULT 0 CHECK (place >= 0)")
    for statement in (*JOURNAL_INDEXES, *FILL_NAMES):
        schema.execute(statement)
    schema.append_only("journal")


def m0006_entries(schema: Schema) -> None:
    """Copy the old ledger's entries into the journal and usage, in durable steps."""
    enter_old_entries(schema)


def m0007_open_charges(schema: Schema) -> None:
    """Add all columns of the later journal row to open charges. Verify every line of the old ledger, then drop it."""
    schema.execute("ALTER TABLE charges RENAME TO open_before")
    schema.execute(OPEN_CHARGES)
    schema.execute(OPEN_OF_ACCOUNT)
    reopen_charges(schema)
    prove_old_entries(schema)
    for table in ("open_before", "journal_done"):
        schema.execute(f"DROP TABLE {table}")
    schema.drop_append_only("ledger_entries")


MIGRATIONS = MigrationSet(
    "billing",
    (
        m0001_accounts,
        m0002_versions,
        m0003_packs,
        m0004_counted,
        m0005_journal,
        m0006_entries,
        m0007_open_charges,
        m0008_archives,
        m0009_account_states,
        m0010_months,
        m0011_partitions,
        m0012_small_charges,
        m0013_packs,
        m0014_payment_faults,
    ),
)
