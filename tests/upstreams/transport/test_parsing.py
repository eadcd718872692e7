"""The parts without sockets: writing requests, parsing answers from arbitrary pieces, and decoding bodies."""

import gzip
import tracemalloc
import zlib
from itertools import pairwise

import brotli
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.decoding import decode_body
from upstreams.transport.http import HttpAnswer, HttpCall, ResponseTooLarge
from upstreams.transport.ordinary_head import AnswerHeadReader
from upstreams.transport.origin import Origin
from upstreams.transport.pooled import header_lines, request_bytes

ORIGIN = Origin("http", "h.example", 80)
CAP = 10_000


def _parse(pieces: list[bytes], *, closed: bool, method: str = "GET") -> tuple[HttpAnswer, bool]:
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=CAP, body_bytes_max=CAP)
    parser.begin(method)
    for piece in pieces:
        if piece:
            parser.feed(piece)
    if closed and not parser.complete:
        parser.end()
    assert parser.complete
    return parser.answer(), parser.reusable


def _cut(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    return [whole[start:end] for start, end in pairwise(edges)]


def _chunked(body: bytes, size: int) -> bytes:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"


@given(
    body=st.binary(max_size=300),
    framing=st.sampled_from(["length", "chunked", "close"]),
    packing=st.sampled_from(["", "gzip", "deflate", "br"]),
    interim=st.integers(0, 2),
    size=st.integers(1, 50),
    cuts=st.lists(st.integers(0, 2000), max_size=30),
)
def test_answer_parses_the_same_in_any_pieces(
    body: bytes, framing: str, packing: str, interim: int, size: int, cuts: list[int]
):
    packed = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[packing](body)
    head = b"HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n" * interim + b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a:  2 \r\n"
    head += f"Content-Encoding: {packing}\r\n".encode() if packing else b""
    framed = {
        "length": b"Content-Length: %d\r\n\r\n%s" % (len(packed), packed),
        "chunked": b"Transfer-Encoding: chunked\r\n\r\n" + _chunked(packed, size),
        "close": b"\r\n" + packed,
    }[framing]
    whole = _parse([head + framed], closed=True)
    in_pieces = _parse(_cut(head + framed, cuts), closed=True)
    assert whole == in_pieces
    answer, reusable = in_pieces
    assert (answer.status, answer.body, reusable) == (200, body, framing != "close")
    assert answer.headers["x-a"].replace(" ", "") == "1,2"
    assert "x-interim" not in answer.headers
    assert "trailer" not in answer.headers


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_any_bytes_give_an_answer_or_a_protocol_error(junk: bytes, cuts: list[int]):
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        try:
            _parse(_cut(start + junk, cuts), closed=True)
        except (httpx.RemoteProtocolError, httpx.DecodingError, ResponseTooLarge):
            continue


@given(st.lists(st.tuples(st.sampled_from(["GET", "HEAD"]), st.binary(max_size=50)), max_size=10), st.integers(1, 40))
def test_parser_handles_consecutive_answers(calls: list[tuple[str, bytes]], size: int):
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=CAP, body_bytes_max=CAP)
    for method, body in calls:
        parser.begin(method)
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + (body if method == "GET" else b"")
        for at in range(0, len(whole), size):
            assert not parser.complete
            parser.feed(whole[at : at + size])
        assert parser.reusable
        assert parser.answer().body == (body if method == "GET" else b"")


def test_framing_without_body_counts_as_header_bytes():
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=1000, body_bytes_max=CAP)
    parser.begin("GET")
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    parser.feed(b"1;" + b"x" * 900)
    with pytest.raises(httpx.RemoteProtocolError):
        parser.feed(b"x" * 200)


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-Gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body)[2:-4]),
        ("br", brotli.compress),
        ("identity", bytes),
        ("", bytes),
        ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
        (" deflate ,identity, GZIP", lambda body: gzip.compress(zlib.compress(body))),
        ("gzip", lambda body: gzip.compress(body[:100]) + gzip.compress(body[100:])),
        ("gzip", lambda body: gzip.compress(body) + b"\0" * 20),
        ("gzip", lambda body: gzip.compress(body) + b"garbage"),
        ("gzip", lambda body: gzip.compress(body[:100]) + gzip.compress(body[100:]) + b"\x1f\x8b"),
        *((name, bytes) for name in ("UTF-8", "none", "text/html", "aws-chunked", "identity, 8bit")),
        ("utf-8, gzip", gzip.compress),
    ],
)
def test_codings_are_decoded_up_to_the_limit(coding: str, pack):
    body = bytes(range(256)) * 4
    assert decode_body(pack(body), coding, body_bytes_max=len(body)) == body
    if pack is not bytes:
        with pytest.raises(ResponseTooLarge):
            decode_body(pack(body), coding, body_bytes_max=len(body) - 1)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_empty_body_needs_no_decoding(coding: str):
    assert decode_body(b"", coding, body_bytes_max=CAP) == b""


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"plain text"),
        ("gzip", gzip.compress(b"text", mtime=0)[:-1]),
        ("gzip", gzip.compress(b"text", mtime=0)[:-8] + b"\0" * 8),
        ("gzip", gzip.compress(b"text", mtime=0) + gzip.compress(b"text", mtime=0)[:-1]),
        ("gzip", gzip.compress(b"", mtime=0) * 17),
        ("deflate", b"\xff\xff\xff"),
        ("deflate", zlib.compress(b"text")[:-5]),
        ("br", b"plain text"),
        ("br", brotli.compress(b"text")[:-2]),
        *((name, b"anything") for name in ("zstd", "compress", "x-compress", "lzma", "utf-8, zstd")),
        ("gzip, gzip, gzip, gzip", b"anything"),
    ],
)
def test_undecodable_body_raises_decoding_error(coding: str, body: bytes):
    with pytest.raises(httpx.DecodingError):
        decode_body(body, coding, body_bytes_max=CAP)


