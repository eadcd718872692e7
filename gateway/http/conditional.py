"""Entity tags, and whether a client has the answer that a tag stands for (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from gateway.http.request import Reply, Request
from gateway.server.http1.fields import fields_of, joined

PUBLIC: Final = b"public, max-age=300"
"""The `Cache-Control` of an answer that is the same for all who ask (decisions 16)."""


class TaggedText(NamedTuple):
    """A text that is made once for many readers, with its tag: to compute one of a megabyte takes a millisecond."""

    text: bytes
    tag: bytes


def with_tag(text: bytes) -> TaggedText:
    """The text with its tag."""
    return TaggedText(text, tag_of(text))


def tag_of(text: bytes) -> bytes:
    """The tag of a text: weak, since a compressed answer is the same to its reader."""
    return b'W/"%b"' % blake2b(text, digest_size=12).hexdigest().encode()


def matches(sent: bytes | None, made: bytes) -> bool:
    """Whether `If-None-Match` names the tag."""
    return sent is not None and any(one in (made.removeprefix(b"W/"), b"*") for one in tags(sent))


def tags(sent: bytes) -> Iterator[bytes]:
    """The tags of a list; weak or strong is all the same to a read (RFC 9110, 8.8.3.2)."""
    return (one.strip().removeprefix(b"W/") for one in sent.split(b","))


def tagged(request: Request, reply: Reply, tag: bytes, *, caching: bytes) -> Reply:
    """The reply with the tag of its text and its `Cache-Control`; 304 if the client has that text."""
    fields = fields_of([(b"etag", tag), (b"cache-control", caching)])
    if matches(request.headers.get(b"if-none-match"), tag):
        return Reply(304, b"", fields)
    reply.headers = joined(reply.headers, fields)
    return reply
