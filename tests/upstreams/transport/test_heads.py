"""Goal: `ordinary_head` and `careful_head` parse every answer in the same way.

Method: both parse the same bytes, with and without odd ones, in one piece and in several, with and without cached
lines.
"""

from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upstreams.transport.answer_parser import AnswerParser
from upstreams.transport.http import HttpAnswer, ResponseTooLarge
from upstreams.transport.ordinary_head import CHUNKED as CHUNKED_LENGTH
from upstreams.transport.ordinary_head import AnswerHead, AnswerHeadReader

HEADER_BYTES_MAX = 400
BODY_BYTES_MAX = 60
ONE_READER = AnswerHeadReader()
"""Lines stay cached between examples, as they do between answers."""

STATUS_LINES = st.one_of(
    st.sampled_from([200, 201, 204, 205, 206, 299, 301, 304, 404, 429, 500, 503, 599]).map("HTTP/1.1 {} OK".format),
    st.sampled_from([99, 100, 101, 103, 600, 999, 20, 2000, "", "\t200"]).map("HTTP/1.1 {} OK".format),
    st.sampled_from(["", " ", " \t", "\tOK", " \x7f", " \xe9", " a: b", " OK\r", "\nX: 1"]).map(
        "HTTP/1.1 200{}".format
    ),
    st.sampled_from(["HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", " HTTP/1.1", "\r\nHTTP/1.1", ""]).map(
        "{} 200 OK".format
    ),
    st.sampled_from(["", "X-A: 1"]),
)
FRAMING_NAMES = "content-length|Content-Length|connection|transfer-encoding|Upgrade|proxy-connection|keep-alive|trailer"
ODD_NAMES = "HTTP/1.1 200 OK|x a|x\xe9|| x|x |x\t|!#$%&'*+-.^_`~|x\0|(x)|x@y"
NAMES = st.sampled_from(f"X-A|x-a|date|content-encoding|{FRAMING_NAMES}|{ODD_NAMES}".split("|"))
FRAMING_VALUES = "close|Close|keep-alive|Keep-Alive|keep-alive, close|upgrade|h2c|chunked|gzip|identity"
LENGTH_VALUES = "0|2|5|05|+5|-1|5 | 5|5,5|5, 5|0x5|99999999999999999999|61|\xb2|| |\t"
TEXT_VALUES = "a|a b|a  b |a\tb|\ta|a\0b|a\x7f|\xe9|a: b|a\rb|a\nb|a\r\n b"
VALUES = st.one_of(
    st.sampled_from(f"{FRAMING_VALUES}|{LENGTH_VALUES}|{TEXT_VALUES}".split("|")),
    st.text(st.characters(max_codepoint=255), max_size=8),
    st.just("x" * 300),
)
SEPARATORS = st.sampled_from([": "] * 12 + [":"] * 3 + [":  ", ":\t", " : ", "", " "])
LINE_ENDS = st.sampled_from(["\r\n"] * 20 + ["\n", "\r", "\r\r\n"])
LINES = st.builds("{}{}{}{}".format, NAMES, SEPARATORS, VALUES, LINE_ENDS)
LENGTHS = st.integers(0, 9).map("Content-Length: {}\r\n".format)
FRAMINGS = LENGTHS | st.sampled_from(["Transfer-Encoding: chunked\r\n", "transfer-encoding: Chunked\r\n"])
ORDINARY_NAMES = ["X-A", "x-a", "Date", "set-cookie", "connection", "Connection"]
ORDINARY_VALUES = [
    "keep-alive",
    "close",
    "a",
    "some value, and more",
    "",
    '"quoted"',
    "Keep-Alive",
    "chunked",
    "upgrade",
]
ORDINARY_LINES = st.builds(
    "{}: {}\r\n".format,
    st.sampled_from([*ORDINARY_NAMES, "proxy-connection", "transfer-encoding", "upgrade"]),
    st.sampled_from(ORDINARY_VALUES),
)
ODD_HEADS = st.tuples(STATUS_LINES, st.just("\r\n"), st.lists(LINES | LENGTHS, max_size=5).map("".join), LINE_ENDS)
ORDINARY_HEADS = st.tuples(
    st.sampled_from([200, 200, 200, 404, 404, 204, 304, 205, 101, 600]).map("HTTP/1.1 {} It is".format),
    st.just("\r\n"),
    st.tuples(FRAMINGS, ORDINARY_LINES, ORDINARY_LINES, ORDINARY_LINES).flatmap(st.permutations).map("".join),
    st.just("\r\n"),
)
HEADS = st.one_of(ODD_HEADS, ORDINARY_HEADS).map(lambda parts: "".join(parts).encode("latin-1"))
CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"
BODIES = st.one_of(
    st.sampled_from([b"", b"{}", b"hello", b"hello world", CHUNKED, b"\r\n", b"hello\r\n", b"x" * 70]),
    st.sampled_from([CHUNKED + b"\r\n", CHUNKED + b"HTTP", CHUNKED[:-2] + b"X-A: b\r\n\r\n", b"3;" + b"x" * 400]),
    st.binary(max_size=9),
)


