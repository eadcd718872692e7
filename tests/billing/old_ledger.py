"""A store of the last version before the journal: entries in three rows per charge, and open charges."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from billing.journal import micros
from billing.ledger.transactions import Transaction
from billing.migrations import MIGRATIONS
from storage.migrations import MigrationSet
from storage.store import Tx, Value
from tests.billing.desk import EPOCH

BEFORE: Final = MigrationSet(MIGRATIONS.name, MIGRATIONS.migrations[:4])
ADD_ACCOUNTS = """
INSERT INTO accounts (id, name, plan, unlimited, balance, held, created_at, version, pack) VALUES {rows}
"""
ADD_KEYS = """
INSERT INTO keys (id, account_id, name, hash, sealed, last4, credit_limit, used, created_at) VALUES {rows}
"""
ADD_ENTRIES = """
INSERT INTO ledger_entries (account_id, kind, debit, credit, amount, balance_after, request_id, key_id, platform,
                            endpoint, description, created_at) VALUES {rows}
"""
ADD_CHARGES = """
INSERT INTO charges (request_id, account_id, key_id, credits, node, platform, endpoint, taken_at) VALUES {rows}
"""
BOOKS: Final = {
    "purchase": ("issued", "available"),
    "bonus": ("issued", "available"),
    "deduction": ("available", "held"),
    "settlement": ("held", "spent"),
    "refund": ("held", "available"),
}


@dataclass
class OldAccount:
    """An account with its key. `spent` counts the settled credits."""

    id: str
    key: str
    unlimited: bool
    created_at: float
    balance: int = 0
    held: int = 0
    spent: int = 0
    open: dict[str, int] = field(default_factory=dict)


class OldLedger:
    """Collects accounts, their entries and their open charges until `fill` writes them. Entries are numbered from 1."""

    def __init__(self, now: float = EPOCH) -> None:
        self.accounts: list[OldAccount] = []
        self.entries: list[tuple[Value, ...]] = []
        self.now = now

    def account(self, credits: int, *, unlimited: bool = False) -> OldAccount:  # noqa: A002 - the spec's noun
        """Add an account with a key."""
        number = len(self.accounts)
        account = OldAccount(f"acc_{number}", f"key_{number}", unlimited, self.now)
        self.accounts.append(account)
        self.grant(account, credits, "bonus", "Welcome credits")
        return account

    def grant(self, account: OldAccount, amount: int, kind: str = "purchase", description: str = "Credit pack") -> None:
        """Add a purchase of credits."""
        account.balance += amount
        self._enter(account, kind, amount, None, description)

    def take(self, account: OldAccount, request_id: str, price: int) -> None:
        """Open a charge. An unlimited account is issued the missing credits."""
        if account.balance < price:
            assert account.unlimited
            missing, account.balance = price - account.balance, price
            self._enter(account, "bonus", missing, request_id, "Unlimited plan")
        account.balance -= price
        account.held += price
        account.open[request_id] = price
        self._enter(account, "deduction", price, request_id, "repository")

    def close(self, account: OldAccount, request_id: str, used: int) -> None:
        """Close a charge."""
        price = account.open.pop(request_id)
        account.held -= price
        account.spent += used
        if used or not price:
            self._enter(account, "settlement", used, request_id, "Settlement")
        if used < price:
            account.balance += price - used
            self._enter(account, "refund", price - used, request_id, "Refund" if used else "Upstream failed")

    def play(self, rng: Random, steps: int) -> None:
        """Add a random history of short calls and of monitor runs."""
        running: list[tuple[OldAccount, str]] = []
        for _ in range(steps):
            self.now += rng.expovariate(3)
            account = rng.choice(self.accounts)
            dice, price = rng.random(), rng.choice((0, 1, 1, 5, 10))
            if running and dice < 0.48:
                owner, request_id = running.pop(rng.randrange(len(running)))
                most = owner.open[request_id]
                self.close(owner, request_id, rng.choice((most, most, most, rng.randint(0, most), 0)))
            elif account.balance < price and not account.unlimited:
                self.grant(account, rng.randint(1, 500))
            else:
                request_id = rng.choice(("req_", "req_", "run_")) + f"{self._hex(rng)}"
                if request_id.startswith("run_") and dice > 0.8:
                    request_id += f".{rng.randint(2, 300)}"
                self.take(account, request_id, price)
                running.append((account, request_id))

    def fill(self, tx: Tx) -> None:
        """Write all of it into a store of the previous version."""
        tx.run_many(
            ADD_ACCOUNTS,
            [(a.id, "A", "free", int(a.unlimited), a.balance, a.held, a.created_at, 7, 0) for a in self.accounts],
        )
        tx.run_many(
            ADD_KEYS,
            [(a.key, a.id, "", a.key, "sealed", "last", None, a.spent + a.held, a.created_at) for a in self.accounts],
        )
        tx.run_many(ADD_ENTRIES, self.entries)
        for a in self.accounts:
            rows = [
                (id_, a.id, a.key, price, "node-0", "github", "repository", a.created_at)
                for id_, price in a.open.items()
            ]
            if rows:
                tx.run_many(ADD_CHARGES, rows)

    def lines(self, account: OldAccount) -> list[Transaction]:
        """Return the account's statement as that version showed it, newest first."""
        found = []
        for number, entry in enumerate(self.entries, 1):
            owner, kind, _debit, _credit, amount, after, request_id, key, platform, endpoint, text, at = entry
            if owner == account.id and kind != "settlement":
                told = micros(float(at or 0)) / 1e6
                moved = -int(amount or 0) if kind == "deduction" else amount
                found.append(
                    Transaction(number, kind, moved, after, text, endpoint, platform, request_id, key, told)  # type: ignore[arg-type] # rows
                )
        return found[::-1]

    def _enter(self, account: OldAccount, kind: str, amount: int, request_id: str | None, description: str) -> None:
        call = (account.key, "github", "repository") if kind not in ("bonus", "purchase") else (None, None, None)
        moved = (account.id, kind, *BOOKS[kind], amount, account.balance)
        self.entries.append((*moved, request_id, *call, description, self.now))

    def _hex(self, rng: Random) -> str:
        number = int(self.now * 1000) << 80 | 7 << 76 | 2 << 62 | rng.getrandbits(60)
        return number.to_bytes(16, "big").hex()
