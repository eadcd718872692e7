"""The tables of monitors, their webhooks, runs and deliveries, and of jobs and cohorts."""

from __future__ import annotations

from scheduler.jobs.discover.tables import TABLES as DISCOVER
from scheduler.jobs.tables import (
    COHORT_INDEXES,
    COHORT_KEYS,
    COHORT_MEMBERS,
    COHORT_QUERIES,
    COHORT_RESULTS,
    COHORTS,
    JOB_INDEXES,
    JOB_STEPS,
    JOBS,
)
from scheduler.sessions.session_rows import SESSION_INDEXES, WEB_SESSIONS
from storage.migrations import MigrationSet, Schema

# `next_slot_at` is NULL if the monitor has no next slot. `version` counts the owner's changes, not the runs.
MONITORS = """
CREATE TABLE monitors (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT,
    name TEXT NOT NULL,
    recipe TEXT NOT NULL,
    params TEXT NOT NULL,
    cadence TEXT NOT NULL,
    track TEXT,
    alert_rules TEXT NOT NULL,
    webhook_format TEXT NOT NULL CHECK (webhook_format IN ('full', 'rows')),
    suppress INTEGER NOT NULL CHECK (suppress IN (0, 1)),
    status TEXT NOT NULL CHECK (status IN ('active', 'paused')),
    next_slot_at DOUBLE PRECISION,
    rule_state TEXT NOT NULL,
    baseline_run_id TEXT,
    runs_total BIGINT NOT NULL CHECK (runs_total >= 0),
    credits_spent BIGINT NOT NULL CHECK (credits_spent >= 0),
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    version BIGINT NOT NULL CHECK (version >= 0),
    CHECK (status = 'active' OR next_slot_at IS NULL),
    CHECK (track IS NOT NULL OR webhook_format = 'full')
)
"""

# The secrets are sealed, and so is the URL of rows with a `host` (0004). Until `previous_until`, deliveries are also
# signed with the previous secret.
WEBHOOKS = """
CREATE TABLE webhooks (
    monitor_id TEXT PRIMARY KEY REFERENCES monitors (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    previous_secret TEXT,
    previous_until DOUBLE PRECISION,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused')),
    failures BIGINT NOT NULL CHECK (failures >= 0),
    last_delivery_at DOUBLE PRECISION,
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
)
"""

