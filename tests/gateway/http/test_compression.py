"""Compressed responses: the client's header decides, every stream decompresses to the body, the cache is bounded."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.compression import LEAST_BYTES, Compression, coding_of
from gateway.http.envelope import success
from gateway.http.request import Reply
from gateway.server.http1.fields import pairs_of

CODINGS = {
    b"gzip": b"gzip",
    b"GZIP": b"gzip",
    b"x-gzip": b"gzip",
    b"br": b"br",
    b"gzip, deflate, br": b"gzip",
    b"gzip;q=0.5, br;q=0.8": b"br",
    b"br;q=0.5, gzip;q=0.8": b"gzip",
    b"*": b"gzip",
    b"gzip;q=0, *": b"br",
    b"identity;q=1, gzip;q=0.5": None,
    b"identity, gzip": b"gzip",
    b"identity;q=0.5, *;q=0": None,
    b"gzip;q=0": None,
    b"deflate": None,
    b"zstd, deflate": None,
    b"": None,
}


@pytest.mark.parametrize(("accepted", "coding"), CODINGS.items())
def test_most_preferred_coding_is_used(accepted: bytes, coding: bytes | None) -> None:
    assert coding_of(accepted) == coding


def test_overlong_header_disables_compression() -> None:
    assert coding_of(b"gzip" + b", x" * 100) == b"gzip"
    assert coding_of(b"gzip" + b", x" * 10_000) is None, "the cached headers are limited in bytes"


def envelope(stored: bytes, request_id: str = "req_1", credits_used: int = 0) -> bytes:
    return success(stored, request_id=request_id, credits_used=credits_used, balance=None, cached=True)


async def packed(compression: Compression, reply: Reply, accepted: bytes = b"gzip") -> bytes:
    await compression.apply(reply, accepted)
    return b"".join(reply.pieces) if isinstance(reply.pieces, tuple) else reply.body


def whole(data: bytes) -> bytes:
    """Read like a client that accepts only one gzip member."""
    expanding = zlib.decompressobj(zlib.MAX_WBITS | 16)
    body = expanding.decompress(data) + expanding.flush()
    assert (expanding.eof, expanding.unused_data) == (True, b"")
    return body


@given(st.binary(min_size=LEAST_BYTES + 1, max_size=4_000), st.sampled_from([1, 5, 40]))
async def test_every_body_decompresses_to_itself(filling: bytes, times: int) -> None:
    compression = Compression()
    for body in (filling * times, envelope(b'"data":"' + filling.hex().encode() * times + b'"')):
        assert whole(await packed(compression, Reply(200, body))) == body
        assert brotli.decompress(await packed(compression, Reply(200, body), b"br")) == body


READS = {b"gzip": whole, b"br": brotli.decompress}


@pytest.mark.parametrize(("coding", "shared_at"), [(b"gzip", 1), (b"br", 0)])
async def test_responses_with_the_same_part_share_its_compressed_form(coding: bytes, shared_at: int) -> None:
    """Goal: a long part is compressed once. Method: the cache does not grow, and the parts are the same objects."""
    compression, stored = Compression(), b'"data":[' + b",".join(b"%d" % number for number in range(20_000)) + b"]"
    seen = []
    for number in range(3):
        body = envelope(stored, f"req_{number}", number)
        at = body.index(stored)
        for reply in (Reply(200, body), Reply(200, b"", pieces=(body[:at], stored, body[at + len(stored) :]))):
            assert READS[coding](await packed(compression, reply, coding)) == body
            assert isinstance(reply.pieces, tuple), "a long part is not copied for each client"
            seen.append((compression.bytes, reply.pieces[shared_at]))
            headers = dict(pairs_of(reply.headers))
            assert (headers[b"content-encoding"], headers[b"vary"]) == (coding, b"accept-encoding")
    assert all(size == seen[0][0] and part is seen[0][1] for size, part in seen)


async def test_part_with_another_start_has_its_own_brotli_form() -> None:
    """Brotli blocks depend on their position, so the same part is compressed for each start."""
    compression, stored = Compression(), b"a long part, " * 200
    for start in (b"", b'{"success":true,', b'{"success":false,'):
        for end in (b"", b"}", b"x" * 2**16):
            reply = Reply(200, b"", pieces=(start, stored, end))
            assert brotli.decompress(await packed(compression, reply, b"br")) == start + stored + end


async def test_short_or_empty_body_is_not_compressed() -> None:
    for reply in (Reply(200, b"x" * LEAST_BYTES), Reply(304, b""), Reply(204, b"")):
        before = reply.body
        await Compression().apply(reply, b"gzip, br")
        assert (reply.body, reply.headers) == (before, ((), ()))


async def test_cache_is_bounded_and_evicts_least_recently_used() -> None:
    compression = Compression(bytes_max=5_400)
    first, second, third = (bytes([letter]) * 2_000 for letter in b"abc")
    for body in (first, second, first, third):
        assert gzip.decompress(await packed(compression, Reply(200, body))) == body
        assert compression.bytes <= 5_400
    assert [shared for _, _, shared in compression._packed] == [first, third]
    assert gzip.decompress(await packed(compression, Reply(200, b"y" * 9_000))) == b"y" * 9_000
    assert [shared for _, _, shared in compression._packed] == [first, third], "an entry above the limit is not cached"
