import pytest

from gateway.server.errors import AppMisbehaved
from gateway.server.http1.fields import fields_of
from gateway.server.http1.response_head import SHAPES_KEPT, Shapes, head_lines

DATE = b"date: now"


def lines(headers: list[tuple[bytes, bytes]], shapes: Shapes, status: int = 200) -> set[bytes]:
    return set(b"\r\n".join(head_lines(status, fields_of(headers), shapes, date=DATE)[0]).split(b"\r\n"))


def test_head_is_the_same_for_new_and_known_names():
    shapes: Shapes = {}
    headers = [(b"X-A", b"1"), (b"set-cookie", b"a"), (b"Content-Length", b"3"), (b"set-cookie", b"b"), (b"x-a", b"2")]
    first, *_ = head_lines(200, fields_of(headers), shapes, date=DATE)
    assert set(b"\r\n".join(first).split(b"\r\n")) == {
        b"HTTP/1.1 200 OK", b"x-a: 1", b"set-cookie: a", b"set-cookie: b", b"x-a: 2", DATE, b"server: sluice"
    }  # fmt: skip
    for _ in range(2):
        assert head_lines(200, fields_of(headers), shapes, date=DATE) == (first, 3, False)


def test_apps_connection_headers_are_dropped_and_its_date_kept_each_time():
    shapes: Shapes = {}
    headers = [(b"Connection", b"x, Close"), (b"transfer-encoding", b"x"), (b"Date", b"then"), (b"SERVER", b"me")]
    for _ in range(2):
        head, length, closes = head_lines(204, fields_of([*headers, (b"content-length", b"4")]), shapes, date=DATE)
        assert head == [b"HTTP/1.1 204 No Content", b"date: then", b"server: me"]
        assert (length, closes) == (None, True)


@pytest.mark.parametrize(
    "header",
    [
        (b"x", b"a\rb"),
        (b"x", b"a\nb"),
        (b"x", b"a\0b"),
        (b"x\r\nevil", b"a"),
        (b"date", b"a\nb"),
        (b"content-length", b"-1"),
        (b"content-length", b""),
    ],
)
def test_invalid_header_or_length_is_refused_each_time(header: tuple[bytes, bytes]):
    shapes: Shapes = {}
    for _ in range(3):
        with pytest.raises(AppMisbehaved):
            lines([(b"x", b"a"), header], shapes)


@pytest.mark.parametrize("status", [100, 199, 1000, 0, -1])
def test_interim_or_invalid_status_is_refused(status: int):
    with pytest.raises(AppMisbehaved):
        lines([], {}, status)


def test_status_without_a_phrase_is_written():
    assert b"HTTP/1.1 299 " in lines([], {}, 299)


def test_stored_shapes_are_bounded():
    shapes: Shapes = {}
    for number in range(2 * SHAPES_KEPT):
        assert b"x-%d: y" % number in lines([(b"X-%d" % number, b"y")], shapes)
    assert len(shapes) == SHAPES_KEPT