# A slot is run at most once: only the attempt whose number and node are still stored here can end the run.
RUNS = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    monitor_id TEXT NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL,
    scheduled_for DOUBLE PRECISION NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'ok', 'partial', 'failed', 'skipped')),
    start_at DOUBLE PRECISION NOT NULL,
    attempt BIGINT NOT NULL CHECK (attempt >= 0),
    node TEXT,
    lease_until DOUBLE PRECISION,
    started_at DOUBLE PRECISION,
    finished_at DOUBLE PRECISION,
    credits_used BIGINT NOT NULL CHECK (credits_used >= 0),
    skip_reason TEXT,
    legs TEXT NOT NULL,
    alerts TEXT NOT NULL,
    warnings TEXT NOT NULL,
    rows_count BIGINT CHECK (rows_count >= 0),
    UNIQUE (monitor_id, scheduled_for),
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('pending', 'running')) = (finished_at IS NULL)),
    CHECK (credits_used = 0 OR status IN ('ok', 'partial')),
    CHECK (status <> 'skipped' OR skip_reason IS NOT NULL)
)
"""

# Compressed JSON. SQLite has no type BYTEA, but stores bytes unchanged in a column of any type.
RUN_DATA = """
CREATE TABLE run_data (
    run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    result BYTEA,
    numbers BYTEA,
    deltas BYTEA
)
"""

DELIVERIES = """
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    monitor_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    host TEXT NOT NULL,
    body BYTEA NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'delivered', 'failed')),
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    next_at DOUBLE PRECISION,
    node TEXT,
    lease_until DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL,
    delivered_at DOUBLE PRECISION,
    failed_at DOUBLE PRECISION,
    last_status BIGINT,
    CHECK ((status = 'queued') = (next_at IS NOT NULL)),
    CHECK ((status = 'delivered') = (delivered_at IS NOT NULL)),
    CHECK ((status = 'failed') = (failed_at IS NOT NULL))
)
"""

# `status` is the receiver's response status, or NULL if it did not respond. In that case, `error` is the reason.
ATTEMPTS = """
CREATE TABLE attempts (
    delivery_id TEXT NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    at DOUBLE PRECISION NOT NULL,
    status BIGINT,
    error TEXT,
    latency_ms BIGINT NOT NULL CHECK (latency_ms >= 0),
    answer TEXT NOT NULL,
    PRIMARY KEY (delivery_id, number)
)
"""

INDEXES = (
    "CREATE INDEX monitors_due ON monitors (next_slot_at, id) WHERE status = 'active'",
    "CREATE INDEX monitors_of_account ON monitors (account_id, created_at, id)",
    "CREATE INDEX runs_pending ON runs (start_at, account_id, id) WHERE status = 'pending'",
    "CREATE INDEX runs_running ON runs (lease_until, account_id, id) WHERE status = 'running'",
    "CREATE INDEX runs_active ON runs (monitor_id) WHERE status IN ('pending', 'running')",
    "CREATE INDEX deliveries_due ON deliveries (next_at, id) WHERE status = 'queued'",
    "CREATE INDEX deliveries_of_run ON deliveries (run_id)",
    "CREATE INDEX deliveries_of_monitor ON deliveries (monitor_id, created_at, id)",
)

REDELIVERIES = (
    "ALTER TABLE deliveries ADD COLUMN redelivered_after BIGINT CHECK (redelivered_after >= 0)",
    "ALTER TABLE deliveries ADD COLUMN fail_reason TEXT",
    # One index lookup finds the first queued delivery for a host and account, however long the queue is.
    "CREATE INDEX deliveries_in_line ON deliveries (host, account_id, next_at, id) WHERE status = 'queued'",
)

# These let retention read rows in time order, so that it reads only the rows that it deletes. `kept_at` is when the run
# ended.
RETENTION = (
    "ALTER TABLE run_data ADD COLUMN kept_at DOUBLE PRECISION",
    "UPDATE run_data SET kept_at = (SELECT finished_at FROM runs WHERE runs.id = run_data.run_id)",
    "CREATE INDEX results_kept ON run_data (kept_at, run_id) WHERE result IS NOT NULL",
    "CREATE INDEX deliveries_ended ON deliveries (created_at, id) WHERE status <> 'queued'",
    "CREATE INDEX runs_ended ON runs (finished_at, id) WHERE finished_at IS NOT NULL",
)


# `types` contains the names as sent, separated by commas. The account's events up to `pos` are in deliveries or were
# not selected.
ACCOUNT_WEBHOOKS = """
CREATE TABLE account_webhooks (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    description TEXT NOT NULL,
    types TEXT NOT NULL,
    pos BIGINT NOT NULL CHECK (pos >= 0),
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
)
"""

# Account webhooks have no monitor, and their deliveries have no run.
OWNED_WEBHOOKS = (
    """
    CREATE TABLE owned_webhooks (
        monitor_id TEXT PRIMARY KEY,
        url TEXT NOT NULL,
        secret TEXT NOT NULL,
        previous_secret TEXT,
        previous_until DOUBLE PRECISION,
        status TEXT NOT NULL CHECK (status IN ('active', 'paused')),
        failures BIGINT NOT NULL CHECK (failures >= 0),
        last_delivery_at DOUBLE PRECISION,
        host TEXT,
        CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
    )
    """,
    """
    INSERT INTO owned_webhooks (monitor_id, url, secret, previous_secret, previous_until, status, failures,
        last_delivery_at, host)
    SELECT monitor_id, url, secret, previous_secret, previous_until, status, failures, last_delivery_at, host
    FROM webhooks
    """,
    "DROP TABLE webhooks",
    "ALTER TABLE owned_webhooks RENAME TO webhooks",
    "ALTER TABLE deliveries ADD COLUMN of_run TEXT REFERENCES runs (id) ON DELETE CASCADE",
    "UPDATE deliveries SET of_run = run_id",
    "DROP INDEX deliveries_of_run",
    "ALTER TABLE deliveries DROP COLUMN run_id",
    "ALTER TABLE deliveries RENAME COLUMN of_run TO run_id",
    "CREATE INDEX deliveries_of_run ON deliveries (run_id)",
    "CREATE INDEX batches_queued ON deliveries (monitor_id) WHERE status = 'queued' AND run_id IS NULL",
    "CREATE INDEX account_webhooks_of ON account_webhooks (account_id, created_at, id)",
)


def m0001_monitors(schema: Schema) -> None:
    """Create monitors and the tables that depend on them. Each table comes after the tables that it references."""
    for statement in (MONITORS, WEBHOOKS, RUNS, RUN_DATA, DELIVERIES, ATTEMPTS, *INDEXES):
        schema.execute(statement)


def m0002_redeliveries(schema: Schema) -> None:
    """Add redelivery counts, failure reasons, and an index of queued deliveries by host and account."""
    for statement in REDELIVERIES:
        schema.execute(statement)


def m0003_retention(schema: Schema) -> None:
    """Add indexes that find old results, deliveries and runs."""
    for statement in RETENTION:
        schema.execute(statement)


def m0004_sealed_urls(schema: Schema) -> None:
    """Add a column for the host in clear text.

    It is NULL until the URL is sealed (`scheduler.webhooks.targets.urls`).
    """
    schema.execute("ALTER TABLE webhooks ADD COLUMN host TEXT")


def m0005_jobs(schema: Schema) -> None:
    """Create jobs and their steps."""
    for statement in (JOBS, JOB_STEPS, *JOB_INDEXES):
        schema.execute(statement)


def m0006_reservations(schema: Schema) -> None:
    """Add columns for the credits of a job's closed reservations. A resumed job can have several reservations."""
    for column in ("closed_credits", "returned_credits"):
        schema.execute(f"ALTER TABLE jobs ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0 CHECK ({column} >= 0)")


