"""Entity tags and conditional requests (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from gateway.http.request import Reply, Request
from gateway.server.http1.fields import fields_of, joined

PUBLIC: Final = b"public, max-age=300"
"""The `Cache-Control` of a response that is the same for all clients (decisions 16)."""


class TaggedText(NamedTuple):
    """A text that is built once for many clients.

    Its tag is stored with it, because computing the tag of 1 MB takes 1 ms.
    """

    text: bytes
    tag: bytes


def with_tag(text: bytes) -> TaggedText:
    """Return the text with its tag."""
    return TaggedText(text, tag_of(text))


def tag_of(text: bytes) -> bytes:
    """Return the tag of a text. It is weak, because compressed and plain responses share it."""
    return b'W/"%b"' % blake2b(text, digest_size=12).hexdigest().encode()


def matches(sent: bytes | None, made: bytes) -> bool:
    """Return whether `If-None-Match` contains the tag."""
    return sent is not None and any(one in (made.removeprefix(b"W/"), b"*") for one in tags(sent))


def tags(sent: bytes) -> Iterator[bytes]:
    """Yield the tags of a list without `W/`, because reads use the weak comparison (RFC 9110, 8.8.3.2)."""
    return (one.strip().removeprefix(b"W/") for one in sent.split(b","))


def tagged(request: Request, reply: Reply, tag: bytes, *, caching: bytes) -> Reply:
    """Add the tag and `Cache-Control` to a reply, or return 304 if the client already has the text."""
    fields = fields_of([(b"etag", tag), (b"cache-control", caching)])
    if matches(request.headers.get(b"if-none-match"), tag):
        return Reply(304, b"", fields)
    reply.headers = joined(reply.headers, fields)
    return reply
