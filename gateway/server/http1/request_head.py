"""Reads request heads with llhttp, and refuses each head that another server could interpret differently. No I/O.

llhttp is strict about characters and line ends. This module also checks sizes, versions and the forms of the request
target. It requires single blanks in the request line, exactly one Host, and exactly one indication of the body's
length.

A plain GET with a known header block is not parsed again. The result is the same, because the block was parsed and
checked here. It is reused only if the bytes are equal and the request line needs no further checks.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import httptools

from gateway.server.asgi import EXTENSION, HeaderLines, HTTPScope, State
from gateway.server.bounds import Bounds
from gateway.server.errors import RequestRefused
from gateway.server.http1.known_headers import KnownHeaders
from gateway.server.http1.request_body import Body, body_of

_END = b"\r\n\r\n"
_UNIQUE = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))
_TELLING = frozenset((b"content-length", b"transfer-encoding", b"expect", b"upgrade"))
_HOST_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:[]%"
_PLAIN_LINE = re.compile(rb"GET (/[0-9A-Za-z\-._~!$&'()*+,;=:@/?%]*) HTTP/1\.1\r\n")
_METHOD = re.compile(rb"([A-Z][A-Z-]{0,39}) /")
_PART_OF_METHOD = re.compile(rb"[A-Z][A-Z-]{0,39} ?")
_RAW_TARGET = "The request target contains a character that must be percent-encoded, as %C3%BC for \u00fc."
_VERSIONS = "This server supports HTTP/1.1 and HTTP/1.0."


@dataclass(frozen=True, slots=True)
class Peer:
    """The values that are equal in all scopes of a connection: its two addresses and the app's state."""

    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    state: State | None


@dataclass(slots=True)
class RequestHead:
    """A request without its body.

    Never modified, but not frozen, because creating a frozen object is slower (hot path).
    """

    scope: HTTPScope
    body: Body | None
    rest: bytes
    """Data after the head that has already arrived."""
    keep_alive: bool
    expects_continue: bool


