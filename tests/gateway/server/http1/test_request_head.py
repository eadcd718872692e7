from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.bounds import Bounds
from gateway.server.errors import RequestRefused
from gateway.server.http1.known_headers import KnownHeaders
from gateway.server.http1.request_head import Peer, RequestHead, RequestHeadReader

PEER = Peer(("127.0.0.1", 5), ("127.0.0.1", 80), None)
REQUEST = (
    b"POST http://a.example/caf%C3%A9%ff?q=%20 HTTP/1.1\r\nHost: a.example\r\nX-Blank: \t x \t\r\n"
    b"Content-Length: 3\r\nConnection: close\r\n\r\n"
)


def read(data: bytes) -> RequestHead:
    found = RequestHeadReader(PEER, Bounds(), KnownHeaders()).take(data)
    assert found is not None
    return found


@settings(deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=len(REQUEST) - 1), max_size=10, unique=True))
def test_head_parses_the_same_in_any_pieces(places: list[int]):
    reader = RequestHeadReader(PEER, Bounds(), KnownHeaders())
    ends = [*sorted(places), len(REQUEST)]
    starts = [0, *ends]
    pieces = [REQUEST[start:end] for start, end in zip(starts, ends, strict=False)]
    for piece in pieces[:-1]:
        assert reader.take(piece) is None
        assert reader.begun
    found = reader.take(pieces[-1] + b"abcGET")
    assert found is not None
    assert found.rest == b"abcGET"
    assert found.scope == read(REQUEST).scope
    assert found.body is not None
    assert not found.keep_alive
    assert not reader.begun


def test_scope_has_path_query_and_headers_as_asgi_requires():
    scope = read(REQUEST).scope
    assert scope["path"] == "/café�"
    assert scope["raw_path"] == b"/caf%C3%A9%ff"
    assert scope["query_string"] == b"q=%20"
    assert scope["headers"][:2] == [(b"host", b"a.example"), (b"x-blank", b"x")]
    assert scope["client"] == ("127.0.0.1", 5)
    assert "state" not in scope


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://h", b"/", b""),
        (b"http://h?a=/b", b"/", b"a=/b"),
        (b"HTTPS://h:1/x/y?z", b"/x/y", b"z"),
        (b"//h/x", b"//h/x", b""),
        (b"/?", b"/", b""),
    ],
)
def test_path_is_read_from_every_target_form(target: bytes, path: bytes, query: bytes):
    host = b"h:1" if b":1" in target else b"h"
    scope = read(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").scope
    assert (scope["raw_path"], scope["query_string"]) == (path, query)


def test_each_scope_has_its_own_copy_of_the_apps_state():
    state: dict[str, object] = {"db": 1}
    reader = RequestHeadReader(Peer(None, None, state), Bounds(), KnownHeaders())
    for _ in range(2):
        found = reader.take(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert found is not None
        assert found.scope["state"] == {"db": 1}
        found.scope["state"]["db"] = 2


@settings(deadline=None)
@given(st.binary(max_size=120), st.integers(min_value=0, max_value=len(REQUEST)))
def test_arbitrary_bytes_never_crash_the_head_reader(noise: bytes, at: int):
    reader = RequestHeadReader(PEER, Bounds(), KnownHeaders())
    data = REQUEST[:at] + noise + REQUEST[at:]
    with suppress(RequestRefused):
        while data and (found := reader.take(data)) is not None:
            data = found.rest


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 60 + b" HTTP/1.1\r\n", 414),
        (b"GET /" + b"a" * 60, 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 200, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 6 + b"\r\n", 431),
    ],
)
def test_size_limits_apply_before_the_head_is_complete(data: bytes, status: int):
    bounds = Bounds(request_line_bytes=50, header_bytes=150, header_count=5)
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        with pytest.raises(RequestRefused) as caught:
            feed(RequestHeadReader(PEER, bounds, KnownHeaders()), pieces)
        assert caught.value.status == status


def feed(reader: RequestHeadReader, pieces: list[bytes]) -> None:
    for piece in pieces:
        reader.take(piece)
