"""The tables of accounts, keys, the ledger and open charges."""

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

# Each row moves `amount` from the book `debit` to the book `credit` of one account, so no credit can appear from
# nowhere. `balance_after` is the book `available` after the row.
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
    # One deduction, one settlement and one refund for a request: the database itself refuses a second closing.
    "CREATE UNIQUE INDEX ledger_of_request ON ledger_entries (request_id, kind) WHERE request_id IS NOT NULL",
    # Holds all that the report of recent deductions needs, so that it stays fast on a busy account.
    "CREATE INDEX ledger_spending ON ledger_entries (account_id, created_at, amount) WHERE kind = 'settlement'",
)

# A bonus that names a request only covers a call of an unlimited account. The ledger is walked through once.
FILL_PACKS = """
WITH last (account_id, id) AS (
    SELECT account_id, MAX(id) FROM ledger_entries
    WHERE kind IN ('purchase', 'bonus') AND request_id IS NULL GROUP BY account_id
)
UPDATE accounts SET pack = ledger_entries.amount FROM last JOIN ledger_entries ON ledger_entries.id = last.id
WHERE accounts.id = last.account_id
"""


# A counter below what is open was reset meanwhile by a version that did not say so.
FIND_UNCOUNTED = """
UPDATE charges SET counted = 0 WHERE key_id IN (
    SELECT keys.id FROM keys JOIN charges AS running ON running.key_id = keys.id
    GROUP BY keys.id, keys.used HAVING keys.used < SUM(running.credits)
)
"""


def m0001_accounts(schema: Schema) -> None:
    """Accounts, their keys, the ledger and the charges that are open."""
    for table in (ACCOUNTS, KEYS, LEDGER_ENTRIES, CHARGES):
        schema.execute(table)
    for index in INDEXES:
        schema.execute(index)
    schema.append_only("ledger_entries")


def m0002_versions(schema: Schema) -> None:
    """Every change of an account's row adds 1, so that of two balances nodes know which is the newer."""
    schema.execute("ALTER TABLE accounts ADD COLUMN version BIGINT NOT NULL DEFAULT 0 CHECK (version >= 0)")


def m0003_packs(schema: Schema) -> None:
    """The account's last pack: its last purchase, or its welcome bonus until there is one."""
    schema.execute("ALTER TABLE accounts ADD COLUMN pack BIGINT NOT NULL DEFAULT 0 CHECK (pack >= 0)")
    schema.execute(FILL_PACKS)


def m0004_counted(schema: Schema) -> None:
    """Whether the key's counter holds an open charge, which a refund returns to it: a reset leaves out what is open."""
    schema.execute("ALTER TABLE charges ADD COLUMN counted BIGINT NOT NULL DEFAULT 1 CHECK (counted IN (0, 1))")
    schema.execute(FIND_UNCOUNTED)


MIGRATIONS = MigrationSet("billing", (m0001_accounts, m0002_versions, m0003_packs, m0004_counted))
