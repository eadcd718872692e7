from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.errors import RequestRefused
from gateway.server.http1.request_body import TRAILER_BYTES, Body, ChunkedBody, CountedBody

BEHIND = b"GET /next HTTP/1.1\r\n"
CHUNKED = b'4;x="y"\r\nWiki\r\n005\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n0;last\r\nExpires: never\r\nX-Sum:\r\n\r\n'


def take_all(body: Body, pieces: list[bytes]) -> tuple[bytes, bytes]:
    decoded = behind = b""
    for piece in pieces:
        if body.done:
            behind += piece
        else:
            found, rest = body.take(piece)
            decoded += found
            behind += rest
    return decoded, behind


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % len(data) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start != end]


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0), max_size=12))
def test_chunked_body_parses_the_same_in_any_pieces(places: list[int]):
    body = ChunkedBody()
    assert take_all(body, cut(CHUNKED + BEHIND, places)) == (b"Wikipedia in\r\n\r\nchunks.", BEHIND)
    assert body.done


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0), max_size=12), st.binary(max_size=50))
def test_counted_body_parses_the_same_in_any_pieces(places: list[int], content: bytes):
    body = CountedBody(len(content))
    assert take_all(body, cut(content + BEHIND, places)) == (content, BEHIND)
    assert body.done


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=30)))
def test_chunks_round_trip(chunks: list[bytes]):
    written = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    assert take_all(ChunkedBody(), [written]) == (b"".join(chunks), b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"5\nhello",
        b" 5\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"-1\r\n",
        b"0x5\r\nhello\r\n",
        b"5_0\r\n",
        b"1000000000000000\r\n",
        b"5;\x00\r\n",
        b"5;a\nb\r\n",
        b"5;a\rb\r\n",
        b"5;" + b"a" * 300,
        b"5;" + b"a" * 300 + b"\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n folded: x\r\n\r\n",
        b"0\r\nname : x\r\n\r\n",
        b"0\r\nname: a\x00\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * TRAILER_BYTES,
        b"0\r\na: " + b"b" * TRAILER_BYTES * 2,
    ],
)
def test_malformed_chunks_are_refused(data: bytes):
    with pytest.raises(RequestRefused) as caught:
        ChunkedBody().take(data)
    assert caught.value.status == 400


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash_the_chunk_reader(data: bytes):
    with suppress(RequestRefused):
        ChunkedBody().take(data)