class NoReader(AnswerHeadReader):
    """Leaves every head to `careful_head`."""

    def read(self, data: bytes) -> AnswerHead | None:
        """Treats no head as ordinary."""
        return None


@dataclass(frozen=True, slots=True)
class Reading:
    """The parsed answer. `failure` is the kind of refusal, if it was refused."""

    answer: HttpAnswer | None
    failure: type[Exception] | None
    complete: bool
    reusable: bool


def read(reader: AnswerHeadReader, pieces: list[bytes], method: str = "GET") -> Reading:
    parser = AnswerParser(reader, header_bytes_max=HEADER_BYTES_MAX, body_bytes_max=BODY_BYTES_MAX)
    parser.begin(method)
    answer = failure = None
    try:
        for piece in pieces:
            if piece and not parser.complete:
                parser.feed(piece)
        complete = parser.complete
        if not complete:
            parser.end()
        answer = parser.answer()
    except (httpx.RequestError, ResponseTooLarge) as exc:
        failure, complete = type(exc), parser.complete
    return Reading(answer, failure, complete, parser.reusable)


def cut(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(whole), *(at % (len(whole) + 1) for at in cuts)})
    return [whole[start:end] for start, end in pairwise(edges)]


def check_alike(pieces: list[bytes], method: str = "GET") -> None:
    """Check that both parse the same answer, or refuse it for the same reason.

    They must also agree on whether the connection can be reused.
    """
    careful = read(NoReader(), pieces, method)
    for reader in (AnswerHeadReader(), ONE_READER, ONE_READER):
        assert read(reader, pieces, method) == careful


@settings(max_examples=400, deadline=None)
@given(HEADS, BODIES, st.sampled_from(["GET", "GET", "HEAD", "POST"]))
def test_answer_in_one_piece_parses_like_careful_head(head: bytes, body: bytes, method: str):
    check_alike([head + body], method)


@settings(max_examples=200, deadline=None)
@given(HEADS, BODIES, st.lists(st.integers(0, 500), max_size=4))
def test_answer_in_pieces_parses_like_careful_head(head: bytes, body: bytes, cuts: list[int]):
    check_alike([head, *cut(body, cuts)])
    check_alike(cut(head + body, cuts))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_answer_with_one_odd_byte_parses_like_careful_head(data: st.DataObject):
    head = data.draw(ORDINARY_HEADS.map(lambda parts: "".join(parts).encode("latin-1")))
    at, byte = data.draw(st.integers(0, len(head) - 1)), data.draw(st.integers(0, 255))
    replaced = data.draw(st.booleans())
    check_alike([head[:at] + bytes([byte]) + head[at + replaced :] + data.draw(BODIES)])


@pytest.mark.parametrize("byte", range(256))
def test_each_byte_in_a_line_parses_like_careful_head(byte: int):
    odd = bytes([byte])
    for line in (b"a%sb: c", b"%sb: c", b"a%s: c", b"a:%sc", b"a: %sc", b"a: b%sc", b"a: c%s"):
        check_alike([b"HTTP/1.1 200 OK\r\n" + line.replace(b"%s", odd) + b"\r\nContent-Length: 2\r\n\r\n{}"])
    for line in (b"HTTP/1.1 200 %s", b"HTTP/1.1 200%sOK", b"HTTP/1.1 2%s0 OK", b"HTTP/1.%s 200 OK"):
        check_alike([line.replace(b"%s", odd) + b"\r\nContent-Length: 2\r\n\r\n{}"])


def test_ordinary_answer_is_parsed_by_ordinary_head():
    cookies = b"Set-Cookie: a\r\nset-cookie: b\r\n"
    head = b"HTTP/1.1 200 OK\r\n" + cookies + b"Content-Length: 2\r\nConnection: keep-alive\r\n\r\n"
    found = AnswerHeadReader().read(head + b"{}")
    assert found is not None
    status, headers, body_at, body_bytes, persistent = found
    assert (status, body_at, body_bytes, persistent) == (200, len(head), 2, True)
    assert headers["set-cookie"] == "a, b"


def test_chunked_body_after_an_ordinary_head_is_parsed():
    for connection, reusable in (("keep-alive", True), ("close", False)):
        head = (
            f"HTTP/1.1 404 No\r\nServer: x\r\nConnection: {connection}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        found = AnswerHeadReader().read(head)
        assert found is not None
        assert found[3] == CHUNKED_LENGTH
        reading = read(AnswerHeadReader(), [head + CHUNKED])
        assert reading.answer is not None
        assert (reading.answer.status, reading.answer.headers["server"], reading.answer.body) == (404, "x", b"hello")
        assert reading.reusable is reusable


def test_line_cache_is_bounded():
    reader = AnswerHeadReader()
    for number in range(3_000):
        lines = b"X-Long-%d: %s\r\nX-%d: 1\r\n" % (number, b"x" * 300, number)
        assert reader.read(b"HTTP/1.1 200 OK %d\r\n" % number + lines + b"Content-Length: 0\r\n\r\n") is not None
    assert len(reader._fields) <= 1_024
    assert len(reader._statuses) <= 1_024
    assert max(map(len, reader._fields)) <= 256
