"""The rows that charges left, for the next ones: where nothing else was written since, they need not be read."""

from collections.abc import Sequence
from typing import Final

from billing.charges.batch_rows import Decision
from storage.store import Row, Tx

ROWS_MAX: Final = 4096
"""Of each kind; where there would be more, they are read anew."""
ENDLESS: Final = b"\x10"
"""Above all ids that begin with the time."""


class KnownRows:
    """Accounts and keys as they stand, and the latest id; a new one knows nothing."""

    __slots__ = ("accounts", "keys", "latest")

    def __init__(self) -> None:
        self.accounts: dict[str, Row] = {}
        self.keys: dict[str, Row] = {}
        self.latest = ENDLESS
        """No id between this and `ENDLESS` was charged."""

    def learn(self, decision: Decision) -> None:
        """The rows are as a decision that was written leaves them."""
        for id_, one in decision.accounts.items():
            amounts = (one.balance, one.held, one.unlimited, one.version + 1, one.pack)
            self.accounts[id_] = (id_, *amounts, one.number, one.place, one.state)
        for id_, key in decision.keys.items():
            until = (key.expires_at, key.revoked_at)
            self.keys[id_] = (id_, key.account_id, key.credit_limit, key.used, *until, key.number)


def rows_of(tx: Tx, sql: str, ids: Sequence[str], known: dict[str, Row] | None) -> Sequence[Row]:
    """The rows of `ids`, in their order: those that are `known`, and what `sql` reads, whose first column is the id."""
    if known is None:
        return tx.all_in(sql, ids)
    missing = [id_ for id_ in ids if id_ not in known]
    if missing and len(known) + len(missing) > ROWS_MAX:
        known.clear()
        missing = list(ids)
    known.update((row[0], row) for row in tx.all_in(sql, missing))
    return [known[id_] for id_ in ids if id_ in known]