class RequestHeadReader:
    """Reads one head after another from the bytes of a connection."""

    def __init__(self, peer: Peer, bounds: Bounds, known: KnownHeaders) -> None:
        """Create a reader. All readers that use `known` must have the same `bounds`."""
        self._state = peer.state
        self._template: HTTPScope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "",
            "raw_path": b"",
            "query_string": b"",
            "root_path": "",
            "headers": [],
            "client": peer.client,
            "server": peer.server,
            "extensions": {EXTENSION: {}},
        }
        self._bounds = bounds
        self._known = known
        self._start()

    @property
    def begun(self) -> bool:
        """Return whether part of an incomplete head has been read."""
        return bool(self._fed or self._tail)

    def _start(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._unique_headers: list[tuple[bytes, bytes]] = []
        self._complete = False
        self._keep_alive = False
        self._overran = False
        self._fed = 0
        self._tail = b""
        self._line = b""  # the data so far, up to and including the piece in which the request line ends
        self._method = b""  # a method that llhttp does not know

    def take(self, data: bytes) -> RequestHead | None:
        """Read `data`. Return the head if it is now complete, otherwise None.

        Raises:
            RequestRefused: the connection cannot be read any further.
        """
        line = None if self._fed or self._tail else _PLAIN_LINE.match(data)
        if line is None:
            return self._read(data)
        block = data[line.end() :]
        headers = self._known.find(block)
        target = line[1]
        if headers is not None and len(target) <= self._bounds.request_line_bytes:
            scope = self._scope("GET", "1.1", target, [*headers])
            return RequestHead(scope, None, b"", True, False)  # noqa: FBT003 - hot path: keyword arguments cost more (measured)
        head = self._read(data)
        if head is not None and _repeats(head):
            self._known.keep(block, tuple(head.scope["headers"]))
        return head

    def _read(self, data: bytes) -> RequestHead | None:
        if self._fed:
            if 0x0A not in self._line:
                self._line += data
        else:
            if data[0] in b"\r\n":  # RFC 9112, 2.2: empty lines before a request are ignored
                data = data.lstrip(b"\r\n")
                if not data:
                    return None
            data, self._tail = self._tail + data, b""
            if _PART_OF_METHOD.fullmatch(data):  # too short to be validated yet
                self._tail = data
                return None
            self._line = data
        end = self._find_end(data)
        upgraded = self._feed(data if end in {-1, len(data)} else data[:end])
        self._check_sizes()
        if self._complete != (end >= 0) or self._overran:
            if self._line.startswith(b"PRI * "):  # HTTP/2's preface contains an empty line that does not end a head
                raise RequestRefused(505, _VERSIONS)
            raise RequestRefused(400, "The request's head is malformed.")
        if end < 0:
            self._tail = (self._tail + data)[-3:]
            return None
        head = self._judge(data[end:])
        if head.body is None and not upgraded:
            self._reset()
        else:
            self._start()  # a new parser, because the old one waits for the body, which `request_body` decodes
        return head

    def on_url(self, url: bytes) -> None:
        """Called by llhttp with a piece of the request target."""
        self._overran |= self._complete
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by llhttp with one header."""
        name = name.lower()
        header = (name, value.rstrip(b" \t"))
        self._headers.append(header)
        if name in _UNIQUE:
            self._unique_headers.append(header)

    def on_headers_complete(self) -> None:
        """Called by llhttp at the empty line.

        Reads the values of Connection, because llhttp discards them after this call.
        """
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:  # noqa: ARG002 - llhttp's signature
        """Called by llhttp only if, for llhttp, the head ends before the empty line that this server looks for."""
        self._overran = True

    def _find_end(self, data: bytes) -> int:
        """Return how many bytes of `data` belong to the head, or -1 if the head does not end in `data`."""
        found = (self._tail + data).find(_END) if self._tail else data.find(_END)
        return -1 if found < 0 else found + len(_END) - len(self._tail)

    def _feed(self, data: bytes) -> bool:
        """Pass `data` to llhttp. Return True if it switched to another protocol and a new parser is needed."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return True
        except httptools.HttpParserInvalidMethodError as exc:
            named = _METHOD.match(self._line)
            if named is None or self._method:
                raise RequestRefused(400, "This is not HTTP.") from exc
            self._fed, self._method, self._parser = 0, named[1], httptools.HttpRequestParser(self)
            return self._feed(b"POST" + data[len(self._method) :])  # the app decides whether the method exists
        except httptools.HttpParserError as exc:
            self._check_sizes()
            if "Invalid HTTP version" in str(exc):
                raise RequestRefused(505, _VERSIONS) from exc
            if "Invalid char in url" in str(exc):
                raise RequestRefused(400, _RAW_TARGET) from exc
            raise RequestRefused(400, "The request is malformed.") from exc
        return False

    def _check_sizes(self) -> None:
        if len(self._url) > self._bounds.request_line_bytes:
            raise RequestRefused(414, "The request target is too long.")
        if self._fed - len(self._url) > self._bounds.header_bytes or len(self._headers) > self._bounds.header_count:
            raise RequestRefused(431, "The request's headers are too large or too many.")

    def _judge(self, rest: bytes) -> RequestHead:
        method = self._method or self._parser.get_method()
        version = self._parser.get_http_version()
        if method == b"CONNECT":
            raise RequestRefused(501, "This server is not a proxy.")
        if version not in {"1.1", "1.0"}:
            raise RequestRefused(505, _VERSIONS)
        # llhttp also accepts repeated blanks, and RTSP.
        if not self._line.startswith(b" HTTP/1.", len(method) + 1 + len(self._url)):
            raise RequestRefused(400, "The request line is malformed.")
        body, expects_continue = self._judge_unique(version)
        # The end of a request with an unknown method is uncertain, so the connection is not reused.
        keep_alive = self._keep_alive and not self._method and (version == "1.1" or not self._asks_to_close())
        target = _origin_form(self._url, method, self._unique_headers)
        scope = self._scope(method.decode(), version, target, self._headers)
        return RequestHead(scope, body, rest, keep_alive, expects_continue)

    def _asks_to_close(self) -> bool:
        """Return whether Connection includes "close".

        On HTTP/1.0, llhttp ignores it if "keep-alive" is also present.
        """
        said = b",".join(value for name, value in self._headers if name == b"connection")
        return any(option.strip() == b"close" for option in said.lower().split(b","))

    def _judge_unique(self, version: str) -> tuple[Body | None, bool]:
        """Check the headers that may appear only once.

        Return the body's decoder, and whether the client waits for a 100.
        """
        unique_headers = self._unique_headers
        if len(unique_headers) == 1 and version == "1.1" and unique_headers[0][0] == b"host":
            _check_host(unique_headers[0][1])
            return None, False
        said = dict(unique_headers)
        if len(said) != len(unique_headers):
            raise RequestRefused(400, "A header that may appear only once is repeated.")
        host = said.get(b"host")
        if host is not None:
            _check_host(host)
        elif version == "1.1":
            raise RequestRefused(400, "The Host header is missing.")
        body = body_of(said.get(b"content-length"), said.get(b"transfer-encoding"), version=version)
        return body, version == "1.1" and _expects_continue(said.get(b"expect")) and body is not None

    def _scope(self, method: str, version: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> HTTPScope:
        raw_path, _, query = target.partition(b"?")
        scope = self._template.copy()
        scope["method"] = method
        scope["http_version"] = version
        scope["raw_path"] = raw_path
        scope["path"] = unquote_to_bytes(raw_path).decode(errors="replace") if 0x25 in raw_path else raw_path.decode()
        scope["query_string"] = query
        scope["headers"] = headers
        if self._state is not None:
            scope["state"] = self._state.copy()
        return scope


def repeated_request(data: bytes, known: KnownHeaders) -> tuple[bytes, HeaderLines] | None:
    """Return target and headers if `data` is exactly one plain GET with a known header block, otherwise None."""
    line = _PLAIN_LINE.match(data)
    headers = None if line is None else known.find(data[line.end() :])
    return None if line is None or headers is None else (line[1], headers)


def _repeats(head: RequestHead) -> bool:
    """Return whether this head's block may be reused: the connection stays open, and no body or other data follows."""
    return head.keep_alive and not head.rest and _TELLING.isdisjoint(name for name, _ in head.scope["headers"])


def _origin_form(url: bytes, method: bytes, unique_headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the path and query of a request target (RFC 9112, 3.2)."""
    if 0x23 in url:
        raise RequestRefused(400, "A request target must not have a fragment.")
    if url.startswith(b"/") or (url == b"*" and method == b"OPTIONS"):
        return url
    scheme, _, rest = url.partition(b"://")
    if scheme.lower() not in {b"http", b"https"}:
        raise RequestRefused(400, "The request target is malformed.")
    authority = rest.partition(b"?")[0].partition(b"/")[0]
    _check_host(authority)
    if not authority or any(name == b"host" and value.lower() != authority.lower() for name, value in unique_headers):
        raise RequestRefused(400, "The request target has no host, or a different one than the Host header.")
    target = rest[len(authority) :]
    return target if target.startswith(b"/") else b"/" + target


def _check_host(host: bytes) -> None:
    if host.translate(None, _HOST_BYTES):
        raise RequestRefused(400, "The Host header is malformed.")


def _expects_continue(expect: bytes | None) -> bool:
    if expect is not None and expect.lower() != b"100-continue":
        raise RequestRefused(417, "The only supported expectation is 100-continue.")
    return expect is not None
