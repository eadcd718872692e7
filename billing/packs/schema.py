"""The tables of packs: purchases, the states of their payments, and the processed events."""

from typing import Final

from storage.migrations import Schema

PURCHASES: Final = """
CREATE TABLE pack_purchases (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    pack TEXT NOT NULL,
    credits BIGINT NOT NULL CHECK (credits > 0),
    price_cents BIGINT NOT NULL CHECK (price_cents >= 0),
    currency TEXT NOT NULL,
    plan TEXT NOT NULL CHECK (plan IN ('free', 'starter', 'growth', 'pro', 'enterprise')),
    source TEXT NOT NULL CHECK (source IN ('operator', 'stripe')),
    created_at DOUBLE PRECISION NOT NULL,
    paid_at DOUBLE PRECISION,
    paid_cents BIGINT CHECK (paid_cents >= 0),
    payment TEXT UNIQUE,
    reversed BIGINT NOT NULL DEFAULT 0 CHECK (reversed BETWEEN 0 AND credits),
    taken_back BIGINT NOT NULL DEFAULT 0 CHECK (taken_back BETWEEN 0 AND reversed),
    reversals INTEGER NOT NULL DEFAULT 0,
    CHECK (paid_at IS NOT NULL OR (payment IS NULL AND reversed = 0))
)
"""
# The state of a payment. Its events may arrive in any order, for example a refund before the purchase.
PAYMENTS: Final = """
CREATE TABLE payments (
    id TEXT PRIMARY KEY,
    refunded_cents BIGINT NOT NULL DEFAULT 0 CHECK (refunded_cents >= 0),
    disputed_cents BIGINT NOT NULL DEFAULT 0 CHECK (disputed_cents >= 0),
    dispute TEXT NOT NULL DEFAULT 'none' CHECK (dispute IN ('none', 'open', 'lost', 'won'))
)
"""
EVENTS: Final = """
CREATE TABLE payment_events (id TEXT PRIMARY KEY, type TEXT NOT NULL, received_at DOUBLE PRECISION NOT NULL)
"""


def m0013_packs(schema: Schema) -> None:
    """Add purchases of packs, and a mark for accounts with a reversed payment."""
    for table in (PURCHASES, PAYMENTS, EVENTS):
        schema.execute(table)
    schema.execute("CREATE INDEX purchases_of_account ON pack_purchases (account_id, created_at, id)")
    schema.execute("ALTER TABLE accounts ADD COLUMN mark TEXT CHECK (mark IN ('refund', 'dispute'))")


def m0014_payment_faults(schema: Schema) -> None:
    """Add the request that began a purchase, and the description of a payment that does not match its pack."""
    schema.execute("ALTER TABLE pack_purchases ADD COLUMN request TEXT")
    schema.execute("ALTER TABLE accounts ADD COLUMN mismatch TEXT")
