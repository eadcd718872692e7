"""Any order of charges, closings, grants and changes of keys keeps the ledger sound, step by step.

Method: a model in plain numbers runs next to billing on an in-memory database. After each step the ledger is verified
and both are compared.
"""

from collections.abc import Awaitable
from typing import Any, TypeVar

import trio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from billing.charges.batch_rows import Charge, ChargeRequest, Closed, CloseRequest
from billing.charges.decisions import spare_credits
from billing.charges.recovery import recover
from billing.errors import ChargeExists, ChargeUnknown, InsufficientCredits, KeyBudgetReached, KeyUnusable
from billing.ledger.verification import verify
from billing.migrations import MIGRATIONS
from tests.billing.desk import Desk
from tests.fakes.inline_postgres import InlinePostgres
from tests.fakes.inline_store import InlineStore
from tests.servers.postgres import PostgresServer

T = TypeVar("T")
CREDITS = st.integers(0, 12)


def wait(awaitable: Awaitable[T]) -> T:
    async def main() -> T:
        return await awaitable

    return trio.run(main)


class Model:
    """One account with one key, in plain numbers."""

    def __init__(self, account_id: str, key_id: str, *, balance: int, unlimited: bool) -> None:
        self.account_id = account_id
        self.key_id = key_id
        self.balance = balance
        self.unlimited = unlimited
        self.limit: int | None = None
        self.used = 0
        self.resets = 0
        self.revoked = False

    def within_means(self, request: ChargeRequest) -> int:
        """Return the price of a request. Part of the price may be optional."""
        least = request.credits_least
        if least is None:
            return request.credits
        optional = request.credits - least
        for left in (None if self.unlimited else self.balance, None if self.limit is None else self.limit - self.used):
            if left is not None:
                optional = min(optional, spare_credits(left - least))
        return least + optional

    def take(self, credits: int) -> type[Exception] | None:  # noqa: A002
        if self.revoked:
            return KeyUnusable
        if credits > self.balance and not self.unlimited:
            return InsufficientCredits
        if self.limit is not None and credits > 0 and self.used + credits > self.limit:
            return KeyBudgetReached
        self.balance = max(0, self.balance - credits)
        self.used += credits
        return None

    def give_back(self, credits: int, *, resets: int) -> None:  # noqa: A002
        """Return credits to the balance, and to the counter unless it was reset after the charge."""
        self.balance += credits
        self.used -= credits if resets == self.resets else 0


