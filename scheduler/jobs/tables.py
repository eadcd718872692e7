"""The tables of jobs and cohorts, as migrations create them. They never change after a release."""

from __future__ import annotations

# Until a job ends, its credits are one charge, under `request_id`, and its steps use parts of that charge. Waves above
# `waves` are not fully planned yet.
JOBS = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT,
    request_id TEXT NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('queued', 'running', 'paused', 'completed', 'partial', 'failed', 'cancelled')),
    stopped_because TEXT,
    held_credits BIGINT NOT NULL CHECK (held_credits >= 0),
    used_credits BIGINT NOT NULL CHECK (used_credits BETWEEN 0 AND held_credits),
    waves BIGINT NOT NULL CHECK (waves >= 1),
    planned BIGINT NOT NULL CHECK (planned >= 1),
    done BIGINT NOT NULL CHECK (done >= 0),
    empty BIGINT NOT NULL CHECK (empty >= 0),
    failed BIGINT NOT NULL CHECK (failed >= 0),
    attempt BIGINT NOT NULL CHECK (attempt >= 0),
    node TEXT,
    lease_until DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    finished_at DOUBLE PRECISION,
    CHECK (done + empty + failed <= planned),
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('queued', 'running', 'paused')) = (finished_at IS NULL))
)
"""

# `result` and `found` are compressed JSON.
JOB_STEPS = """
CREATE TABLE job_steps (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    wave BIGINT NOT NULL CHECK (wave >= 1),
    name TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'done', 'empty', 'failed')),
    credits_used BIGINT NOT NULL DEFAULT 0 CHECK (credits_used >= 0),
    error TEXT,
    result BYTEA,
    found BYTEA,
    ended_at DOUBLE PRECISION,
    PRIMARY KEY (job_id, number),
    UNIQUE (job_id, name),
    CHECK ((status = 'planned') = (ended_at IS NULL)),
    CHECK (status = 'done' OR (credits_used = 0 AND result IS NULL))
)
"""

JOB_INDEXES = (
    "CREATE INDEX jobs_queued ON jobs (created_at, id) WHERE status = 'queued'",
    "CREATE INDEX jobs_running ON jobs (lease_until) WHERE status = 'running'",
    "CREATE INDEX jobs_of_account ON jobs (account_id, created_at, id)",
    "CREATE INDEX jobs_ended ON jobs (finished_at, id) WHERE finished_at IS NOT NULL",
    "CREATE INDEX job_steps_planned ON job_steps (job_id, number) WHERE status = 'planned'",
)

# The row of a destroyed cohort, which contains no readable data, is kept until its key has been scrubbed from the
# files. `name` is sealed.
COHORTS = """
CREATE TABLE cohorts (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    name BYTEA,
    retention_days BIGINT NOT NULL CHECK (retention_days BETWEEN 7 AND 90),
    member_count BIGINT NOT NULL CHECK (member_count BETWEEN 0 AND 10000),
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    destroyed_at DOUBLE PRECISION,
    CHECK (destroyed_at IS NULL OR name IS NULL)
)
"""

# All stored keys have the same length, so that a key can be overwritten in place (`scheduler.jobs.cohorts.sealing`).
COHORT_KEYS = """
CREATE TABLE cohort_keys (
    cohort_id TEXT PRIMARY KEY REFERENCES cohorts (id),
    kept BYTEA NOT NULL CHECK (length(kept) = 4200)
)
"""

# `identity` and `external` are digests keyed with the cohort's key, so they differ between cohorts.
COHORT_MEMBERS = """
CREATE TABLE cohort_members (
    cohort_id TEXT NOT NULL REFERENCES cohorts (id),
    number BIGINT NOT NULL CHECK (number >= 1),
    id TEXT NOT NULL,
    platform TEXT NOT NULL,
    identity BYTEA NOT NULL UNIQUE,
    external BYTEA,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (cohort_id, number)
)
"""

# The fields of a query that are not in its job.
COHORT_QUERIES = """
CREATE TABLE cohort_queries (
    id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    cohort_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    max_credits BIGINT NOT NULL,
    members BIGINT NOT NULL,
    routes BIGINT NOT NULL,
    members_completed BIGINT NOT NULL DEFAULT 0 CHECK (members_completed <= members),
    routes_completed BIGINT NOT NULL DEFAULT 0 CHECK (routes_completed <= routes),
    pages_succeeded BIGINT NOT NULL DEFAULT 0,
    pages_failed BIGINT NOT NULL DEFAULT 0,
    matches BIGINT NOT NULL DEFAULT 0,
    gone TEXT CHECK (gone IN ('deleted', 'expired')),
    gone_at DOUBLE PRECISION,
    CHECK ((gone IS NULL) = (gone_at IS NULL))
)
"""

COHORT_RESULTS = """
CREATE TABLE cohort_results (
    query_id TEXT NOT NULL REFERENCES cohort_queries (id) ON DELETE CASCADE,
    number BIGINT NOT NULL CHECK (number >= 1),
    sealed BYTEA NOT NULL,
    PRIMARY KEY (query_id, number)
)
"""

COHORT_INDEXES = (
    "CREATE INDEX cohorts_of_account ON cohorts (account_id) WHERE destroyed_at IS NULL",
    "CREATE INDEX cohorts_expiring ON cohorts (expires_at) WHERE destroyed_at IS NULL",
    "CREATE INDEX cohorts_destroyed ON cohorts (destroyed_at) WHERE destroyed_at IS NOT NULL",
    "CREATE INDEX cohort_queries_of ON cohort_queries (cohort_id) WHERE gone IS NULL",
    "CREATE INDEX cohort_queries_gone ON cohort_queries (gone_at) WHERE gone IS NOT NULL",
)
