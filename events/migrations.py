"""The tables of the feeds, their events and the named consumers."""

from storage.migrations import MigrationSet, Schema

# If no events are kept, `first_pos` is the position of the next event.
FEEDS = """
CREATE TABLE feeds (
    account_id TEXT PRIMARY KEY,
    last_pos BIGINT NOT NULL CHECK (last_pos >= 0),
    last_at DOUBLE PRECISION NOT NULL,
    first_pos BIGINT NOT NULL CHECK (first_pos BETWEEN 1 AND last_pos + 1),
    first_at DOUBLE PRECISION NOT NULL,
    purged_pos BIGINT NOT NULL CHECK (purged_pos BETWEEN 0 AND first_pos - 1)
)
"""

EVENTS = """
CREATE TABLE events (
    account_id TEXT NOT NULL,
    pos BIGINT NOT NULL CHECK (pos >= 1),
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    key_id TEXT,
    subject_id TEXT NOT NULL,
    parent_id TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (account_id, pos)
)
"""

# No event after `committed_pos` up to `quiet_pos` matches the consumer's filters. `counted` is the number of matching
# events after `committed_pos` up to `counted_pos`.
CONSUMERS = """
CREATE TABLE consumers (
    id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,
    account_id TEXT NOT NULL,
    types TEXT,
    subjects TEXT,
    committed_pos BIGINT NOT NULL CHECK (committed_pos >= 0),
    committed_at DOUBLE PRECISION NOT NULL,
    served_pos BIGINT NOT NULL CHECK (served_pos >= committed_pos),
    served_at DOUBLE PRECISION NOT NULL,
    quiet_pos BIGINT NOT NULL CHECK (quiet_pos >= committed_pos),
    counted_pos BIGINT NOT NULL CHECK (counted_pos >= committed_pos),
    counted BIGINT NOT NULL CHECK (counted BETWEEN 0 AND counted_pos - committed_pos),
    created_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    lapse_told INTEGER NOT NULL CHECK (lapse_told IN (0, 1)),
    UNIQUE (key_id, name)
)
"""


# Covers all columns that filters use. Reads that match nothing take half the time and read a fifth of the bytes, at the
# cost of 18 % more bytes per event.
EVENTS_IN_ORDER = "CREATE INDEX events_in_order ON events (account_id, pos, key_id, type, subject_id, parent_id)"


def m0001_events(schema: Schema) -> None:
    """Create feeds, events and consumers."""
    for statement in (FEEDS, EVENTS, EVENTS_IN_ORDER, CONSUMERS):
        schema.execute(statement)


MIGRATIONS = MigrationSet("events", (m0001_events,))
"""Pass this to `open_store`."""
