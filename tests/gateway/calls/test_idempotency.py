"""Claims with their charges: the forms of the header, and the batch handler case by case.

`test_money_machine` tests the same steps in any order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest

import billing.migrations
import limits.idempotency
from billing.charges.batch_rows import Charge, Closed
from billing.charges.charges import close_request
from billing.errors import InsufficientCredits
from gateway.calls.idempotency import STARTED_S, Begin, ClaimEnd, Claims, fingerprint, idempotency_key
from gateway.http.errors import CORRECT, Refused
from limits.errors import ClaimInProgress
from limits.idempotency import UNFINISHED_S, Claim, ClaimRecord, StoredReply, read_claims
from limits.stored_replies import KEPT_S
from storage.errors import StoreUnavailable
from storage.store import Tx
from tests.billing.desk import Desk
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import open_inline

HEADERS: dict[bytes | None, str | None] = {
    None: None,
    b"abc": "abc",
    b"  abc\t": "abc",
    b'"abc"': "abc",
    b'"a\\"b"': 'a"b',
    b'"a\\\\b"': "a\\b",
    b'"a\\\\\\"b"': 'a\\"b',
    b"a\\b": "a\\b",
    b'"': '"',
    b"!~": "!~",
    b"x" * 255: "x" * 255,
    b'"' + b"x" * 255 + b'"': "x" * 255,
}
LONG = b"x" * 256
SPACED = (b"", b"  ", b'""', b"a b", b'" a"', b"a\tb")
INVISIBLE = ("é".encode(), "é".encode("latin-1"), b"abc\xa0", b"\x85abc", b"a\x7fb", b"a\x00b")
REFUSED = (*SPACED, *INVISIBLE, LONG, b'"' + LONG + b'"')


@pytest.mark.parametrize(("header", "key"), HEADERS.items())
def test_key_is_read_bare_or_quoted(header: bytes | None, key: str | None) -> None:
    assert idempotency_key(header) == key


@pytest.mark.parametrize("header", REFUSED)
def test_key_must_be_1_to_255_visible_characters(header: bytes) -> None:
    with pytest.raises(Refused) as caught:
        idempotency_key(header)
    assert caught.value.code.name == "INVALID_REQUEST"
    assert caught.value.details == {"reason": "invalid_param", "param": "Idempotency-Key", "next_step": CORRECT}


def test_fingerprint_covers_part_boundaries() -> None:
    assert len({fingerprint(b"ab", b"c"), fingerprint(b"a", b"bc"), fingerprint(b"abc"), fingerprint(b"abc", b"")}) == 4


@dataclass
class Counter:
    """Claims and billing on one store with one account. `together` runs steps in one commit."""

    store: InlineCalls
    desk: Desk
    claims: Claims
    account: str = ""

    def begin(self, key: str = "one", *, credits: int = 1, place: str = "GET a/b", query: str = "") -> Begin:  # noqa: A002
        request = self.desk.request(self.account, credits=credits)
        owner = request.request_id
        return Begin(Claim(self.account, key, place, fingerprint(place.encode(), query.encode()), owner), request)

    def together(self, *steps: Begin | ClaimEnd) -> list[object]:
        return self.store.together(self.claims.judge, steps)

    def begun(self) -> tuple[Begin, object]:
        """Begin a call alone in its commit, and return it with its charge."""
        begin = self.begin()
        (charge,) = self.together(begin)
        return begin, charge

    async def held(self, key: str = "one") -> ClaimRecord | None:
        id_ = Claim(self.account, key, "", "", "").id
        return (await self.store.read(lambda tx: read_claims(tx, [id_]))).get(id_)

    async def money(self) -> tuple[int, int]:
        report = await self.desk.ledger.report(self.account)
        return report.balance, report.held


@pytest.fixture
async def counter() -> AsyncIterator[Counter]:
    store = open_inline([billing.migrations.MIGRATIONS, limits.idempotency.MIGRATIONS])
    desk = Desk(store)
    opened = Counter(store, desk, Claims(store, desk.charges, now=desk.now))
    opened.account = (await desk.accounts.create("Ada", credits=100)).id
    yield opened
    await desk.assert_sound()
    store.close()


def ended(begun: Begin, charge: object, *, text: str | None = None, used: int = 1) -> ClaimEnd:
    """Return the end of the call: successful with a `text`; without one it failed and frees its key."""
    assert isinstance(charge, Charge)
    kept = None if text is None else StoredReply(200, text, begun.claim.owner)
    return ClaimEnd(begun.claim, close_request(charge, used=used if text is not None else 0), kept)


async def test_key_of_crashed_node_is_free_after_half_a_minute(counter: Counter) -> None:
    """Method: the change starts and never ends, as after a crash."""
    first, second = counter.begin().claim, counter.begin().claim
    assert await counter.claims.start(first, lambda _tx: "begun") == "begun"
    counter.desk.time += STARTED_S - 1
    with pytest.raises(ClaimInProgress):
        await counter.claims.start(second, lambda _tx: pytest.fail("the change started twice"))
    counter.desk.time += 1
    assert await counter.claims.start(second, lambda _tx: "again") == "again"
    await counter.claims.finish(first, StoredReply(200, "late", first.owner))
    held = await counter.held()
    assert held is not None
    assert (held.owner, held.reply) == (second.owner, None), "the late owner changed the claim"
    await counter.claims.finish(second, StoredReply(200, "told", second.owner))
    assert await counter.claims.start(first, lambda _tx: "never") == StoredReply(200, "told", second.owner)


async def test_rejected_charge_leaves_no_claim(counter: Counter) -> None:
    results = counter.together(counter.begin(credits=101), counter.begin("two", credits=60), counter.begin("three"))
    assert [type(result) for result in results] == [InsufficientCredits, Charge, Charge]
    assert await counter.held() is None
    assert await counter.held("two") is not None
    assert await counter.money() == (39, 61)


async def test_steps_of_one_commit_are_judged_in_order(counter: Counter) -> None:
    """Two calls with one key, an end with its repetition, and a freed key whose next call cannot pay."""
    first, second = counter.together(begin := counter.begin(), counter.begin())
    assert isinstance(first, Charge)
    assert isinstance(second, ClaimInProgress)
    assert await counter.money() == (99, 1)
    closed, rejected = counter.together(ended(begin, first), counter.begin(credits=101))
    assert (closed, type(rejected)) == (Closed(0, 100), InsufficientCredits)
    assert await counter.held() is None
    begin, charge = counter.begun()
    kept = StoredReply(200, "done", begin.claim.owner)
    assert counter.together(ended(begin, charge, text="done"), counter.begin()) == [Closed(1, 99), kept]
    assert await counter.money() == (99, 0)


async def test_expired_claim_is_removed_even_if_successor_cannot_pay(counter: Counter) -> None:
    first, charge = counter.begun()
    counter.desk.time += UNFINISHED_S
    results = counter.together(counter.begin(credits=101), ended(first, charge, text="late"))
    assert [type(result) for result in results] == [InsufficientCredits, Closed]
    assert await counter.held() is None
    assert await counter.money() == (100, 0)


async def test_outcome_is_replayed_for_a_day_after_its_end(counter: Counter) -> None:
    first, charge = counter.begun()
    counter.desk.time += 100
    counter.together(ended(first, charge, text="done"))
    counter.desk.time += KEPT_S - 1
    assert counter.together(counter.begin()) == [StoredReply(200, "done", first.claim.owner)]
    assert await counter.money() == (99, 0)
    counter.desk.time += 1
    assert isinstance(counter.together(counter.begin())[0], Charge)


@pytest.mark.parametrize("text", ["late", None], ids=["finished", "failed"])
@pytest.mark.parametrize("is_over", [False, True], ids=["successor runs", "successor finished"])
async def test_late_owner_is_refunded_and_does_not_overwrite_the_claim(
    counter: Counter, text: str | None, is_over: bool
) -> None:
    late, late_charge = counter.begun()
    counter.desk.time += UNFINISHED_S
    newer, newer_charge = counter.begun()
    if is_over:
        counter.together(ended(newer, newer_charge, text="newer"))
    assert counter.together(ended(late, late_charge, text=text)) == [Closed(0, 99)]
    held = await counter.held()
    assert held is not None
    assert (held.owner, held.reply is not None) == (newer.claim.owner, is_over)
    if not is_over:
        assert counter.together(ended(newer, newer_charge, text="newer")) == [Closed(1, 99)]
    assert counter.together(counter.begin()) == [StoredReply(200, "newer", newer.claim.owner)]
    assert await counter.money() == (99, 0)


@pytest.mark.parametrize("text", ["done", None], ids=["finished", "failed"])
async def test_end_rejected_by_store_is_retried(counter: Counter, text: str | None) -> None:
    first = counter.begin()
    charge = await counter.claims.begin(first)
    counter.store.failing = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await counter.claims.end(ended(first, charge, text=text))
    counter.store.failing = None
    assert isinstance(counter.together(counter.begin())[0], ClaimInProgress)
    assert await counter.desk.charges.finish() == 1
    assert await counter.money() == (100 if text is None else 99, 0)
    (again,) = counter.together(counter.begin())
    assert isinstance(again, Charge if text is None else StoredReply)


class Doubtful:
    """A transaction whose commit may have been lost. The test runs its `on_doubt` callbacks."""

    def __init__(self, tx: Tx, doubts: list[Callable[[], None]]) -> None:
        self._tx = tx
        self.on_doubt = doubts.append

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


@pytest.mark.parametrize("happened", [True, False])
async def test_doubtful_claim_is_freed_and_its_charge_refunded(counter: Counter, happened: bool) -> None:
    """The caller was told that nothing was claimed, so this becomes true whether the commit happened or not."""
    doubts: list[Callable[[], None]] = []
    begin = counter.begin(credits=5)
    if happened:
        judge = counter.claims.judge
        counter.store.together(lambda tx, steps: judge(cast(Tx, Doubtful(tx, doubts)), steps), [begin])
        assert await counter.money() == (95, 5)
    else:
        doubts.append(partial(counter.claims._free_later, [begin]))
    for run in doubts:
        run()
    assert await counter.desk.charges.finish() == 1
    assert await counter.money() == (100, 0)
    assert await counter.held() is None
