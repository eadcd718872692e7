"""Claims and charges in one transaction, so that they stay consistent (decisions 7; architecture 4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast

from billing.charges.batch_rows import Charge, ChargeRequest, Closed, CloseRequest, Request
from billing.charges.charges import Charges
from billing.charges.refunds import NOTHING_USED
from billing.errors import ChargeUnknown
from gateway.http.errors import InvalidParam
from limits.errors import ClaimConflict, ClaimInProgress, ClaimMismatch, ClaimRefused, ReplayUnavailable
from limits.idempotency import (
    UNFINISHED_S,
    Claim,
    ClaimRecord,
    StoredReply,
    finished,
    judge,
    read_claims,
    save_claims,
)
from limits.shares import Shares
from storage.store import Store, Tx, Write

T = TypeVar("T")
U = TypeVar("U")
_KEY_CHARS_MAX = 255
STARTED_S = 30.0
"""Seconds until a key claimed by `Claims.start` is free again if its node dies. The call must take less time."""
_REFUSED: dict[type[ClaimRefused], str] = {
    ClaimInProgress: "in_progress",
    ClaimConflict: "conflict",
    ClaimMismatch: "mismatch",
    ReplayUnavailable: "unavailable",
}


class Begin(NamedTuple):
    """Claim a key and take a charge. With `reply`, the response already exists (a cache hit) and is free."""

    claim: Claim
    charge: ChargeRequest | None
    reply: StoredReply | None = None


class ClaimEnd(NamedTuple):
    """Settle the charge, and finish the claim with `reply`. Without a reply, release the claim."""

    claim: Claim
    close: CloseRequest
    reply: StoredReply | None


Step = Begin | ClaimEnd
Begun = Charge | StoredReply | None
"""The result: a charge that was taken, a reply to replay, or None if the claim was finished immediately."""


class _ChangeRepeated(Exception):
    """The change was already made under the same key."""

    def __init__(self, reply: StoredReply) -> None:
        super().__init__("the change was already made")
        self.reply = reply


class Claims:
    """Starts and ends claimed calls. `now` returns Unix seconds and is also called on the store's thread."""

    def __init__(self, store: Store, charges: Charges, *, now: Callable[[], float]) -> None:
        self._store = store
        self._charges = charges
        self._now = now
        self.counts = dict.fromkeys(("claimed", "replayed", "in_progress", "conflict", "mismatch", "unavailable"), 0)
        """Outcomes of requests with an idempotency key since the node started."""
        self.shares = Shares()
        """How much of the stored replies each account uses. The replies are trimmed periodically."""

    async def begin(self, step: Begin) -> Begun:
        """Claim the key and take the charge. Either both succeed or neither.

        Raises:
            ClaimRefused: the key is in use; nothing was charged. Also raises the errors of `Charges.take`.
        """
        try:
            begun = cast("Begun", await self._store.submit(self.judge, step))
        except ClaimRefused as refusal:
            self.counts[_REFUSED[type(refusal)]] += 1
            raise
        self.counts["replayed" if isinstance(begun, StoredReply) else "claimed"] += 1
        if begun is None and step.reply is not None:
            self.shares.put(step.claim.account_id, step.reply)
        return begun

    async def end(self, step: ClaimEnd) -> Closed:
        """Settle the charge and finish or release the claim. If another request took over the claim, refund in full.

        Raises:
            StorageError: charge and claim are still open; `Charges.finish` retries.
        """
        return await self._charges.close_by(step.close.request_id, partial(self._submit_end, step))

    async def _submit_end(self, step: ClaimEnd) -> Closed:
        closed = cast("Closed", await self._store.submit(self.judge, step))
        if step.reply is not None:
            self.shares.put(step.claim.account_id, step.reply)
        return closed

    async def once(
        self, claim: Claim, make: Callable[[Write], Awaitable[T]], *, keep: Callable[[Any], str]
    ) -> T | StoredReply:
        """Make a free change whose transaction also claims the key and stores the reply, or return the earlier reply.

        `keep` builds the text of the reply from the result of that transaction.

        Raises:
            ClaimRefused: the key is in use. Also raises the errors of `make`, which leave the key free.
        """

        async def write(fn: Callable[[Tx], U], /) -> U:
            return await self._store.write(partial(self._change, fn, claim, keep))

        try:
            with self._counting():
                made = await make(write)
        except _ChangeRepeated as repeated:
            return repeated.reply
        self.shares.put(claim.account_id, StoredReply(200, None, claim.owner))
        return made

    async def start(self, claim: Claim | None, begin: Callable[[Tx], T]) -> T | StoredReply:
        """Start a free change and claim the key in one transaction, or return the earlier reply. `finish` ends it.

        The change must be safe to start twice, because the claim lapses after `STARTED_S`.

        Raises:
            ClaimRefused: the key is in use. Also raises the errors of `begin`, which leave the key free.
        """
        if claim is None:
            return await self._store.write(begin)
        try:
            with self._counting():
                return await self._store.write(partial(self._start, claim, begin))
        except _ChangeRepeated as repeated:
            return repeated.reply

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count the outcome of a free change's claim."""
        try:
            yield
        except _ChangeRepeated:
            self.counts["replayed"] += 1
            raise
        except ClaimRefused as refusal:
            self.counts[_REFUSED[type(refusal)]] += 1
            raise
        self.counts["claimed"] += 1

    def _start(self, claim: Claim, begin: Callable[[Tx], T], tx: Tx) -> T:
        held = self._claim_free(claim, tx)
        begun = begin(tx)
        # Backdated, so that it lapses after `STARTED_S`.
        save_claims(tx, {claim.id: replace(held, at=held.at - UNFINISHED_S + STARTED_S)})
        return begun

    async def earlier(self, claim: Claim) -> StoredReply | None:
        """Return the stored reply of a key, or None after claiming the free key.

        For a change that cannot claim the key in its own transaction.

        Raises:
            ClaimRefused: the key is in use.
        """
        try:
            await self._store.write(partial(self._claim_free, claim))
        except _ChangeRepeated as repeated:
            return repeated.reply
        return None

    async def finish(
        self, claim: Claim | None, reply: StoredReply | None, *, undo: Callable[[Tx], object] | None = None
    ) -> None:
        """Store the reply of a free change claimed by `begin` or `start`. Without a reply, release the key.

        `undo` runs in the same transaction, unless another request has taken over the key.

        Raises:
            StorageError: the claim stays active until it lapses.
        """
        await self._store.write(partial(self._finish, claim, reply, undo))
        if claim is not None and reply is not None:
            self.shares.put(claim.account_id, reply)

    def _finish(
        self, claim: Claim | None, reply: StoredReply | None, undo: Callable[[Tx], object] | None, tx: Tx
    ) -> None:
        if claim is not None:
            held = read_claims(tx, [claim.id]).get(claim.id)
            if held is None or held.owner != claim.owner or held.reply is not None:
                return
            ended = None if reply is None else finished(held, reply, self._now(), free=True)
            save_claims(tx, {claim.id: ended})
        if undo is not None:
            undo(tx)

    def _change(self, fn: Callable[[Tx], U], claim: Claim, keep: Callable[[Any], str], tx: Tx) -> U:
        held = self._claim_free(claim, tx)
        made = fn(tx)
        reply = StoredReply(200, keep(made), claim.owner)
        save_claims(tx, {claim.id: finished(held, reply, self._now(), free=True)})
        return made

    def _claim_free(self, claim: Claim, tx: Tx) -> ClaimRecord:
        verdict = judge(read_claims(tx, [claim.id]).get(claim.id), claim, self._now())
        if isinstance(verdict, ClaimRecord):
            return verdict
        raise _ChangeRepeated(verdict) if isinstance(verdict, StoredReply) else verdict

    def judge(self, tx: Tx, steps: Sequence[Step]) -> Sequence[object]:
        """Handle a batch on the store's thread: first the claims one by one, then all charges together."""
        now = self._now()
        ids = [step.claim.id for step in steps]
        before = read_claims(tx, sorted(set(ids)))
        claims: dict[str, ClaimRecord | None] = {**before}
        results: list[object] = []
        money: list[tuple[int, Request]] = []
        for place, (id_, step) in enumerate(zip(ids, steps, strict=True)):
            held = claims.get(id_)
            judged = _begin(held, step, now) if isinstance(step, Begin) else _end(held, step, now)
            result, request, claims[id_] = judged
            results.append(result)
            if request is not None:
                money.append((place, request))
        if money:
            tx.on_doubt(partial(self._free_later, steps))
            outcomes = self._charges.judge(tx, [request for _, request in money])
            for (place, request), outcome in zip(money, outcomes, strict=True):
                results[place] = outcome
                if isinstance(outcome, Exception) and isinstance(request, ChargeRequest):
                    # The previous claim must have expired, because this step could claim the key.
                    claims[ids[place]] = None
        changed = {id_: held for id_, held in claims.items() if held is not before.get(id_)}
        if changed:
            save_claims(tx, changed)
        return results

    def _free_later(self, doubtful: Sequence[Step]) -> None:
        """Release the keys and refund their charges, because the callers' error said that nothing was claimed."""
        for step in doubtful:
            if isinstance(step, Begin) and step.charge is not None:
                self._charges.finish_later(step.charge.request_id, partial(self._free, step.claim, step.charge))

    async def _free(self, claim: Claim, charge: ChargeRequest) -> Closed:
        close = CloseRequest(charge.request_id, charge.account_id, charge.key_id, NOTHING_USED)
        try:
            return await self._submit_end(ClaimEnd(claim, close, None))
        except ChargeUnknown:
            return Closed(credits_used=0, balance_after=0)


