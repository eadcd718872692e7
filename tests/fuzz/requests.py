"""The requests of clients: valid requests in sequence, which are then mutated and cut."""

from hypothesis import strategies as st

from tests.fuzz.edge import Attack
from tests.fuzz.mutations import CUTS, MUTATIONS, Mutation, mutated

METHODS = st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"DELETE"])
PATHS = st.sampled_from([b"/read", b"/ignore", b"/stream", b"/early", b"/big", b"/read?a=%20b", b"http://a/read"])
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 4 + [b"HTTP/1.0"])
FIELDS = st.sampled_from(
    [
        b"X: y",
        b"X:",
        b"Accept: a, b",
        b"Connection: keep-alive",
        b"connection: x,close",
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Expect: 100-continue",
        b"X-High: \xe9\t",
    ]
)
UNSOUND_FIELDS = st.sampled_from(
    [
        b"Content-Length: 3",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length : 3",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding:\tchunked\t",
        b"Transfer-Encoding:\r\n chunked",
        b"Host: b",
        b"X: y\rContent-Length: 3",
        b"X: y\nContent-Length: 3",
        b" X: y",
        b"X",
        b"X: \0",
    ]
)


def chunks(sizes: list[int], extension: bytes, trailer: bytes) -> bytes:
    """Return a chunked body."""
    written = b"".join(b"%x%b\r\n%b\r\n" % (size, extension, b"c" * size) for size in sizes if size)
    return written + b"0" + extension + b"\r\n" + trailer + b"\r\n"


COUNTED = st.integers(0, 60).map(lambda size: (b"Content-Length: %d" % size, b"b" * size))
CHUNKED = st.builds(
    chunks,
    st.lists(st.integers(0, 40), max_size=4),
    st.sampled_from([b"", b"", b";a=b"]),
    st.sampled_from([b"", b"", b"T: v\r\n"]),
).map(lambda body: (b"Transfer-Encoding: chunked", body))
NO_BODY = st.just((b"", b""))


def request(method: bytes, path: bytes, version: bytes, fields: list[bytes], framed: tuple[bytes, bytes]) -> bytes:
    """Return a request. HTTP/1.0 has no chunks."""
    framing, body = framed
    if version == b"HTTP/1.0" and framing.startswith(b"Transfer"):
        framing, body = b"", b""
    lines = [b"%b %b %b" % (method, path, version), b"Host: a", *fields, *([framing] if framing else [])]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


UNSOUND_PATHS = st.sampled_from(
    [b" /read", b"/read ", b"read", b"*", b"http://b/read", b"http:///", b"//read", b"/a\tb"]
)
UNSOUND_VERSIONS = st.sampled_from(
    [b"HTTP/1.1"] * 4 + [b"RTSP/1.1", b"ICE/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1.1 "]
)
FRAMED = st.one_of(NO_BODY, COUNTED, CHUNKED)
SOUND = st.builds(request, METHODS, PATHS, VERSIONS, st.lists(FIELDS, max_size=3, unique=True), FRAMED)
UNSOUND = st.builds(
    request,
    METHODS,
    st.one_of(PATHS, UNSOUND_PATHS),
    UNSOUND_VERSIONS,
    st.lists(st.one_of(FIELDS, UNSOUND_FIELDS), max_size=4),
    FRAMED,
)


def attack(
    requests: list[bytes], mutations: list[Mutation], cuts: list[int], pause_s: float, ends: bool, reads: bool
) -> Attack:
    """Build an attack from the values that Hypothesis draws."""
    return Attack(mutated(b"".join(requests), mutations), tuple(cuts), pause_s, ends=ends, reads=reads)


PAUSES_S = st.sampled_from([0.0, 0.0, 0.0, 4.0, 20.0])
MOSTLY = st.sampled_from([True, True, True, True, False])
ATTACKS = st.builds(
    attack,
    st.lists(st.one_of(SOUND, SOUND, UNSOUND), min_size=1, max_size=4),
    MUTATIONS,
    CUTS,
    PAUSES_S,
    MOSTLY,
    MOSTLY,
)
SOUND_ATTACKS = st.builds(
    attack,
    st.lists(SOUND, min_size=1, max_size=5),
    st.just([]),
    CUTS,
    st.just(0.0),
    st.just(True),
    st.just(True),
)
