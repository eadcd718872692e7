"""Documented curl calls, made against a node of the test's own: it stands for every address and key in a document."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.fakes.calling import Answered, call

_FLAGS = frozenset({"-s", "-S", "-sS", "-f", "-sf", "-fsS", "-i", "-si", "-v", "-N", "-L", "--compressed"})
_BASE = re.compile(r"^(\$\{?\w+\}?|\{\w+\}|https?://[^/]+)(?=/|$)")
_ADMIN_PATHS = ("/healthz", "/readyz", "/metrics", "/admin/")


class NotUnderstood(Exception):
    """The call uses what the documents' test cannot do."""


@dataclass(slots=True)
class Call:
    """What a curl line asks for; `path` is what follows the address."""

    path: str = ""
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Node:
    """What stands in for the documents' addresses, keys and tokens."""

    url: str
    admin_url: str
    key: str
    admin_token: str


def read_call(words: Sequence[str]) -> Call:
    """Read the words of a curl line.

    Raises:
        NotUnderstood: it has an option that is not known here, or no address.
    """
    made, rest = Call(), list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in ("-H", "--header"):
            name, _, value = rest.pop(0).partition(":")
            made.headers[name.strip().lower()] = value.strip()
        elif word in ("-X", "--request"):
            made.method = rest.pop(0)
        elif word in ("-I", "--head"):
            made.method = "HEAD"
        elif word in ("-d", "--data", "--json"):
            made.body = rest.pop(0).encode()
        elif word in ("-o", "-w", "-m", "--max-time"):
            rest.pop(0)
        elif found := _BASE.match(word):
            made.path = word[found.end() :] or "/"
        elif word not in _FLAGS:
            raise NotUnderstood(word)
    if not made.path:
        raise NotUnderstood("no address")
    return made


def perform(made: Call, node: Node) -> Answered:
    """Make the call with the node's address, key and token."""
    headers = dict(made.headers)
    if "x-api-key" in headers:
        headers["x-api-key"] = node.key
    if "authorization" in headers:
        headers["authorization"] = f"Bearer {node.admin_token}"
    base = node.admin_url if made.path.startswith(_ADMIN_PATHS) else node.url
    method = made.method or ("POST" if made.body else "GET")
    return call(base + made.path, method=method, headers=headers, body=made.body)