@pytest.mark.parametrize(
    ("coding", "bomb"),
    [
        ("gzip", gzip.compress(b"\0" * 10_000_000)),
        ("deflate", zlib.compress(b"\0" * 10_000_000)),
        ("br", brotli.compress(b"\0" * 10_000_000)),
        ("gzip, br", brotli.compress(gzip.compress(b"\0" * 10_000_000))),
        ("gzip, gzip", gzip.compress(b"\0" * 10_000_000)),
    ],
)
def test_compression_bomb_stops_at_the_limit(coding: str, bomb: bytes):
    with pytest.raises(ResponseTooLarge):
        decode_body(bomb, coding, body_bytes_max=CAP)


def test_stacked_codings_must_not_expand_much() -> None:
    """Goal: several codings on one body cost no more than a single one. Method: gzip within gzip."""
    packed = gzip.compress(gzip.compress(b"\0" * 200_000_000))
    with pytest.raises(ResponseTooLarge):
        decode_body(packed, "gzip, gzip", body_bytes_max=300_000_000)


def test_body_in_single_bytes_uses_memory_of_its_length() -> None:
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=1_000, body_bytes_max=10_000_000)
    pieces = b"1\r\nx\r\n2\r\nyz\r\n" * 5_000
    parser.begin("GET")
    tracemalloc.start()
    try:
        parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            parser.feed(pieces)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        parser.feed(b"0\r\n\r\n")
        assert parser.answer().body == b"xyz" * 100_000
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()


def test_answer_with_too_many_headers_is_refused() -> None:
    parser = AnswerParser(AnswerHeadReader(), header_bytes_max=1_000_000, body_bytes_max=CAP)
    parser.begin("GET")
    with pytest.raises(httpx.RemoteProtocolError, match="longer than 1000 lines"):
        parser.feed(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2_000 + b"\r\n")


def _write(call: HttpCall) -> bytes:
    return request_bytes(call, target=call.target, headers=header_lines(call.origin.authority, call.headers))


@pytest.mark.parametrize(
    "call",
    [
        HttpCall("GET", ORIGIN, "/a\r\nX: y"),
        HttpCall("GET", ORIGIN, "/a\nb"),
        HttpCall("GET", ORIGIN, "/a\0"),
        HttpCall("GET", ORIGIN, "/a b"),
        HttpCall("GET", ORIGIN, "/é"),
        HttpCall("GET", ORIGIN, "a"),
        HttpCall("GET", ORIGIN, ""),
        HttpCall("GET /x HTTP/1.1\r\n", ORIGIN, "/"),
        HttpCall("", ORIGIN, "/"),
        HttpCall("GET", ORIGIN, "/", (("X", "a\r\nY: b"),)),
        HttpCall("GET", ORIGIN, "/", (("X", "a\rb"),)),
        HttpCall("GET", ORIGIN, "/", (("X", "a\nb"),)),
        HttpCall("GET", ORIGIN, "/", (("X", "a\n\rb"),)),
        HttpCall("GET", ORIGIN, "/", (("X", "a\0b"),)),
        HttpCall("GET", ORIGIN, "/", (("X\r\nY", "a"),)),
        HttpCall("GET", ORIGIN, "/", (("X Y", "a"),)),
        HttpCall("GET", ORIGIN, "/", (("X:", "a"),)),
        HttpCall("GET", ORIGIN, "/", (("", "a"),)),
        HttpCall("GET", ORIGIN, "/", (("X", "\u20ac"),)),
        HttpCall("GET", ORIGIN, "/", (("HOST", "other"),)),
        HttpCall("GET", ORIGIN, "/", (("content-length", "5"),)),
        HttpCall("GET", ORIGIN, "/", (("Transfer-Encoding", "chunked"),)),
    ],
)
def test_smuggling_call_is_refused(call: HttpCall):
    with pytest.raises(httpx.LocalProtocolError):
        _write(call)


@given(target=st.text(max_size=20), headers=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=4))
def test_written_request_is_one_request_with_its_headers(target: str, headers: list[tuple[str, str]]):
    try:
        written = _write(HttpCall("GET", ORIGIN, "/" + target, tuple(headers)))
    except httpx.LocalProtocolError:
        return
    lines = written.split(b"\r\n")
    assert lines[0] == f"GET /{target} HTTP/1.1".encode()
    assert len(lines) == 2 + len(headers) + 2 + (not any(n.lower() == "accept-encoding" for n, _ in headers))
    assert lines[-2:] == [b"", b""]
    assert [line.decode("latin-1") for line in lines[2 : 2 + len(headers)]] == [f"{n}: {v}" for n, v in headers]
