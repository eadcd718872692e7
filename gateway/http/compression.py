"""Answers compressed as their clients ask for it (RFC 9110, 12.5.3): gzip and Brotli, for bodies above 1 KB.

The long part of an envelope is the same for all who ask (`gateway/http/envelope.py`), so its deflated form is kept: a
gzip stream is put together from a block that holds the envelope's start as it is, the kept blocks, and one that holds
its end. Brotli's blocks depend on their place in the stream, so a whole body is compressed each time.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import brotli
import trio

from gateway.http.request import Reply, qualities
from gateway.server.http1.fields import joined

LEAST_BYTES: Final = 1_024
KEPT_BYTES: Final = 32 * 1024 * 1024
"""The bound of long parts and their deflated forms together; the least used go first."""
_ASIDE_BYTES = 65_536
"""A longer part is compressed in a thread."""
_PIECES_BYTES = 16_384
_LEVEL, _QUALITY = 4, 4
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_START, _END = b'{"success":true,', b',"credits_used":'
_PACKED = b"font/woff2"
"""A font is compressed as it is."""
_FIELDS = (b"content-encoding", b"vary")


class Compression:
    """Compresses the answers of one node."""

    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        """`bytes_max` bounds what is kept."""
        self._bytes_max = bytes_max
        self._deflated: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes = 0
        """Kept at this moment."""

    async def apply(self, reply: Reply, accepted: bytes) -> None:
        """Compress a reply's body in place, if that is worth it and `accepted`, an `Accept-Encoding`, has a way."""
        parts = reply.pieces if isinstance(reply.pieces, tuple) else (reply.body,)
        size, coding = sum(map(len, parts)), coding_of(accepted)
        if size <= LEAST_BYTES or coding is None or reply.status in (204, 304) or reply.content_type == _PACKED:
            return
        packed: tuple[bytes, ...]
        if coding == b"br":
            packed = (await _run(size, _brotli, b"".join(parts)),)
        else:
            packed = await self._gzip(parts)
        is_long = len(packed) > 1 and sum(map(len, packed)) > _PIECES_BYTES
        reply.body, reply.pieces = (b"", packed) if is_long else (b"".join(packed), None)
        reply.headers = joined(reply.headers, (_FIELDS, (coding, b"accept-encoding")))

    async def _gzip(self, parts: tuple[bytes, ...]) -> tuple[bytes, bytes, bytes]:
        """A gzip stream of which the middle is shared by all answers around the same part."""
        start, shared, end = parts if len(parts) == 3 else _split(b"".join(parts))
        deflated = self._deflated.get(shared)
        if deflated is None:
            deflated = await _run(len(shared), _deflate, shared)
            self._keep(shared, deflated)
        else:
            self._deflated.move_to_end(shared)
        checksum, size = 0, 0
        for part in (start, shared, end):
            checksum, size = zlib.crc32(part, checksum), size + len(part)
        trailer = checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
        return _HEADER + _stored(start), deflated, _stored(end, is_last=True) + trailer

    def _keep(self, shared: bytes, deflated: bytes) -> None:
        size = len(shared) + len(deflated)
        if size > self._bytes_max or shared in self._deflated:
            return
        self._deflated[shared] = deflated
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest, its = self._deflated.popitem(last=False)
            self.bytes -= len(oldest) + len(its)


@lru_cache(maxsize=256)
def coding_of(accepted: bytes) -> bytes | None:
    """The coding that an `Accept-Encoding` prefers, gzip where it has no preference; None: the body as it is."""
    wanted = qualities(accepted.lower())
    rest = wanted.get(b"*", 0.0)
    gzip, br = wanted.get(b"gzip", wanted.get(b"x-gzip", rest)), wanted.get(b"br", rest)
    best = max(gzip, br)
    if not best or wanted.get(b"identity", 0.0) > best:
        return None
    return b"br" if br > gzip else b"gzip"


def _split(body: bytes) -> tuple[bytes, bytes, bytes]:
    """An envelope's start, the part that is the same for all, and its end; any other body is such a part."""
    end = body.rfind(_END) if body.startswith(_START) else -1
    return (b"", body, b"") if end < 0 else (_START, body[len(_START) : end], body[end:])


def _stored(data: bytes, *, is_last: bool = False) -> bytes:
    """A block of deflate that holds its data as they are (RFC 1951, 3.2.4)."""
    assert len(data) < 2**16, "the ends of an envelope are short"
    size = len(data).to_bytes(2, "little")
    return bytes((is_last,)) + size + bytes(one ^ 0xFF for one in size) + data


def _deflate(data: bytes) -> bytes:
    """Blocks of deflate that refer to nothing before them and end on a byte."""
    deflating = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(data) + deflating.flush(zlib.Z_FULL_FLUSH)


def _brotli(body: bytes) -> bytes:
    packed: bytes = brotli.compress(body, quality=_QUALITY)
    return packed


async def _run(size: int, pack: Callable[[bytes], bytes], data: bytes) -> bytes:
    return pack(data) if size <= _ASIDE_BYTES else await trio.to_thread.run_sync(pack, data)
