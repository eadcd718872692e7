"""From a call to the bytes that ask for it; what could smuggle a second request is refused."""

import re

import httpx

from upstreams.http import ACCEPT_ENCODING, HttpCall

_OURS = frozenset({"", "host", "content-length", "transfer-encoding"})
_LENGTH_ALWAYS = frozenset({"POST", "PUT", "PATCH"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


def request_bytes(call: HttpCall, *, host: str, target: str) -> bytes:
    """The whole request for `call`, addressed to `target` at `host` (the two differ from the call's behind an egress).

    Raises:
        httpx.LocalProtocolError: the call cannot be written as one well-formed request.
    """
    lines = [f"{call.method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in call.headers]
    names = {name.lower() for name, _ in call.headers}
    if "accept-encoding" not in names:
        lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}\r\n")
    if call.body or call.method in _LENGTH_ALWAYS:
        lines.append(f"Content-Length: {len(call.body)}\r\n")
    head = "".join(lines)
    line_count = head.count("\n")
    if line_count != len(lines) + 1 or line_count != head.count("\r") or "\0" in head:
        raise httpx.LocalProtocolError("a target or header has a CR, LF or NUL")
    _refuse_malformed(call.method, target, names)
    try:
        return head.encode("latin-1") + b"\r\n" + call.body
    except UnicodeEncodeError as exc:
        raise httpx.LocalProtocolError("a header has a character beyond Latin-1") from exc


def _refuse_malformed(method: str, target: str, names: set[str]) -> None:
    if not (method.isascii() and method.isalpha()):
        raise httpx.LocalProtocolError("the method is no word")
    if not (target.startswith("/") and target.isascii() and target.isprintable() and " " not in target):
        raise httpx.LocalProtocolError("the target is no percent-encoded path")
    if not names.isdisjoint(_OURS) or not _TOKEN.fullmatch("".join(names)):
        raise httpx.LocalProtocolError("a header's name is malformed or the transport's own")
