"""Claims: every case of the judgment, the 64 KB limit to the byte, and the rows on a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from itertools import product

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from limits.errors import ClaimConflict, ClaimInProgress, ClaimMismatch, LimitError, ReplayUnavailable
from limits.idempotency import (
    MIGRATIONS,
    REPLAY_BYTES_MAX,
    UNFINISHED_S,
    Claim,
    ClaimRecord,
    StoredReply,
    finished,
    forget_old,
    forget_running,
    judge,
    read_claims,
    save_claims,
)
from limits.stored_replies import KEPT_S
from storage.errors import ConstraintViolated
from storage.opening import open_store
from storage.store import Store

NOW = 1_750_000_000.0
MINE = Claim("acc_1", "key", "GET a/b", "print", "req_new")
TAKEN = ClaimRecord("acc_1", "GET a/b", "print", "req_new", NOW)
KEPT = StoredReply(200, '"data":1', "req_old")
CUT = StoredReply(200, None, "req_old")

# The state of the key: its outcome and its age.
SAMENESS = tuple(product((True, False), repeat=2))
STANDING = {
    "running": (None, 0.0),
    "running for almost five minutes": (None, UNFINISHED_S - 1),
    "finished": (KEPT, 0.0),
    "finished almost a day ago": (KEPT, KEPT_S - 1),
    "finished, too long": (CUT, 0.0),
}
EXPIRED = {
    "running for five minutes": (None, UNFINISHED_S),
    "finished a day ago": (KEPT, KEPT_S),
    "finished a day ago, too long": (CUT, KEPT_S),
}


def expected(kept: StoredReply | None, *, same_print: bool, same_place: bool) -> StoredReply | type[LimitError]:
    """The table of decisions 7."""
    if same_print:
        return ClaimInProgress if kept is None else ReplayUnavailable if kept == CUT else KEPT
    return ClaimConflict if kept is None and not same_place else ClaimMismatch


@pytest.mark.parametrize(("kept", "age_s"), (STANDING | EXPIRED).values(), ids=(STANDING | EXPIRED).keys())
@pytest.mark.parametrize(("same_print", "same_place"), SAMENESS)
def test_existing_claim_decides_the_outcome_until_it_expires(
    kept: StoredReply | None, age_s: float, same_print: bool, same_place: bool
) -> None:
    place, fingerprint = "GET a/b" if same_place else "GET c/d", "print" if same_print else "other"
    verdict = judge(ClaimRecord("acc_1", place, fingerprint, "req_old", NOW - age_s, kept), MINE, NOW)
    if (kept, age_s) in EXPIRED.values():
        assert verdict == TAKEN, "any request takes over an expired claim"
        return
    due = expected(kept, same_print=same_print, same_place=same_place)
    assert verdict == due if isinstance(due, StoredReply) else type(verdict) is due


def test_unclaimed_key_is_claimed() -> None:
    assert judge(None, MINE, NOW) == TAKEN


@pytest.mark.parametrize("unit", ["x", "é", "🐙"])
def test_outcome_is_stored_up_to_exactly_64_kb(unit: str) -> None:
    text = unit * (REPLAY_BYTES_MAX // len(unit.encode()))
    assert len(text.encode()) == 65_536
    assert finished(TAKEN, StoredReply(200, text, "req_new"), NOW + 1, free=False).reply == StoredReply(
        200, text, "req_new"
    )
    assert finished(TAKEN, StoredReply(200, text + "x", "req_new"), NOW + 1, free=False).reply == StoredReply(
        200, None, "req_new"
    )


def test_finishing_sets_the_expiry_to_a_day_and_changes_no_other_field() -> None:
    held = finished(TAKEN, KEPT, NOW + 299, free=False)
    assert held == ClaimRecord("acc_1", "GET a/b", "print", "req_new", NOW + 299, KEPT)
    assert judge(held, MINE, NOW + 299 + KEPT_S - 1) == KEPT


def test_key_belongs_to_its_account() -> None:
    ids = {Claim(account, key, "p", "f", "o").id for account, key in product(("acc_1", "acc_2"), ("a", "b"))}
    assert len(ids) == 4
    assert Claim("acc_1", "a", "p", "f", "o").id == Claim("acc_1", "a", "other", "prints", "and owner").id
    assert {len(id_) for id_ in ids} == {64}


SHORT = st.text(max_size=20).filter(lambda text: "\0" not in text)
TIMES = st.floats(0, 2e9)


@st.composite
def claims_held(draw: st.DrawFn) -> ClaimRecord:
    owner = draw(SHORT)
    kept = st.builds(StoredReply, st.integers(200, 499), st.none() | SHORT, st.just(owner), st.booleans())
    return ClaimRecord("acc_1", draw(SHORT), draw(SHORT), owner, draw(TIMES), draw(st.none() | kept))


@given(before=st.none() | claims_held(), after=claims_held(), now=TIMES)
def test_judgment_never_returns_another_requests_outcome(
    before: ClaimRecord | None, after: ClaimRecord, now: float
) -> None:
    claim = Claim("acc_1", "key", after.place, after.fingerprint, "req_new")
    verdict = judge(before, claim, now)
    if isinstance(verdict, ClaimRecord):
        assert (verdict.owner, verdict.at, verdict.reply) == ("req_new", now, None)
    elif isinstance(verdict, StoredReply):
        assert before is not None
        assert before.fingerprint == claim.fingerprint
        assert verdict is before.reply
        assert verdict.text is not None
    else:
        assert isinstance(verdict, LimitError)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    with trio.fail_after(30):
        async with open_store(store_url, [MIGRATIONS]) as opened:
            yield opened


ROWS = {
    "running": ClaimRecord("acc_1", "GET a/b", "print", "req_1", NOW),
    "finished": ClaimRecord("acc_1", "GET a/b", "print", "req_2", NOW + 0.25, StoredReply(200, '"data":"é"', "req_2")),
    "cached": ClaimRecord(
        "acc_1", "GET a/b", "print", "req_3", NOW, StoredReply(200, '"data":1', "req_3", cached=True)
    ),
    "refused": ClaimRecord("acc_1", "GET c/d", "other", "req_4", NOW, StoredReply(404, '"error":{}', "req_4")),
    "too long": ClaimRecord("acc_1", "GET a/b", "print", "req_5", NOW, StoredReply(200, None, "req_5")),
}


async def test_claims_survive_a_round_trip_through_the_store(store: Store) -> None:
    await store.write(partial(save_claims, claims=dict(ROWS)))
    assert await store.read(partial(read_claims, ids=[*ROWS, "unknown"])) == ROWS
    assert await store.read(partial(read_claims, ids=[])) == {}


async def test_saving_a_claim_overwrites_or_removes_it(store: Store) -> None:
    await store.write(partial(save_claims, claims=dict(ROWS)))
    changed = {"running": ROWS["finished"], "cached": ROWS["running"], "refused": None, "unknown": None}
    await store.write(partial(save_claims, claims=changed))
    expected_rows = {"running": ROWS["finished"], "cached": ROWS["running"]}
    expected_rows |= {id_: ROWS[id_] for id_ in ("finished", "too long")}
    assert await store.read(partial(read_claims, ids=list(ROWS))) == expected_rows


@pytest.mark.parametrize("status", [199, 500, 503])
async def test_store_refuses_a_retryable_outcome(store: Store, status: int) -> None:
    kept = ClaimRecord("acc_1", "GET a/b", "print", "req_1", NOW, StoredReply(status, "text", "req_1"))
    with pytest.raises(ConstraintViolated):
        await store.write(partial(save_claims, claims={"one": kept}))


async def test_new_process_forgets_only_running_claims(store: Store) -> None:
    await store.write(partial(save_claims, claims=dict(ROWS)))
    assert await store.write(forget_running) == 1
    left = await store.read(partial(read_claims, ids=list(ROWS)))
    assert left == {id_: held for id_, held in ROWS.items() if id_ != "running"}
    assert await store.write(forget_running) == 0


async def test_only_expired_claims_are_forgotten(store: Store) -> None:
    ages_s = {"new": 0.0, "last": KEPT_S, "old": KEPT_S + 1, "older": 2 * KEPT_S}
    claims: dict[str, ClaimRecord | None] = {
        id_: ClaimRecord("acc_1", "p", "f", "o", NOW - age_s, KEPT) for id_, age_s in ages_s.items()
    }
    await store.write(partial(save_claims, claims=claims))
    assert await store.write(partial(forget_old, now=NOW)) == 2
    left = await store.read(partial(read_claims, ids=list(claims)))
    assert left.keys() == {"new", "last"}


async def test_claims_of_the_first_version_survive_an_upgrade(store_url: str) -> None:
    """Method: migrate a store of the previous migration with one row."""
    before = type(MIGRATIONS)(MIGRATIONS.name, MIGRATIONS.migrations[:1])
    with trio.fail_after(30):
        async with open_store(store_url, [before]) as old:
            insert = "INSERT INTO claims (id, place, fingerprint, owner, at, status, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
            await old.write(lambda tx: tx.run(insert, ("one", "GET a/b", "print", "req_old", NOW, 200, '"data":1')))
        async with open_store(store_url, [MIGRATIONS]) as new:
            assert await new.read(partial(read_claims, ids=["one"])) == {
                "one": ClaimRecord("", "GET a/b", "print", "req_old", NOW, KEPT)
            }
