"""From a call to the bytes that ask for it; what could smuggle a second request is refused."""

import re

import httpx

from upstreams.transport.http import ACCEPT_ENCODING, HttpCall

_OURS = frozenset({"", "host", "content-length", "transfer-encoding"})
_LENGTH_ALWAYS = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


def request_bytes(call: HttpCall, *, target: str, headers: str) -> bytes:
    """The whole request for `call`, addressed to `target` (behind an egress that is not the call's own).

    `headers` come from `header_lines`.

    Raises:
        httpx.LocalProtocolError: the call cannot be written as one well-formed request.
    """
    method = call.method
    if method != "GET" and not (method.isascii() and method.isalpha()):
        raise httpx.LocalProtocolError("the method is no word")
    if not (target[:1] == "/" and target.isascii() and target.isprintable() and " " not in target):
        raise httpx.LocalProtocolError("the target is no percent-encoded path")
    if call.body or method in _LENGTH_ALWAYS:
        headers = f"{headers}Content-Length: {len(call.body)}\r\n"
    return f"{method} {target} HTTP/1.1\r\n{headers}\r\n".encode("latin-1") + call.body


def header_lines(host: str, headers: tuple[tuple[str, str], ...]) -> str:
    """The header lines of every call with these headers, so that they are checked and written once.

    Raises:
        httpx.LocalProtocolError: a header is malformed, or one that the transport writes itself.
    """
    names = {name.lower() for name, _ in headers}
    if not names.isdisjoint(_OURS) or not _TOKEN.fullmatch("".join(names)):
        raise httpx.LocalProtocolError("a header's name is malformed or the transport's own")
    lines = [f"Host: {host}\r\n", *(f"{name}: {value}\r\n" for name, value in headers)]
    if "accept-encoding" not in names:
        lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}\r\n")
    text = "".join(lines)
    if not (text.count("\n") == text.count("\r") == len(lines)) or "\0" in text:
        raise httpx.LocalProtocolError("a header has a CR, LF or NUL")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError as exc:
        raise httpx.LocalProtocolError("a header has a character beyond Latin-1") from exc
    return text
