"""A model of accounts, keys, charges and claims in plain Python: the reference for `test_money_machine`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from billing.charges.batch_rows import ChargeRequest, CloseRequest
from billing.charges.decisions import spare_credits
from billing.errors import InsufficientCredits, KeyBudgetReached, KeyUnusable
from gateway.calls.idempotency import Begin, ClaimEnd
from limits.errors import ClaimConflict, ClaimInProgress, ClaimMismatch, ReplayUnavailable
from limits.idempotency import StoredReply

RUNS_S = 300.0
KEPT_S = 86_400.0
TEXT_BYTES_MAX = 65_536
LATE_S = 300.0
"""A claim may be up to this many seconds newer than the stored time of its text."""

Step = Begin | ClaimEnd | ChargeRequest | CloseRequest
Taken = tuple[int, int]
"""The credits that a charge reserved, and the balance after it."""
Expected = type[Exception] | Taken | StoredReply | None
"""The expected result of a step. A close also returns a pair: the cost of the charge, and the balance after it."""


@dataclass
class Account:
    balance: int
    unlimited: bool


@dataclass
class Key:
    account: str
    limit: int | None
    used: int = 0
    revoked: bool = False
    resets: int = 0


@dataclass(frozen=True)
class Open:
    account: str
    key: str | None
    credits: int
    resets: int = 0
    """How many times the key's counter had been reset when the charge was taken."""


@dataclass(frozen=True)
class ClaimRow:
    """A claim. `asked` is the request's fingerprint, `place` its method and path. A claim without `kept` still runs."""

    account: str
    place: str
    asked: str
    owner: str
    at: float
    kept: StoredReply | None = None
    free: bool = False

    def is_gone(self, now: float) -> bool:
        return now >= self.at + (RUNS_S if self.kept is None else KEPT_S)


