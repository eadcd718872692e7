"""The table of open charges. Each row has the columns of its later journal row, and its only index is by id.

There are only as many open charges as calls and jobs in progress, so all other queries scan the whole table. Every call
inserts and deletes a row. Further indexes, references or texts would make that more expensive.
"""

from typing import Final

from billing.journal import identify
from storage.migrations import Schema

CHARGES: Final = """
CREATE TABLE charges (
    id BYTEA NOT NULL PRIMARY KEY,
    kind SMALLINT NOT NULL DEFAULT 0,
    account INTEGER NOT NULL,
    key INTEGER,
    endpoint INTEGER NOT NULL,
    credits BIGINT NOT NULL CHECK (credits >= 0),
    balance_after BIGINT NOT NULL CHECK (balance_after >= 0),
    place BIGINT NOT NULL,
    taken_at BIGINT NOT NULL,
    issued BIGINT NOT NULL DEFAULT 0 CHECK (issued >= 0),
    issued_place BIGINT,
    counted BIGINT NOT NULL DEFAULT 1 CHECK (counted IN (0, 1)),
    node INTEGER NOT NULL
) {clustered}
"""
NODES: Final = "CREATE TABLE charging_nodes (id {serial}, name TEXT NOT NULL UNIQUE)"
FILL_NODES: Final = "INSERT INTO charging_nodes (name) SELECT DISTINCT node FROM charges_before"
READ_BEFORE: Final = """
SELECT request_id, accounts.number, keys.number, endpoint, credits, balance_after, old.place, taken_at, issued,
       issued_place, counted, charging_nodes.id
FROM charges_before AS old JOIN accounts ON accounts.id = old.account_id
JOIN charging_nodes ON charging_nodes.name = old.node LEFT JOIN keys ON keys.id = old.key_id
"""
ADD: Final = """
INSERT INTO charges (kind, id, account, key, endpoint, credits, balance_after, place, taken_at, issued, issued_place,
                     counted, node)
VALUES {rows}
"""


def m0012_small_charges(schema: Schema) -> None:
    """Store open charges with numbers instead of texts.

    Also rewrite the journal's check of kinds, because for the old form SQLite builds a temporary table for each row.
    """
    schema.execute("ALTER TABLE charges RENAME TO charges_before")
    for statement in (CHARGES, NODES, FILL_NODES):
        schema.execute(statement)
    tx = schema.tx
    tx.run_many(ADD, [(*identify(row[0]), *row[1:]) for row in tx.all(READ_BEFORE)])
    schema.execute("DROP TABLE charges_before")
    schema.reword("journal", "kind IN (0, 1, 2)", "kind BETWEEN 0 AND 2")
