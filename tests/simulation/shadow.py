"""A second ledger that is computed only from the ledger's entries, and compared with the database after each commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

import trio

from tests.fakes.entries import EntryRow
from tests.fakes.inline_calls import InlineCalls
from tests.simulation.database import KeyRow, Rows, read_rows
from tests.simulation.trace import Trace

NEVER_NEGATIVE = "a balance is never negative"
BALANCE = "the balance is the sum of the entries"
HELD = "what is held is the sum of the open charges"
COUNTER = "a key's counter is the net of its entries"
BUDGET = "a key is not charged beyond its limit"
REVOKED = "a revoked key is not charged"
ONCE = "a request is charged and closed at most once"
WHOLE = "a charge is closed for what was taken"
ONE_OUTCOME = "an idempotency key has one finished outcome"
CRASHED = "Refund after a crash"
"""The description that recovery uses for refunds."""


@dataclass(slots=True)
class Money:
    """The sums of the ledger's entries for one request."""

    taken: int = 0
    kept: int = 0
    refunded: int = 0
    moves: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    is_recovered: bool = False
    closed_at: float = 0.0

    @property
    def net(self) -> int:
        """Return the credits that the request has cost so far."""
        return self.taken - self.refunded


class Shadow:
    """The state derived from the ledger. `balances` has each account's balances in the order of commits."""

    def __init__(self, database: InlineCalls, trace: Trace) -> None:
        self._database = database
        self._trace = trace
        self._seen: set[EntryRow] = set()
        self._last_counter = 0
        self.requests: dict[str, Money] = defaultdict(Money)
        self.balances: dict[str, list[int]] = defaultdict(lambda: [0])
        self._available: dict[str, int] = defaultdict(int)
        self.told: dict[str, int] = {}
        """The position in `balances` of the latest balance of each account that a node must know."""
        self._counters: dict[str, list[EntryRow]] = defaultdict(list)
        self._used: dict[str, int] = defaultdict(int)
        self._keys: dict[str, KeyRow] = {}
        self._taken: dict[str, tuple[str | None, int]] = {}
        self._closed: dict[str, int] = {}
        self._uncounted: set[str] = set()
        """The requests that were open when their key's counter was reset. Their refunds do not change the counter."""
        self._running: dict[str, str] = {}
        self._finished: dict[str, tuple[str, int | None, str | None]] = {}
        self.rows = Rows([], [], {}, {}, {}, {})

    def tell(self) -> None:
        """Record that the callers waiting for the last commit were notified."""
        self.told = {account: len(balances) - 1 for account, balances in self.balances.items()}

    def look(self) -> None:
        """Read and check the database after a commit."""
        rows = self.rows = self._database.look(partial(read_rows, seen=self._seen, after_counter=self._last_counter))
        for entry in rows.entries:
            self._seen.add(entry)
            why = " recovered" if entry.description == CRASHED else ""
            self._trace.note(f"{entry.kind} {entry.amount} of {entry.request_id}, {entry.balance_after} left{why}")
            self._enter(entry)
        for account, (balance, held) in rows.accounts.items():
            due, last = self._available[account], self.balances[account][-1]
            self._trace.hold(balance == due == last, BALANCE, f"{account} has {balance}, {last}; due {due}")
            opened = sum(taken for owner, taken in rows.charges.values() if owner == account)
            self._trace.hold(held == opened, HELD, f"{account} holds {held}, open are {opened}")
        self._count(rows)
        self._check_open(rows)
        self._check_claims(rows)
        self._keys = rows.keys

    def _enter(self, entry: EntryRow) -> None:
        moves = {"purchase": 1, "bonus": 1, "refund": 1, "deduction": -1, "settlement": 0}
        self._available[entry.account] += moves[entry.kind] * entry.amount
        self.balances[entry.account].append(entry.balance_after)
        self._trace.hold(entry.balance_after >= 0, NEVER_NEGATIVE, str(entry))
        if entry.key is not None and entry.kind != "settlement":
            self._counters[entry.key].append(entry)
        if entry.request_id is not None and entry.kind != "bonus":
            if entry.kind == "deduction":
                self._taken[entry.request_id] = (entry.key, entry.id)
            else:
                self._closed.setdefault(entry.request_id, entry.id)
        if entry.request_id is not None:
            self._charge(self.requests[entry.request_id], entry)

    def _charge(self, money: Money, entry: EntryRow) -> None:
        money.moves[entry.kind] += 1
        self._trace.hold(money.moves[entry.kind] == 1, ONCE, f"{entry.request_id} has another {entry.kind}")
        money.closed_at = trio.current_time()
        if entry.kind == "deduction":
            money.taken += entry.amount
        elif entry.kind == "settlement":
            money.kept += entry.amount
        elif entry.kind == "refund":
            money.refunded += entry.amount
            money.is_recovered = entry.description == CRASHED

    def _count(self, rows: Rows) -> None:
        """Follow each key's counter through the entries that changed it. An unexplained fall is an owner's reset."""
        was = dict(self._used)
        resets = set()
        for id_, key, used, until_entry in rows.counters:
            self._last_counter = id_
            moved = [entry for entry in self._counters[key] if entry.id <= until_entry and self._is_counted(entry)]
            self._counters[key] = [entry for entry in self._counters[key] if entry.id > until_entry]
            if not moved and used == 0:
                resets.add(key)
                self._used[key] = 0
                self._uncounted |= self._open_at(key, until_entry)
            for entry in moved:
                self._move(key, entry, rows, judged=key not in resets)
            self._trace.hold(
                used == self._used[key], COUNTER, f"{key} has {used} from {was[key]}, due {self._used[key]}"
            )
        for key, row in rows.keys.items():
            due, left = self._used[key], any(map(self._is_counted, self._counters.pop(key, [])))
            self._trace.hold(row.used == due and not left, COUNTER, f"{key} has {row.used}, due {due}")

    def _is_counted(self, entry: EntryRow) -> bool:
        """Return whether an entry changes the counter.

        A refund does not if its charge was open at a reset of the counter.
        """
        return entry.kind != "refund" or entry.request_id not in self._uncounted

    def _open_at(self, key: str, until_entry: int) -> set[str]:
        """Return the key's requests that were charged up to this entry and not closed by then."""
        return {
            request_id
            for request_id, (owner, taken) in self._taken.items()
            if owner == key and taken <= until_entry < self._closed.get(request_id, until_entry + 1)
        }

    def _move(self, key: str, entry: EntryRow, rows: Rows, *, judged: bool) -> None:
        if entry.kind == "refund":
            self._used[key] -= entry.amount
        if entry.kind != "deduction":
            return
        self._used[key] += entry.amount
        before, now = self._keys[key], rows.keys[key]
        self._trace.hold(before.revoked_at is None, REVOKED, str(entry))
        if judged and before.credit_limit == now.credit_limit is not None and entry.amount:
            self._trace.hold(self._used[key] <= now.credit_limit, BUDGET, f"{key} has used {self._used[key]}: {entry}")

    def _check_open(self, rows: Rows) -> None:
        for entry in rows.entries:
            if entry.request_id is None:
                continue
            money = self.requests[entry.request_id]
            left = money.taken - money.kept - money.refunded
            due = rows.charges[entry.request_id][1] if entry.request_id in rows.charges else 0
            self._trace.hold(left == due, WHOLE, f"{entry.request_id}: {money}, open {due}")

    def _check_claims(self, rows: Rows) -> None:
        """Check that a finished claim does not change. Claims are kept for a day, which is longer than any world."""
        for id_, (owner, status, _) in rows.claims.items():
            before = self._running.get(id_)
            if before is not None and before != owner:
                self._trace.note(f"claim of {before} taken over by {owner}")
            if status is not None and id_ not in self._finished:
                self._trace.note(f"claim finished with {status} by {owner}")
        self._running = {id_: owner for id_, (owner, status, _) in rows.claims.items() if status is None}
        for id_, claim in self._finished.items():
            self._trace.hold(rows.claims.get(id_) == claim, ONE_OUTCOME, f"{claim} became {rows.claims.get(id_)}")
        self._finished = {id_: claim for id_, claim in rows.claims.items() if claim[1] is not None}