class BooksMachine(RuleBasedStateMachine):
    models = Bundle("models")

    def open_store(self) -> Any:
        return InlineStore([MIGRATIONS])

    @initialize(target=models, credits=CREDITS, more=CREDITS)
    def open(self, credits: int, more: int) -> Any:  # noqa: A002
        self.store = self.open_store()
        self.desk = Desk(self.store)
        self.charges: dict[str, tuple[Model, Charge]] = {}
        self.resets: dict[str, int] = {}
        """How often a key's counter had been reset when each charge was made."""
        self.closed: dict[str, tuple[CloseRequest, Closed]] = {}
        self.all: list[Model] = []
        return multiple(self._account(credits, unlimited=False), self._account(more, unlimited=True))

    def _account(self, credits: int, *, unlimited: bool) -> Model:  # noqa: A002
        account = wait(self.desk.accounts.create("A", credits=credits, unlimited=unlimited))
        key = wait(self.desk.keys.create(account.id))
        self.all.append(Model(account.id, key.id, balance=credits, unlimited=unlimited))
        return self.all[-1]

    def teardown(self) -> None:
        self.store.close()

    @rule(takes=st.lists(st.tuples(models, CREDITS, st.none() | CREDITS), max_size=6), data=st.data())
    def one_batch_of_charges_and_closings(
        self, takes: list[tuple[Model, int, int | None]], data: st.DataObject
    ) -> None:
        closing = data.draw(st.lists(st.sampled_from(sorted(self.charges)), unique=True)) if self.charges else []
        closes = [self._close_request(request_id, data) for request_id in closing]
        opens = [self._charge_request(model, price, least) for model, price, least in takes]
        requests = data.draw(st.permutations([*opens, *closes]))
        outcomes = self.store.together(self.desk.charges.judge, requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(request, ChargeRequest):
                self._expect_taken(request, outcome)
            elif isinstance(request, Charge):
                self._expect_settled(request, outcome)
            else:
                self._expect_closed(request, outcome)

    def _charge_request(self, model: Model, price: int, least: int | None) -> ChargeRequest:
        request = self.desk.request(model.account_id, model.key_id, credits=price)
        return request if least is None else replace(request, credits_least=min(least, price))

    def _close_request(self, request_id: str, data: st.DataObject) -> CloseRequest | Charge:
        """Settles in full, or closes with or without passing the charge."""
        charge = self.charges[request_id][1]
        if data.draw(st.booleans()):
            return charge
        used = data.draw(st.integers(0, charge.credits))
        remembered = charge if data.draw(st.booleans()) else None
        return CloseRequest(request_id, charge.account_id, charge.key_id, used, charge=remembered)

    def _expect_taken(self, request: ChargeRequest, outcome: object) -> None:
        model = next(one for one in self.all if one.account_id == request.account_id)
        price = model.within_means(request)
        refusal = model.take(price)
        if refusal is not None:
            assert isinstance(outcome, refusal)
            return
        assert isinstance(outcome, Charge)
        assert (outcome.credits, outcome.balance_after) == (price, model.balance)
        self.charges[request.request_id] = (model, outcome)
        self.resets[request.request_id] = model.resets

    def _expect_closed(self, request: CloseRequest, outcome: object) -> None:
        model, charge = self.charges.pop(request.request_id)
        model.give_back(charge.credits - request.used, resets=self.resets[request.request_id])
        assert outcome == Closed(request.used, model.balance)
        self.closed[request.request_id] = (request, outcome)

    def _expect_settled(self, charge: Charge, outcome: object) -> None:
        """The response depends on other closings in the batch; the ledger keeps the outcome."""
        self.charges.pop(charge.request_id)
        again = CloseRequest(charge.request_id, charge.account_id, charge.key_id, 0)
        (closed,) = self.store.together(self.desk.charges.judge, [again])
        assert isinstance(closed, Closed)
        assert closed.credits_used == charge.credits
        assert outcome in (charge, closed)
        self.closed[charge.request_id] = (again, closed)

    @rule(data=st.data())
    def settle_closed_or_untaken(self, data: st.DataObject) -> None:
        """A charge that is not open settles nothing, and a charge settled twice in one batch settles once."""
        if self.charges:
            request_id = data.draw(st.sampled_from(sorted(self.charges)))
            charge = self.charges[request_id][1]
            never = replace(charge, request_id="req_never", row=(b"req_never", *charge.row[1:]))
            outcomes = self.store.together(self.desk.charges.judge, [charge, never, charge])
            assert [type(outcome) for outcome in outcomes] == [Charge, ChargeUnknown, Closed]
            self._expect_settled(charge, outcomes[0])
            assert self.store.together(self.desk.charges.judge, [charge]) == [outcomes[2]]

    @rule(data=st.data())
    def close_again(self, data: st.DataObject) -> None:
        if self.closed:
            request, outcome = self.closed[data.draw(st.sampled_from(sorted(self.closed)))]
            again = CloseRequest(request.request_id, request.account_id, request.key_id, data.draw(CREDITS))
            assert self.store.together(self.desk.charges.judge, [again, again]) == [outcome, outcome]

    @rule(data=st.data(), model=models)
    def charge_again(self, data: st.DataObject, model: Model) -> None:
        known = sorted([*self.closed, *self.charges])
        if known:
            again = ChargeRequest(data.draw(st.sampled_from(known)), model.account_id, None, 1, "github", "repository")
            assert isinstance(self.store.together(self.desk.charges.judge, [again])[0], ChargeExists)

    @rule(model=models, amount=st.integers(1, 20))
    def grant(self, model: Model, amount: int) -> None:
        model.balance += amount
        assert wait(self.desk.accounts.grant(model.account_id, amount)) == model.balance

    @rule(model=models, limit=st.none() | st.integers(0, 30), reset=st.booleans())
    def change_key(self, model: Model, limit: int | None, reset: bool) -> None:
        model.limit = limit
        if reset:
            model.used, model.resets = 0, model.resets + 1
        wait(self.desk.keys.update(model.key_id, credit_limit=limit, reset_usage=reset))

    @rule(model=models)
    def revoke(self, model: Model) -> None:
        model.revoked = True
        wait(self.desk.keys.revoke(model.key_id))
        model.key_id = wait(self.desk.keys.create(model.account_id)).id
        model.revoked, model.used, model.limit = False, 0, None
        # Refunds of the old key's charges go to its own counter, which the model no longer tracks.
        for request_id, (owner, charge) in list(self.charges.items()):
            if owner is model:
                wait(self.desk.charges.close(charge, used=charge.credits))
                del self.charges[request_id]

    @rule()
    def restart(self) -> None:
        """The process dies and loses its memory; open charges are refunded."""
        self.desk = self.desk.restarted()
        recovered = wait(recover(self.store, now=self.desk.now))
        assert recovered.charges == len(self.charges)
        for model, charge in self.charges.values():
            model.give_back(charge.credits, resets=self.resets[charge.request_id])
        self.charges.clear()

    @invariant()
    def sound(self) -> None:
        assert wait(self.store.read(verify)) == []
        for model in self.all:
            account = wait(self.desk.accounts.get(model.account_id))
            held = sum(charge.credits for owner, charge in self.charges.values() if owner is model)
            assert (account.balance, account.held) == (model.balance, held)
            assert self.desk.balances.nowait(model.account_id) in (model.balance, None)
            assert wait(self.desk.keys.get(model.key_id)).used == model.used


BooksMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestBooksMachine = BooksMachine.TestCase


def test_batch_rows_machine_holds_on_postgresql(postgres: PostgresServer) -> None:
    class PostgresMachine(BooksMachine):
        def open_store(self) -> Any:
            return InlinePostgres(postgres.fresh(), [MIGRATIONS])

    run_state_machine_as_test(
        PostgresMachine,
        settings=settings(
            max_examples=4,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.generate],
        ),
    )
