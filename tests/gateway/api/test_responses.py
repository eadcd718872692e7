"""How responses are assembled: money and cache, replays, free reads, rejections (spec 2.1, 7; decisions 2)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from billing.accounts.balances import Balances
from billing.errors import KeyUnusable
from billing.keys.cache import Key
from gateway.api.responses import Replies, account_fragment
from gateway.calls.request import CallFailed, CallResult
from gateway.http.envelope import error_fragment, fragment
from gateway.http.errors import KeyMissing, Refused
from gateway.http.request import Caller, Reply, Request
from gateway.server.http1.fields import pairs_of
from limits.errors import ConcurrencyReached, Throttled
from limits.gate import BalanceUpdate
from limits.idempotency import StoredReply
from storage.errors import StoreUnavailable
from upstreams.model.errors import NotFound, UpstreamFailed

BASE = "https://api.example.com"
REQUEST = Request("req_1", "GET", "/v1/github/profile", b"", {}, 0.0)
CALLER = Caller(Key("key_1", "acc_1", "test", None))
SMALL = fragment("github", "/v1/github/profile", {"id": "1"})
LARGE = fragment("github", "/v1/github/profile", {"bio": "x" * 20_000})
BALANCES = st.none() | st.integers(0, 10**12)


class KnownStore:
    """Returns the same balance for every account, or is unavailable."""

    def __init__(self, balance: int | None = 55) -> None:
        self.balance = balance
        self.reads = 0

    async def read(self, _reading: Any) -> BalanceUpdate:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        if self.balance is None:
            raise StoreUnavailable("away")
        return BalanceUpdate(1, self.balance)


def replies(store: KnownStore | None = None) -> Replies:
    kept: Any = store or KnownStore()
    return Replies(Balances(kept), BASE)


def body_of(reply: Reply) -> Any:
    parts = reply.pieces if isinstance(reply.pieces, tuple) else (reply.body,)
    return orjson.loads(b"".join(parts))


def headers_of(reply: Reply) -> dict[bytes, bytes]:
    pairs = pairs_of(reply.headers)
    assert len(dict(pairs)) == len(pairs), "a header is repeated"
    return dict(pairs)


def request(caller: Caller | None = CALLER) -> Request:
    return Request("req_1", "GET", "/v1/github/profile", b"", {}, 0.0, caller)


# Billed calls


@given(st.integers(0, 100), BALANCES, st.booleans(), st.sampled_from([SMALL, LARGE]))
def test_response_headers_match_the_body(used: int, balance: int | None, cached: bool, stored: bytes) -> None:
    reply = replies().data(REQUEST, CallResult(stored, used, balance, 0.5, 0.1, 0.2, cached))
    body = body_of(reply)
    assert (body["credits_used"], body["credits_remaining"], body["cached"]) == (used, balance, cached)
    expected = {
        b"x-credits-used": b"%d" % used,
        b"x-cache": b"HIT" if cached else b"MISS",
        b"cache-control": b"private",
    }
    if balance is not None:
        expected[b"x-credits-remaining"] = b"%d" % balance
    assert headers_of(reply) == expected
    assert (reply.status, reply.code, reply.content_type, reply.credits_used) == (200, "OK", b"application/json", used)
    assert (reply.upstream_s, reply.charge_s, reply.close_s, reply.request_id) == (0.5, 0.1, 0.2, None)


def test_large_fragment_is_shared_and_never_copied() -> None:
    reply = replies().data(REQUEST, CallResult(LARGE, 1, 9))
    assert isinstance(reply.pieces, tuple)
    assert reply.pieces[1] is LARGE
    assert reply.body == b""
    assert body_of(reply)["data"] == {"bio": "x" * 20_000}


@pytest.mark.parametrize("stored", [SMALL, LARGE])
def test_replay_is_free_and_has_the_first_request_id(stored: bytes) -> None:
    result = CallResult(stored, 5, 77, replayed=StoredReply(200, stored.decode(), "req_first", cached=True))
    reply = replies().data(REQUEST, result)
    body = body_of(reply)
    assert (body["credits_used"], body["credits_remaining"], body["request_id"]) == (0, 77, "req_first")
    assert (body["idempotent_replay"], body["cached"]) == (True, True)
    assert headers_of(reply) == {
        b"x-credits-used": b"0",
        b"x-credits-remaining": b"77",
        b"x-idempotent-replay": b"true",
        b"cache-control": b"private",
    }
    assert (reply.status, reply.code, reply.request_id, reply.credits_used) == (200, "OK", "req_first", 0)


def test_replayed_error_is_returned_and_logged_as_the_original() -> None:
    stored = error_fragment(Refused("RESOURCE_NOT_FOUND", "x" * 20_000), BASE)
    result = CallResult(stored, 0, None, replayed=StoredReply(404, stored.decode(), "req_first"))
    reply = replies().data(REQUEST, result)
    assert (reply.status, reply.code, reply.pieces) == (404, "RESOURCE_NOT_FOUND", None)
    assert body_of(reply)["success"] is False
    assert b"x-credits-remaining" not in headers_of(reply)


# Free reads


@pytest.mark.parametrize("data", [{"a": 1}, {"a": "x" * 20_000}])
async def test_free_read_has_the_balance_and_no_cache(data: dict[str, Any]) -> None:
    store = KnownStore()
    one = replies(store)
    for _ in range(3):
        reply = await one.free(REQUEST, CALLER, account_fragment("/v1/credits/balance", data))
        body = body_of(reply)
        assert (body["platform"], body["endpoint"], body["data"]) == ("account", "/v1/credits/balance", data)
        assert (body["credits_used"], body["credits_remaining"], body["cached"]) == (0, 55, False)
        assert headers_of(reply) == {b"x-credits-used": b"0", b"x-credits-remaining": b"55"}
    assert store.reads == 1, "a known balance is not read again"


async def test_response_without_store_omits_the_balance() -> None:
    store = KnownStore(None)
    reply = await replies(store).free(REQUEST, CALLER, account_fragment("/v1/a", {}))
    assert body_of(reply)["credits_remaining"] is None
    assert headers_of(reply) == {b"x-credits-used": b"0"}
    store = KnownStore()
    reply = await replies(store).refusal(request(), StoreUnavailable("away"))
    assert (reply.status, body_of(reply)["credits_remaining"], store.reads) == (503, None, 0)
    assert headers_of(reply) == {b"x-credits-used": b"0", b"retry-after": b"1"}


# Rejections


async def test_rejection_of_a_known_account_has_its_balance() -> None:
    reply = await replies().refusal(request(), Refused("INVALID_REQUEST", "Why.", details={"reason": "x"}))
    body = body_of(reply)
    assert (reply.status, reply.code, body["error"]["details"]) == (400, "INVALID_REQUEST", {"reason": "x"})
    assert (body["credits_used"], body["credits_remaining"], body["request_id"]) == (0, 55, "req_1")
    assert headers_of(reply) == {b"x-credits-used": b"0", b"x-credits-remaining": b"55"}
    assert body["error"]["doc_url"].startswith(BASE)


@pytest.mark.parametrize(
    ("caller", "exc"),
    [(None, KeyMissing()), (None, KeyUnusable("revoked")), (None, Throttled(9)), (CALLER, KeyUnusable("revoked"))],
)
async def test_caller_without_a_valid_key_gets_no_balance(caller: Caller | None, exc: Exception) -> None:
    store = KnownStore()
    reply = await replies(store).refusal(request(caller), exc)
    assert (body_of(reply)["credits_remaining"], store.reads) == (None, 0)
    assert b"x-credits-remaining" not in headers_of(reply)
    assert (b"x-credits-used" in headers_of(reply)) == (caller is not None)


async def test_rejection_headers_are_kept() -> None:
    reply = await replies().refusal(request(), ConcurrencyReached(50))
    shown = {b"x-credits-used": b"0", b"x-credits-remaining": b"55"}
    concurrency = {b"x-concurrency-limit": b"50", b"x-concurrency-remaining": b"0", b"retry-after": b"1"}
    assert headers_of(reply) == shown | concurrency
    bare = await replies().bare(CALLER, Reply(204, b"", ((b"allow",), (b"GET",))))
    assert headers_of(bare) == shown | {b"allow": b"GET"}


@pytest.mark.parametrize(
    ("cause", "status", "used", "balance"),
    [
        (UpstreamFailed("api", "status 500"), 502, 0, 100),
        (UpstreamFailed("api", "status 500"), 502, 5, 95),  # the refund did not commit (7.1)
        (NotFound(), 404, 0, None),
        (ZeroDivisionError(), 500, 0, 100),
    ],
)
async def test_failed_call_reports_cause_credits_used_and_balance(
    cause: Exception, status: int, used: int, balance: int | None
) -> None:
    store = KnownStore()
    failed = CallFailed(used, balance, 1.5)
    failed.__cause__ = cause
    reply = await replies(store).refusal(request(), failed)
    body = body_of(reply)
    assert (reply.status, body["credits_used"], body["credits_remaining"]) == (status, used, balance)
    assert headers_of(reply)[b"x-credits-used"] == b"%d" % used
    assert (reply.upstream_s, reply.credits_used, store.reads) == (1.5, used, 0)
