"""Invariants of every answer, checked immediately and again when the world is idle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gateway.http.codes import CODES
from limits.idempotency import UNFINISHED_S
from tests.simulation.platform import COSTS, TTL_S
from tests.simulation.requests import Sent
from tests.simulation.shadow import Shadow
from tests.simulation.store import SimStore
from tests.simulation.trace import Trace

TABLE = "codes, statuses and Retry-After are those of the table"
NO_BUG = "nothing unexpected goes wrong"
AGREES = "headers and body say the same"
FREE = "cache hits and replays are free"
TRUE_BALANCE = "credits_remaining is a balance that the account had"
REVOKED = "a key that was revoked opens nothing"
FREED = "a retryable failure frees its idempotency key"
AGE = "a cached answer is not too old"
IN_TIME = "a request ends by its deadline"
CLOSED = "a charge is closed before its request ends"
USED = "credits_used is the ledger's net"
PRICE = "an answer costs its price, a failure nothing"
PAID_WITHOUT = "nothing is paid without an answer of the upstream"
ONE_CHARGE = "an idempotency key is paid once"
SAME = "a replay is the outcome that was paid"
ENDS_WITHIN_S = 16.0
"""A request's own time limit, plus some time for the store."""
FRESH_S = 5.0
"""The maximum age of a fresh answer. It may come from another fresh call that already had its answer and was still
being settled."""
SETTLE_S = 10.0
"""Longer than a settlement takes. If the store had trouble within this time, a charge may be open."""
WAITING = {"RATE_LIMITED", "CONCURRENCY_LIMIT", "IDEMPOTENCY_IN_PROGRESS", "SERVICE_UNAVAILABLE"}


def check_answer(sent: Sent, shadow: Shadow, store: SimStore, trace: Trace) -> None:
    """Check an answer that has arrived."""
    body, told = sent.body, f"{sent.name}: {sent.status} {sent.body}"
    row = None if sent.code == "OK" else CODES.get(sent.code)
    trace.hold(sent.is_stream or (row.status if row else 200) == sent.status, TABLE, told)
    waits = "retry-after" in sent.received
    trace.hold(sent.is_replay or sent.is_stream or waits == (sent.code in WAITING), TABLE, told)
    trace.hold(sent.code != "INTERNAL_ERROR", NO_BUG, told)
    trace.hold(sent.received["x-request-id"] == body["request_id"], AGREES, told)
    credits_told = sent.received.get("x-credits-used", "0")
    trace.hold(sent.is_stream or credits_told == str(body["credits_used"]), AGREES, told)
    trace.hold(not body["credits_used"] or not (body.get("cached") or sent.is_replay), FREE, told)
    is_shut = sent.status in (401, 503) or sent.path == "/v1/status"  # 503: the store is unavailable
    trace.hold(is_shut or not sent.key_was_revoked, REVOKED, told)
    if sent.holder is not None and body["credits_remaining"] is not None:
        balances = shadow.balances[sent.holder.account][sent.first_balance :]
        trace.hold(body["credits_remaining"] in balances, TRUE_BALANCE, f"{told} of {balances}")
    if row is not None and row.retryable and not store.had_trouble(sent.began_at):
        owners = {owner for owner, _, _ in shadow.rows.claims.values()}
        trace.hold(body["request_id"] not in owners, FREED, told)


def check_age(sent: Sent, told_at: Sequence[float], trace: Trace) -> None:
    """Check that a cached answer is within its time to live, and that a fresh one was shared at most once."""
    if sent.code != "OK" or sent.is_replay:
        return
    texts = re.findall(r"'told (\d+)'", str(sent.body["data"]))
    if texts and sent.path.rpartition("/")[2] in COSTS:
        age_s = sent.began_at - max(told_at[int(text)] for text in texts)
        trace.hold(age_s <= (FRESH_S if sent.is_fresh else TTL_S), AGE, f"{sent.name} got {age_s} s old {sent.body}")


def check_end(sent: Sent, shadow: Shadow, store: SimStore, trace: Trace) -> None:
    """Check a request that has ended, with or without an answer, while the process lives."""
    assert sent.ended_at is not None
    took_s, is_calm = sent.ended_at - sent.began_at, not store.had_trouble(sent.began_at)
    trace.hold(took_s <= ENDS_WITHIN_S or not is_calm, IN_TIME, f"{sent.name} took {took_s} s")
    closing = store.closing()
    left_open = [one for one in sent.charged if one in shadow.rows.charges and one not in closing]
    excused = store.had_trouble(sent.ended_at - SETTLE_S)
    trace.hold(not left_open or excused, CLOSED, f"{sent.name} left {left_open}")


def check_all(requests: Iterable[Sent], shadow: Shadow, trace: Trace) -> None:
    """Check the world at the end."""
    by_claim = defaultdict[tuple[str, str], list[Sent]](list)
    for sent in requests:
        if sent.is_told and not sent.is_replay:
            _check_cost(sent, shadow, trace)
        paid = [one for one in sent.charged if shadow.requests[one].net]
        trace.hold(not paid or sent.answers > 0, PAID_WITHOUT, f"{sent.name} paid {paid}")
        if sent.claim is not None and sent.holder is not None:
            by_claim[sent.holder.account, sent.claim].append(sent)
    for (_, claim), group in by_claim.items():
        _check_claim(claim, group, shadow, trace)


def _check_cost(sent: Sent, shadow: Shadow, trace: Trace) -> None:
    """Check the answer's statements about credits.

    An open refund makes `credits_used` higher and `credits_remaining` unknown. A crash may refund everything. A request
    that finished too late under its idempotency key is free, because another request may have taken the key over.
    """
    body = sent.body
    money = shadow.requests[body["request_id"]]
    told, used = f"{sent.name}: {sent.status} {body}, {money}", body["credits_used"]
    pending = used > money.net and body["credits_remaining"] is None
    trace.hold(used == money.net or pending or (money.is_recovered and not money.net), USED, told)
    if not money.is_recovered:
        too_late = sent.claim is not None and not money.net and money.closed_at - sent.began_at >= UNFINISHED_S
        trace.hold(money.net == _price(sent) or too_late, PRICE, told)


def _price(sent: Sent) -> int:
    """Return the credits that the answer must have cost."""
    name = sent.path.removeprefix("/v1/sim/")
    if sent.code != "OK" or sent.body["cached"] or "dry_run" in sent.query or name not in COSTS:
        return 0
    if name == "gathered":
        return sent.answers * COSTS[name]
    legs = sent.body["data"].get("legs", [])
    came = sum(leg["status"] == "ok" for leg in legs)
    answered = came + sum(leg["status"] == "not_found" for leg in legs)
    if not legs or (came and answered * 2 >= len(legs)):
        return COSTS[name]
    return COSTS[name] // 2 if came else 0


def _check_claim(claim: str, group: list[Sent], shadow: Shadow, trace: Trace) -> None:
    paid = {one for sent in group for one in sent.charged if shadow.requests[one].net}
    trace.hold(len(paid) <= 1, ONE_CHARGE, f"{claim}: {sorted(paid)}")
    sure = [
        sent for sent in group if sent.is_told and sent.status == 200 and sent.body["credits_remaining"] is not None
    ]
    outcomes = {
        (sent.body["request_id"], str(sent.body["data"]))
        for sent in sure
        if sent.is_replay or shadow.requests[sent.body["request_id"]].net
    }
    trace.hold(len(outcomes) <= 1, SAME, f"{claim}: {outcomes}")