@dataclass
class Money:
    """Everything that the store should contain."""

    accounts: dict[str, Account] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    cost: dict[str, int] = field(default_factory=dict)
    """The cost of each closed charge."""
    claims: dict[str, ClaimRow] = field(default_factory=dict)
    replies: dict[tuple[str, str], float] = field(default_factory=dict)
    """The stored texts of each account, with the time since when no claim may refer to them."""

    def held(self, account: str) -> int:
        return sum(one.credits for one in self.open.values() if one.account == account)

    def commit(self, steps: Sequence[Step], now: float) -> list[Expected]:
        """Apply steps that share a commit, and return the expected results.

        Adjacent claimed steps are judged together: all claims first, then all the money.
        """
        expected: list[Expected] = []
        for is_claimed, group in groupby(steps, lambda step: isinstance(step, Begin | ClaimEnd)):
            if is_claimed:
                expected += self._claimed([step for step in group if isinstance(step, Begin | ClaimEnd)], now)
            else:
                expected += [self._move(step) for step in group if isinstance(step, ChargeRequest | CloseRequest)]
        return expected

    def crash(self) -> None:
        """Kill the process: its running calls are refunded, and none runs any more."""
        for request_id in list(self.open):
            self._close(request_id, 0)
        self.claims = {id_: claim for id_, claim in self.claims.items() if claim.kept is not None}

    def _claimed(self, steps: Sequence[Begin | ClaimEnd], now: float) -> list[Expected]:
        judged: list[tuple[Begin | ClaimEnd, Expected, ChargeRequest | CloseRequest | None]] = [
            (step, *(self._begin(step, now) if isinstance(step, Begin) else self._end(step, now))) for step in steps
        ]
        expected: list[Expected] = []
        for step, verdict, move in judged:
            outcome = verdict if move is None else self._move(move)
            if isinstance(step, Begin) and move is not None and isinstance(outcome, type):
                del self.claims[step.claim.id]  # a claim without a charge is removed
            expected.append(outcome)
        return expected

    def _begin(self, step: Begin, now: float) -> tuple[Expected, ChargeRequest | None]:
        claim, found = step.claim, self.claims.get(step.claim.id)
        if found is None or found.is_gone(now):
            kept = None if step.reply is None else self._keep(claim.account_id, step.reply, now)
            row = ClaimRow(claim.account_id, claim.place, claim.fingerprint, claim.owner, now, kept, kept is not None)
            self.claims[claim.id] = row
            return None, step.charge
        if found.asked != claim.fingerprint:
            elsewhere = found.kept is None and found.place != claim.place
            return (ClaimConflict if elsewhere else ClaimMismatch), None
        if found.kept is None:
            return ClaimInProgress, None
        kept = self.as_found(found).kept
        assert kept is not None
        return (ReplayUnavailable if kept.text is None else kept), None

    def _end(self, step: ClaimEnd, now: float) -> tuple[Expected, CloseRequest]:
        found = self.claims.get(step.claim.id)
        if found is None or found.owner != step.claim.owner or found.kept is not None:
            return None, step.close._replace(used=0)
        if step.reply is None:
            del self.claims[step.claim.id]
        else:
            kept = self._keep(found.account, step.reply, now)
            self.claims[step.claim.id] = replace(found, kept=kept, at=now, free=step.close.used == 0)
        return None, step.close

    def as_found(self, row: ClaimRow) -> ClaimRow:
        """Return the claim with its text, or without it if the account has stored too much since."""
        if row.kept is None or (row.account, row.kept.text) in self.replies:
            return row
        return replace(row, kept=replace(row.kept, text=None))

    def forget_old(self, now: float) -> None:
        """Remove claims after a day, and texts after the last claim that may refer to them."""
        self.claims = {id_: one for id_, one in self.claims.items() if one.at >= now - KEPT_S}
        self.replies = {name: at for name, at in self.replies.items() if at >= now - KEPT_S - LATE_S}

    def _keep(self, account: str, kept: StoredReply, now: float) -> StoredReply:
        """Return the stored form of an outcome. A text is stored once per account, and not if it is too long."""
        if kept.text is None or len(kept.text) > TEXT_BYTES_MAX:
            return replace(kept, text=None)
        name = (account, kept.text)
        if self.replies.get(name, 0.0) < now - LATE_S:
            self.replies[name] = now
        return kept

    def _move(self, move: ChargeRequest | CloseRequest) -> type[Exception] | Taken:
        if isinstance(move, ChargeRequest):
            return self._take(move)
        return self._close(move.request_id, move.used), self.accounts[move.account_id].balance

    def _take(self, request: ChargeRequest) -> type[Exception] | Taken:
        account = self.accounts[request.account_id]
        key = None if request.key_id is None else self.keys[request.key_id]
        if key is not None and key.revoked:
            return KeyUnusable
        wanted = self._within_means(request, account, key)
        if wanted > account.balance and not account.unlimited:
            return InsufficientCredits
        if key is not None and key.limit is not None and wanted > max(0, key.limit - key.used):
            return KeyBudgetReached
        account.balance = max(0, account.balance - wanted)
        if key is not None:
            key.used += wanted
        resets = 0 if key is None else key.resets
        self.open[request.request_id] = Open(request.account_id, request.key_id, wanted, resets)
        return wanted, account.balance

    def _within_means(self, request: ChargeRequest, account: Account, key: Key | None) -> int:
        if request.credits_least is None:
            return request.credits
        least = request.credits_least
        optional = [request.credits - least]
        if not account.unlimited:
            optional.append(spare_credits(account.balance - least))
        if key is not None and key.limit is not None:
            optional.append(spare_credits(key.limit - key.used - least))
        return least + min(optional)

    def _close(self, request_id: str, used: int) -> int:
        """Close the charge and return its cost. The first close decides the cost."""
        charge = self.open.pop(request_id, None)
        if charge is not None:
            self.cost[request_id] = used
            self.accounts[charge.account].balance += charge.credits - used
            if charge.key is not None and (key := self.keys[charge.key]).resets == charge.resets:
                key.used -= charge.credits - used
        return self.cost[request_id]
