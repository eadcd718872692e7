"""The cache of header blocks never changes a verdict, is bounded, and passes nothing from an app to another request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.bounds import Bounds
from gateway.server.errors import RequestRefused
from gateway.server.http1.known_headers import BLOCK_BYTES, BLOCKS, KnownHeaders
from gateway.server.http1.request_head import Peer, RequestHeadReader
from tests.fuzz.mutations import MUTATIONS, Mutation, mutated
from tests.fuzz.requests import FIELDS, UNSOUND_FIELDS

BOUNDS = Bounds(request_line_bytes=60, header_bytes=150, header_count=6)
PEER = Peer(("127.0.0.1", 5), ("127.0.0.1", 80), None)
LINE = b"GET / HTTP/1.1\r\n"
LINES = st.sampled_from(
    [
        LINE,
        b"GET /a?b=%20&c=/d?e HTTP/1.1\r\n",
        b"GET /%41%ff HTTP/1.1\r\n",
        b"GET /? HTTP/1.1\r\n",
        b"GET //a/b HTTP/1.1\r\n",
        b"GET /" + b"a" * 59 + b" HTTP/1.1\r\n",
        b"GET /" + b"a" * 60 + b" HTTP/1.1\r\n",
        b"HEAD / HTTP/1.1\r\n",
        b"POST /a HTTP/1.1\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"GET / HTTP/1.0\r\n",
        b"GET / HTTP/1.2\r\n",
        b"GET http://b/ HTTP/1.1\r\n",
        b"GET /#a HTTP/1.1\r\n",
        b"GET /\xe9 HTTP/1.1\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\n",
        b"\r\nGET / HTTP/1.1\r\n",
        b"get / HTTP/1.1\r\n",
        b"GET / RTSP/1.1\r\n",
    ]
)
HOSTS = st.sampled_from([[b"Host: a"]] * 6 + [[], [b"Host: a@b"], [b"Host:"], [b"host: a", b"Host: a"]])
BEHIND = st.sampled_from([b""] * 4 + [b"x", b"\r\n", LINE + b"Host: a\r\n\r\n"])


def block(hosts: list[bytes], fields: list[bytes]) -> bytes:
    return b"".join(line + b"\r\n" for line in [*hosts, *fields, b""])


BLOCKS_OF_ALL_KINDS = st.builds(block, HOSTS, st.lists(st.one_of(FIELDS, FIELDS, UNSOUND_FIELDS), max_size=4))


def outcome(data: bytes, known: KnownHeaders) -> object:
    """Return everything that a reader reports about `data`."""
    reader = RequestHeadReader(PEER, BOUNDS, known)
    try:
        head = reader.take(data) if data else None
    except RequestRefused as refusal:
        return refusal.status, refusal.sentence
    if head is None:
        return reader.begun
    return head.scope, type(head.body), head.rest, head.keep_alive, head.expects_continue, reader.begun


@settings(deadline=None, max_examples=300)
@given(BLOCKS_OF_ALL_KINDS, LINES, MUTATIONS, BEHIND)
def test_known_block_does_not_change_the_result(headers: bytes, line: bytes, mutations: list[Mutation], behind: bytes):
    """Goal: the cache has no visible effect. Method: fill it with a plain request line; compare with an empty one."""
    known = KnownHeaders()
    changed = mutated(headers, mutations)
    for learnt in (headers, changed):
        outcome(LINE + learnt, known)
    for data in (line + headers + behind, line + changed + behind, mutated(line + headers, mutations) + behind):
        assert outcome(data, known) == outcome(data, KnownHeaders())


@settings(deadline=None)
@given(BLOCKS_OF_ALL_KINDS, MUTATIONS)
def test_stored_block_has_no_body_expectation_upgrade_or_close(headers: bytes, mutations: list[Mutation]):
    known = KnownHeaders()
    headers = mutated(headers, mutations)
    outcome(LINE + headers, known)
    kept = known.find(headers)
    if kept is not None:
        names = [name for name, _ in kept]
        assert names.count(b"host") == 1
        assert not {b"content-length", b"transfer-encoding", b"expect", b"upgrade"} & set(names)
        assert (b"connection", b"close") not in kept


def test_plain_request_is_parsed_once():
    """Goal: the cache is used. Method: put something else into it."""
    known = KnownHeaders()
    outcome(LINE + b"Host: a\r\n\r\n", known)
    assert known.find(b"Host: a\r\n\r\n") == ((b"host", b"a"),)
    known.keep(b"Host: a\r\n\r\n", ((b"host", b"from memory"),))
    head = RequestHeadReader(PEER, BOUNDS, known).take(b"GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n")
    assert head is not None
    assert head.scope["headers"] == [(b"host", b"from memory")]
    assert (head.scope["path"], head.scope["raw_path"], head.scope["query_string"]) == ("/x", b"/x", b"y")


@pytest.mark.parametrize("rest", [b"", b"Connection: x,close\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n"])
def test_only_a_complete_plain_block_is_stored(rest: bytes):
    known = KnownHeaders()
    headers = b"Host: a\r\n" + rest + b"\r\n"
    for data in (b"HEAD / HTTP/1.1\r\n" + headers, LINE + headers + b"GET", b"\r\n" + LINE + headers):
        outcome(data, known)
        assert known.find(headers) is None
    outcome(LINE + headers, known)
    assert (known.find(headers) is None) == bool(rest)


def test_app_changing_request_headers_does_not_affect_later_requests():
    reader = RequestHeadReader(PEER, BOUNDS, KnownHeaders())
    for _ in range(3):
        head = reader.take(LINE + b"Host: a\r\n\r\n")
        assert head is not None
        assert head.scope["headers"] == [(b"host", b"a")]
        head.scope["headers"].append((b"x", b"y"))


def test_used_block_is_kept_and_memory_is_bounded():
    known = KnownHeaders()
    for number in range(5 * BLOCKS):
        known.keep(b"%d" % number, ())
        assert known.find(b"0") == ()
    kept = [number for number in range(5 * BLOCKS) if known.find(b"%d" % number) is not None]
    assert BLOCKS <= len(kept) <= 2 * BLOCKS
    assert kept[-1] == 5 * BLOCKS - 1


def test_long_block_is_not_stored():
    known = KnownHeaders()
    for size in (BLOCK_BYTES, BLOCK_BYTES + 1):
        known.keep(b"a" * size, ())
    assert known.find(b"a" * BLOCK_BYTES) == ()
    assert known.find(b"a" * (BLOCK_BYTES + 1)) is None
