"""The tables of discover runs and schedules, in addition to the job tables. A run has the same id as its job."""

from __future__ import annotations

from typing import Final

# `is_told` means that the run's events are published. The columns `told_...` contain the values in the last event.
RUNS = """
CREATE TABLE discover_runs (
    run_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    key_id TEXT,
    view TEXT NOT NULL CHECK (view IN ('posts', 'accounts', 'items')),
    is_told INTEGER NOT NULL CHECK (is_told IN (0, 1)),
    schedule_id TEXT,
    max_credits BIGINT NOT NULL CHECK (max_credits >= 1),
    max_rows BIGINT NOT NULL CHECK (max_rows >= 1),
    version BIGINT NOT NULL CHECK (version >= 0),
    rows_total BIGINT NOT NULL CHECK (rows_total >= 0),
    rows_kept BIGINT NOT NULL CHECK (rows_kept BETWEEN 0 AND max_rows),
    rows_new BIGINT NOT NULL CHECK (rows_new >= 0),
    is_cut INTEGER NOT NULL CHECK (is_cut IN (0, 1)),
    legs_planned BIGINT NOT NULL CHECK (legs_planned >= 1),
    legs_done BIGINT NOT NULL CHECK (legs_done >= 0),
    legs_empty BIGINT NOT NULL CHECK (legs_empty >= 0),
    legs_failed BIGINT NOT NULL CHECK (legs_failed >= 0),
    told_tenths BIGINT NOT NULL CHECK (told_tenths BETWEEN 0 AND 10),
    told_version BIGINT NOT NULL CHECK (told_version >= 0),
    told_new BIGINT NOT NULL CHECK (told_new >= 0),
    CHECK (legs_done + legs_empty + legs_failed <= legs_planned),
    CHECK (rows_kept <= rows_total)
)
"""

# `state` is the start of the next page, as JSON.
LEGS = """
CREATE TABLE discover_legs (
    run_id TEXT NOT NULL REFERENCES discover_runs (run_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    status TEXT NOT NULL CHECK (status IN ('pending', 'done', 'empty', 'failed')),
    pages BIGINT NOT NULL CHECK (pages >= 0),
    rows_found BIGINT NOT NULL CHECK (rows_found >= 0),
    credits_used BIGINT NOT NULL CHECK (credits_used >= 0),
    state TEXT,
    error TEXT,
    PRIMARY KEY (run_id, number)
)
"""

# `key` is the digest that identifies a row. A dropped row keeps its number, without its record. `record` is compressed
# JSON.
ROWS = """
CREATE TABLE discover_rows (
    run_id TEXT NOT NULL REFERENCES discover_runs (run_id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    row_id TEXT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    platform TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    found_in TEXT NOT NULL,
    record BYTEA,
    judged TEXT,
    is_new INTEGER CHECK (is_new IN (0, 1)),
    first_seen_at DOUBLE PRECISION NOT NULL,
    first_version BIGINT NOT NULL,
    version BIGINT NOT NULL CHECK (version >= first_version),
    is_gone INTEGER NOT NULL CHECK (is_gone IN (0, 1)),
    PRIMARY KEY (run_id, number),
    UNIQUE (run_id, row_id),
    CHECK ((record IS NULL) = (is_gone = 1))
)
"""

SCHEDULES = """
CREATE TABLE discover_schedules (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    cadence TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused')),
    paused_because TEXT,
    next_slot_at DOUBLE PRECISION,
    skips BIGINT NOT NULL CHECK (skips >= 0),
    last_run_id TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    CHECK (status = 'active' OR next_slot_at IS NULL)
)
"""

# A slot is run at most once. `run_id` is NULL if the slot was skipped.
OCCURRENCES = """
CREATE TABLE discover_occurrences (
    schedule_id TEXT NOT NULL REFERENCES discover_schedules (id) ON DELETE CASCADE,
    scheduled_for DOUBLE PRECISION NOT NULL,
    run_id TEXT,
    skip_reason TEXT,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (schedule_id, scheduled_for),
    CHECK ((run_id IS NULL) = (skip_reason IS NOT NULL))
)
"""

SEEN = """
CREATE TABLE discover_seen (
    schedule_id TEXT NOT NULL REFERENCES discover_schedules (id) ON DELETE CASCADE,
    row_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (schedule_id, row_id)
)
"""

INDEXES = (
    "CREATE UNIQUE INDEX discover_rows_by_key ON discover_rows (run_id, key) WHERE is_gone = 0",
    "CREATE INDEX discover_rows_by_version ON discover_rows (run_id, version)",
    "CREATE INDEX discover_legs_failed ON discover_legs (run_id, number) WHERE status = 'failed'",
    "CREATE INDEX discover_schedules_due ON discover_schedules (next_slot_at, id) WHERE status = 'active'",
    "CREATE INDEX discover_schedules_of_account ON discover_schedules (account_id, created_at, id)",
    "CREATE INDEX discover_occurrences_old ON discover_occurrences (at)",
)

TABLES: Final = (RUNS, LEGS, ROWS, SCHEDULES, OCCURRENCES, SEEN, *INDEXES)
