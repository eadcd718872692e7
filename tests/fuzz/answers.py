"""The answers of upstreams: valid ones, which are then mutated and cut."""

from hypothesis import strategies as st

from tests.fuzz.mutations import CUTS, MUTATIONS, Mutation, mutated
from tests.fuzz.requests import CHUNKED, COUNTED, MOSTLY
from tests.fuzz.upstream import Turn

LINES = st.sampled_from(
    [b"HTTP/1.1 200 OK"] * 4
    + [b"HTTP/1.1 404", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified", b"HTTP/1.1 999 X"]
)
INTERIM = st.sampled_from([b""] * 6 + [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n"])
FIELDS = st.sampled_from(
    [
        b"X: y",
        b"X:",
        b"Connection: keep-alive",
        b"Connection: close",
        b"connection: x, close",
        b"Content-Encoding: gzip",
        b"Set-Cookie: a=b",
        b"Content-Length: 3",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length : 3",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding : chunked",
        b"Upgrade: h2c",
        b"X: y\rContent-Length: 3",
        b"X: y\nContent-Length: 3",
        b" X: y",
        b"X",
    ]
)
SOUND_FIELDS = st.sampled_from([b"X: y", b"X:", b"Connection: keep-alive", b"Connection: close", b"Set-Cookie: a=b"])
TO_THE_END = st.just((b"", b"to the end"))


def answer(interim: bytes, line: bytes, fields: list[bytes], framed: tuple[bytes, bytes]) -> bytes:
    """One answer."""
    framing, body = framed
    return interim + b"\r\n".join([line, *fields, *([framing] if framing else [])]) + b"\r\n\r\n" + body


def turn(  # each one is drawn by Hypothesis
    method: str, data: bytes, surplus: bytes, mutations: list[Mutation], cuts: list[int], pause_s: float, ends: bool
) -> Turn:
    """Build a turn from the values that Hypothesis draws."""
    return Turn(method, mutated(data + surplus, mutations), tuple(cuts), pause_s, ends)


METHODS = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST"])
FRAMED = st.one_of(COUNTED, CHUNKED, TO_THE_END)
SURPLUS = st.sampled_from([b""] * 5 + [b"x", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nX"])
PAUSES_S = st.sampled_from([0.0, 0.0, 0.0, 3.0])
ANSWERS = st.builds(answer, INTERIM, LINES, st.lists(FIELDS, max_size=3), FRAMED)
TURN = st.builds(turn, METHODS, ANSWERS, SURPLUS, MUTATIONS, CUTS, PAUSES_S, MOSTLY)
TURNS = st.lists(TURN, min_size=1, max_size=3).map(tuple)

SOUND_ANSWERS = st.builds(
    answer, INTERIM, st.just(b"HTTP/1.1 200 OK"), st.lists(SOUND_FIELDS, max_size=3), st.one_of(COUNTED, CHUNKED)
)
SOUND_TURN = st.builds(
    turn, st.just("GET"), SOUND_ANSWERS, st.just(b""), st.just([]), CUTS, st.just(0.0), st.just(value=False)
)
SOUND_TURNS = st.lists(SOUND_TURN, min_size=1, max_size=4).map(tuple)