def m0007_cohorts(schema: Schema) -> None:
    """Create cohorts, their keys, members, queries and results."""
    for statement in (COHORTS, COHORT_KEYS, COHORT_MEMBERS, COHORT_QUERIES, COHORT_RESULTS, *COHORT_INDEXES):
        schema.execute(statement)


def m0008_watches(schema: Schema) -> None:
    """Add columns for web watches (JSON), and for the time until which a check is kept (NULL for other runs)."""
    schema.execute("ALTER TABLE monitors ADD COLUMN web TEXT")
    schema.execute("ALTER TABLE runs ADD COLUMN keep_until DOUBLE PRECISION")
    schema.execute("CREATE INDEX runs_expiring ON runs (keep_until, id) WHERE keep_until IS NOT NULL")


def m0009_discover(schema: Schema) -> None:
    """Create discover runs and schedules."""
    for statement in DISCOVER:
        schema.execute(statement)


def m0010_web_sessions(schema: Schema) -> None:
    """Create web sessions."""
    for statement in (WEB_SESSIONS, *SESSION_INDEXES):
        schema.execute(statement)


def m0011_account_webhooks(schema: Schema) -> None:
    """Create account webhooks, and remove the references from webhooks to monitors. This copies every delivery."""
    for statement in (ACCOUNT_WEBHOOKS, *OWNED_WEBHOOKS):
        schema.execute(statement)


def m0012_failure_credits(schema: Schema) -> None:
    """Add a column for the credits of failed runs whose page was too costly, because their `credits_used` must be 0."""
    schema.execute("ALTER TABLE runs ADD COLUMN failure_credits BIGINT NOT NULL DEFAULT 0 CHECK (failure_credits >= 0)")


def m0013_discover_rests(schema: Schema) -> None:
    """Add a column for the rows of a discover leg's last page that wait for the leg's next turn."""
    schema.execute("ALTER TABLE discover_legs ADD COLUMN rest BYTEA")


MIGRATIONS = MigrationSet(
    "scheduler",
    (
        m0001_monitors,
        m0002_redeliveries,
        m0003_retention,
        m0004_sealed_urls,
        m0005_jobs,
        m0006_reservations,
        m0007_cohorts,
        m0008_watches,
        m0009_discover,
        m0010_web_sessions,
        m0011_account_webhooks,
        m0012_failure_credits,
        m0013_discover_rests,
    ),
)
"""The scheduler's migrations, which `open_store` runs after billing's."""
