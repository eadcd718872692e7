"""Conservation over ledger, claims and keys together: any order of operations, compared with a plain model.

Method: after each step the ledger is verified, and every balance, counter and claim is compared with the model's.
Claimed and plain steps share commits in any order; commits fail, time passes, processes die.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

import billing.migrations
import limits.idempotency
from billing.charges.batch_rows import Charge, Closed, CloseRequest
from billing.charges.charges import close_request
from billing.charges.recovery import recover
from billing.ledger.verification import verify
from gateway.calls.idempotency import Begin, ClaimEnd, Claims, fingerprint
from limits.idempotency import Claim, StoredReply, forget_old, forget_running
from limits.shares import StoredShare, trim
from limits.stored_replies import forget_old_replies
from storage.errors import StoreUnavailable
from storage.store import Row
from tests.billing.desk import Desk
from tests.fakes.inline_store import open_inline
from tests.gateway.money_model import KEPT_S, RUNS_S, TEXT_BYTES_MAX, Account, ClaimRow, Expected, Key, Money, Step

T = TypeVar("T")
CREDITS = st.integers(0, 12)
PRICES = st.integers(0, 5)
AWAY = StoreUnavailable("the disk is full")
ROWS = """
SELECT claims.id, claims.account_id, place, fingerprint, owner, at, status, body, cached, free
FROM claims LEFT JOIN replies ON replies.id = claims.reply
"""
REPLIES = "SELECT account_id, body, kept_at, bytes FROM replies"


def wait(awaitable: Awaitable[T]) -> T:
    async def main() -> T:
        return await awaitable

    return trio.run(main)


class MoneyMachine(RuleBasedStateMachine):
    keys = Bundle("keys")
    SEVERAL = st.lists(st.lists(keys, min_size=1, max_size=5), min_size=2, max_size=4)
    """The keys of new calls. They are opened in several commits."""

    def __init__(self) -> None:
        super().__init__()
        self.store = open_inline([billing.migrations.MIGRATIONS, limits.idempotency.MIGRATIONS])
        self.model = Money()
        self._take_over(Desk(self.store))

    def _take_over(self, desk: Desk) -> None:
        """Start a process that has no charges and no running calls in memory."""
        self.desk = desk
        self.claims = Claims(self.store, desk.charges, now=desk.now)
        self.running: dict[str, tuple[Charge, Claim | None]] = {}
        self.unfinished: list[Step] = []
        self.ended: dict[str, ClaimEnd] = {}
        """Claimed calls that have finished, with their outcomes."""

    def teardown(self) -> None:
        self.store.close()

    @initialize(target=keys, credits=st.integers(10, 60))
    def open(self, credits: int) -> Any:  # noqa: A002
        account = self._new_account(credits, unlimited=False)
        return multiple(self._new_key(account, None), self._new_key(account, 30))

    @rule(target=keys, credits=CREDITS, unlimited=st.booleans(), limit=st.none() | st.integers(0, 30))
    def add_account(self, credits: int, unlimited: bool, limit: int | None) -> str:  # noqa: A002
        return self._new_key(self._new_account(credits, unlimited=unlimited), limit)

    @rule(key=keys, amount=st.integers(1, 20))
    def grant(self, key: str, amount: int) -> None:
        account = self.model.keys[key].account
        self.model.accounts[account].balance += amount
        assert wait(self.desk.accounts.grant(account, amount)) == self.model.accounts[account].balance

    @rule(key=keys, limit=st.none() | st.integers(0, 30), reset=st.booleans())
    def change_key(self, key: str, limit: int | None, reset: bool) -> None:
        known = self.model.keys[key]
        known.limit = limit
        if reset:
            known.used, known.resets = 0, known.resets + 1
        wait(self.desk.keys.update(key, credit_limit=limit, reset_usage=reset))

    @rule(key=consumes(keys), data=st.data())
    def revoke(self, key: str, data: st.DataObject) -> None:
        """The key's running calls end normally, but it cannot start new ones."""
        self.model.keys[key].revoked = True
        wait(self.desk.keys.revoke(key))
        self._commit([self._opening(key, data, claimed=[True, False])])

    @rule(target=keys, account=st.data())
    def add_key(self, account: st.DataObject) -> Any:
        chosen = account.draw(st.sampled_from(sorted(self.model.accounts)))
        active = sum(1 for key in self.model.keys.values() if key.account == chosen and not key.revoked)
        return multiple() if active == 5 else self._new_key(chosen, None)

    def _new_account(self, credits: int, *, unlimited: bool) -> str:  # noqa: A002
        account = wait(self.desk.accounts.create("A", credits=credits, unlimited=unlimited)).id
        self.model.accounts[account] = Account(credits, unlimited)
        return account

    def _new_key(self, account: str, limit: int | None) -> str:
        key = wait(self.desk.keys.create(account, credit_limit=limit)).id
        self.model.keys[key] = Key(account, limit)
        return key

    @rule(keys=SEVERAL, data=st.data())
    def plain_steps(self, keys: list[list[str]], data: st.DataObject) -> None:
        for some in keys:
            self._commit(self._steps(some, data, claimed=[False]))

    @rule(keys=SEVERAL, data=st.data())
    def claimed_steps(self, keys: list[list[str]], data: st.DataObject) -> None:
        for some in keys:
            self._commit(self._steps(some, data, claimed=[True]))

    @rule(keys=SEVERAL, data=st.data())
    def steps_of_both_kinds(self, keys: list[list[str]], data: st.DataObject) -> None:
        for some in keys:
            self._commit(self._steps(some, data, claimed=[True, False]))

    def _commit(self, steps: list[Step]) -> None:
        outcomes = self.store.mixed([(self._handler(step), step) for step in steps])
        expected = self.model.commit(steps, self.desk.time)
        for step, outcome, right in zip(steps, outcomes, expected, strict=True):
            self._compare(step, outcome, right)

    @rule(keys=st.lists(keys, min_size=1, max_size=4), data=st.data())
    def steps_with_failed_commit(self, keys: list[str], data: st.DataObject) -> None:
        """All callers get the error, and nothing changes."""
        steps = self._steps(keys, data, claimed=[True, False])
        self.store.failing = AWAY
        outcomes = self.store.mixed([(self._handler(step), step) for step in steps])
        self.store.failing = None
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)

    @rule(data=st.data())
    def end_with_failed_commit(self, data: st.DataObject) -> None:
        """The process keeps the failed end in memory and retries it in `finish`, unless it dies first."""
        if not self.running:
            return
        step = self._closing(data.draw(st.sampled_from(sorted(self.running))), data)
        self.store.failing = AWAY
        with pytest.raises(StoreUnavailable):
            wait(self._close_alone(step))
        self.store.failing = None
        self.unfinished.append(step)
        del self.running[step.close.request_id if isinstance(step, ClaimEnd) else step.request_id]

    @rule()
    def finish(self) -> None:
        assert wait(self.desk.charges.finish()) == len(self.unfinished)
        for step in self.unfinished:
            self.model.commit([step], self.desk.time)
        self.unfinished.clear()
        assert self.desk.charges.unfinished() == 0

    @rule(data=st.data())
    def close_again(self, data: st.DataObject) -> None:
        """Closing a charge again returns its first outcome."""
        if self.model.cost:
            request_id = data.draw(st.sampled_from(sorted(self.model.cost)))
            account = data.draw(st.sampled_from(sorted(self.model.accounts)))
            (outcome,) = self.store.together(
                self.desk.charges.judge, [CloseRequest(request_id, account, None, data.draw(CREDITS))]
            )
            assert isinstance(outcome, Closed)
            assert outcome.credits_used == self.model.cost[request_id]

    @rule(data=st.data())
    def end_again(self, data: st.DataObject) -> None:
        """Ending a claim again with another outcome changes neither the money nor the stored outcome."""
        if self.ended:
            end = self.ended[data.draw(st.sampled_from(sorted(self.ended)))]
            kept = data.draw(st.sampled_from([None, StoredReply(404, "something else", end.claim.owner)]))
            (outcome,) = self.store.together(self.claims.judge, [end._replace(reply=kept)])
            assert isinstance(outcome, Closed)
            assert outcome.credits_used == self.model.cost[end.close.request_id]

    @rule(data=st.data(), before_s=st.sampled_from([0.0, 0.0, 1.0]))
    def time_passes(self, data: st.DataObject, before_s: float) -> None:
        """Move time to the end of some claim, or just before."""
        if self.model.claims:
            claim = self.model.claims[data.draw(st.sampled_from(sorted(self.model.claims)))]
            ends_at = claim.at + (RUNS_S if claim.kept is None else KEPT_S)
            self.desk.time = max(self.desk.time, ends_at - before_s)

    @rule(key=keys, moment=st.sampled_from(["in one commit", "while it runs", "after it ended"]), data=st.data())
    def take_over_claim(self, key: str, moment: str, data: st.DataObject) -> None:
        """The owner needs more than five minutes. A successor may take over, so the owner ends without its claim."""
        self._commit([self._opening(key, data, claimed=[True])])
        mine = self.model.keys[key].account
        late = [id_ for id_, (charge, claim) in self.running.items() if claim and charge.account_id == mine]
        if not late:
            return
        late_id = data.draw(st.sampled_from(late))
        claim = self.running[late_id][1]
        assert claim is not None
        self.desk.time += data.draw(st.sampled_from([RUNS_S, RUNS_S, RUNS_S - 1]))
        request = self.desk.request(mine, key, credits=data.draw(st.integers(0, 2)))
        newer = Begin(replace(claim, owner=request.request_id), request)
        end = self._closing(late_id, data)
        self._commit([newer, end] if moment == "in one commit" else [newer])
        if moment == "after it ended" and request.request_id in self.running:
            self._commit([self._closing(request.request_id, data)])
        if moment != "in one commit":
            self._commit([end])

    @rule()
    def forget_old_outcomes(self) -> None:
        for forget in (forget_old, forget_old_replies):
            while wait(self.store.write(partial(forget, now=self.desk.time))):
                pass
        self.model.forget_old(self.desk.time)

    @rule(key=keys, kept_bytes=st.integers(1, 3) | st.just(100), free_keys=st.integers(0, 3))
    def trim_account(self, key: str, kept_bytes: int, free_keys: int) -> None:
        """Only the oldest texts and the oldest free claims of the account are removed."""
        account, share = self.model.keys[key].account, StoredShare(kept_bytes * 560, free_keys)
        before, claims = dict(self.model.replies), dict(self.model.claims)
        trimmed = wait(trim(self.store, account, share, pause_s=0))
        self.model.replies = {(one, text): at for one, text, at, _ in self._reply_rows()}
        left = self._claim_rows().keys()
        self.model.claims = {id_: one for id_, one in claims.items() if id_ in left}
        lost = before.keys() - self.model.replies.keys()
        freed = [claims[id_] for id_ in claims.keys() - left]
        assert trimmed == (len(lost), len(freed))
        assert {one for one, _text in lost} <= {account}
        assert all(claim.free and claim.account == account for claim in freed)
        still = [claim.at for claim in self.model.claims.values() if claim.free and claim.account == account]
        assert len(still) == min(free_keys, len(still) + len(freed))
        assert max([claim.at for claim in freed], default=0) <= min(still, default=self.desk.time)
        ages = [at for (one, _text), at in self.model.replies.items() if one == account]
        assert max([before[name] for name in lost], default=0) <= min(ages, default=self.desk.time)
        kept = [size for one, _text, _at, size in self._reply_rows() if one == account]
        assert sum(kept) <= share.bytes
        assert not lost or sum(kept) + 512 + max(len(text) for _one, text in lost) > share.bytes

    @rule()
    def crash(self) -> None:
        """The process dies and loses its memory, and another one recovers."""
        desk = self.desk.restarted()
        left = self.model.open.values()
        assert (wait(recover(self.store, now=desk.now)).charges, wait(self.store.write(forget_running))) == (
            len(left),
            sum(1 for claim in self.model.claims.values() if claim.kept is None),
        )
        self.model.crash()
        self._take_over(desk)

    @invariant()
    def ledger_is_consistent(self) -> None:
        assert self.store.look(verify) == []

    @invariant()
    def matches_the_model(self) -> None:
        accounts, keys = self.model.accounts, self.model.keys
        stands, uses = wait(self._accounts_and_keys())
        assert stands == {id_: (one.balance, self.model.held(id_)) for id_, one in accounts.items()}
        assert all(self.desk.balances.nowait(id_) in (one.balance, None) for id_, one in accounts.items())
        assert uses == {id_: key.used for id_, key in keys.items()}
        assert self._claim_rows() == {id_: self.model.as_found(row) for id_, row in self.model.claims.items()}
        assert self._reply_rows() == sorted(
            (account, text, at, 512 + len(text)) for (account, text), at in self.model.replies.items()
        )

    async def _accounts_and_keys(self) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
        """Return the balance and the held credits of each account, and the counter of each key."""
        accounts = {id_: await self.desk.accounts.get(id_) for id_ in self.model.accounts}
        keys = {id_: await self.desk.keys.get(id_) for id_ in self.model.keys}
        stands = {id_: (one.balance, one.held) for id_, one in accounts.items()}
        return stands, {id_: one.used for id_, one in keys.items()}

    @invariant()
    def running_claims_have_charges(self) -> None:
        running = {claim.owner for claim in self.model.claims.values() if claim.kept is None}
        assert running <= self.model.open.keys()

    def _claim_rows(self) -> dict[str, ClaimRow]:
        return {
            id_: ClaimRow(account, place, asked, owner, at, _kept(status, body, owner, cached), bool(free))
            for id_, account, place, asked, owner, at, status, body, cached, free in self.store.look(
                lambda tx: tx.all(ROWS)
            )
        }

    def _reply_rows(self) -> list[Row]:
        return sorted(self.store.look(lambda tx: tx.all(REPLIES)))

    def _steps(self, keys: list[str], data: st.DataObject, *, claimed: list[bool]) -> list[Step]:
        """Start new calls with these keys, with or without claims, and end some running ones, in any order."""
        ending = (
            data.draw(st.lists(st.sampled_from(sorted(self.running)), unique=True, max_size=4)) if self.running else []
        )
        steps = [self._opening(key, data, claimed=claimed) for key in keys] + [
            self._closing(request_id, data) for request_id in ending
        ]
        return data.draw(st.permutations(steps))

    def _opening(self, key: str, data: st.DataObject, *, claimed: list[bool]) -> Step:
        account = self.model.keys[key].account
        request = self.desk.request(account, key, credits=data.draw(PRICES))
        if data.draw(st.integers(0, 3)) == 0:
            least = data.draw(st.integers(0, request.credits))
            request = msgspec.structs.replace(request, credits_least=least)
        if not data.draw(st.sampled_from(claimed)):
            return request
        place, query = data.draw(st.sampled_from(["GET a/b"] * 4 + ["GET c/d"])), data.draw(st.sampled_from("pppq"))
        asked = fingerprint(place.encode(), query.encode())
        claim = Claim(account, data.draw(st.sampled_from("xxy")), place, asked, request.request_id)
        if data.draw(st.integers(0, 5)) == 0:
            text = data.draw(st.sampled_from(["hit", f"hit {claim.owner}"]))
            return Begin(claim, None, StoredReply(200, text, claim.owner, cached=True))
        return Begin(claim, request)

    def _closing(self, request_id: str, data: st.DataObject) -> ClaimEnd | CloseRequest:
        charge, claim = self.running[request_id]
        request = close_request(charge, used=data.draw(st.integers(0, charge.credits)))
        if claim is None:
            return request
        kind = data.draw(st.sampled_from(["finished", "finished", "freed", "refused", "long"]))
        if kind in ("freed", "refused"):
            request = request._replace(used=0)
        owner = data.draw(st.sampled_from(["", claim.owner]))
        text = "x" * (TEXT_BYTES_MAX + 1) if kind == "long" else f"{kind} {owner}"
        kept = None if kind == "freed" else StoredReply(404 if kind == "refused" else 200, text, claim.owner)
        return ClaimEnd(claim, request, kept)

    def _handler(self, step: Step) -> Any:
        return self.claims.judge if isinstance(step, Begin | ClaimEnd) else self.desk.charges.judge

    def _close_alone(self, step: ClaimEnd | CloseRequest) -> Awaitable[Closed]:
        if isinstance(step, ClaimEnd):
            return self.claims.end(step)
        return self.desk.charges.close(self.running[step.request_id][0], used=step.used)

    def _compare(self, step: Step, outcome: object, right: Expected) -> None:
        if isinstance(right, type):
            assert type(outcome) is right
        elif isinstance(right, tuple):
            if isinstance(outcome, Charge):
                assert (outcome.credits, outcome.balance_after) == right
                self.running[outcome.request_id] = (outcome, step.claim if isinstance(step, Begin) else None)
            else:
                assert outcome == Closed(*right)
                if isinstance(step, ClaimEnd) and step.reply is not None:
                    self.ended[step.close.request_id] = step
                self.running.pop(step.close.request_id if isinstance(step, ClaimEnd) else step.request_id)  # type: ignore[union-attr]
        else:
            assert outcome == right


def _kept(status: int | None, body: str | None, owner: str, cached: int) -> StoredReply | None:
    return None if status is None else StoredReply(status, body, owner, bool(cached))


MoneyMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMoneyMachine = MoneyMachine.TestCase