Judged = tuple[object, Request | None, ClaimRecord | None]
"""The products of a step: a result without a charge, the charge, and the claim."""


def _begin(held: ClaimRecord | None, step: Begin, now: float) -> Judged:
    verdict = judge(held, step.claim, now)
    if not isinstance(verdict, ClaimRecord):
        return verdict, None, held
    return None, step.charge, verdict if step.reply is None else finished(verdict, step.reply, now, free=True)


def _end(held: ClaimRecord | None, step: ClaimEnd, now: float) -> Judged:
    if held is None or held.owner != step.claim.owner or held.reply is not None:
        return None, step.close._replace(used=NOTHING_USED), held
    return None, step.close, None if step.reply is None else finished(held, step.reply, now, free=not step.close.used)


def idempotency_key(header: bytes | None) -> str | None:
    """Return the key of an `Idempotency-Key` header, which may be a quoted structured-field string.

    Raises:
        InvalidParam: 400; the key is empty, too long, or has invisible characters.
    """
    if header is None:
        return None
    text = header.strip().decode("latin-1")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if not 1 <= len(text) <= _KEY_CHARS_MAX or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidParam("Idempotency-Key", f"must be 1 to {_KEY_CHARS_MAX} visible characters")
    return text


def fingerprint(*parts: bytes) -> str:
    """Return one digest over the parts of a request."""
    return sha256(b"".join([len(part).to_bytes(8) + part for part in parts])).hexdigest()
