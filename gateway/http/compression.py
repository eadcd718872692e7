"""Response compression by `Accept-Encoding` (RFC 9110, 12.5.3): gzip and Brotli, for bodies above 1 KB.

The long middle part of an envelope is the same for all clients (`gateway/http/envelope.py`), so its compressed form is
cached, and each response adds only the start and the end of the envelope. A gzip stream consists of an uncompressed
block with the start, the cached blocks, and an uncompressed block with the end. A Brotli stream consists of the cached
blocks and an uncompressed end. Brotli blocks depend on their position in the stream, so they are cached together with
the start.
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
"""Maximum number of bytes of long parts and their compressed forms. The least recently used are dropped first."""
_ASIDE_BYTES = 65_536
"""Longer parts are compressed in a worker thread."""
_PIECES_BYTES = 16_384
_LEVEL, _QUALITY = 4, 4
_ACCEPTED_BYTES_MAX = 500
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
_START, _END = b'{"success":true,', b',"credits_used":'
_PACKED = b"font/woff2"
"""Fonts are already compressed."""
_ENTRY_BYTES = 400
"""Bytes that an entry uses in addition to its long part and its compressed form."""
_BROTLI_END = b"\x03"
"""The last block of a Brotli stream, which is empty (RFC 7932, 9.2)."""
_FIELDS = (b"content-encoding", b"vary")


class Compression:
    """Compresses the responses of one node."""

    def __init__(self, bytes_max: int = KEPT_BYTES) -> None:
        """`bytes_max` limits the total size of the cached entries."""
        self._bytes_max = bytes_max
        self._packed: OrderedDict[tuple[bytes, bytes, bytes], bytes] = OrderedDict()
        """Compressed forms by coding, start (empty if the coding does not depend on it), and long part."""
        self.bytes = 0
        """Bytes of the cached entries."""

    async def apply(self, reply: Reply, accepted: bytes) -> None:
        """Compress a reply's body in place, if it is large enough and `accepted` (`Accept-Encoding`) allows it."""
        parts = reply.pieces if isinstance(reply.pieces, tuple) else (reply.body,)
        size, coding = sum(map(len, parts)), coding_of(accepted)
        if size <= LEAST_BYTES or coding is None or reply.status in (204, 304) or reply.content_type == _PACKED:
            return
        start, shared, end = parts if len(parts) == 3 else _split(b"".join(parts))
        packed = await (self._brotli if coding == b"br" else self._gzip)(start, shared, end)
        is_long = sum(map(len, packed)) > _PIECES_BYTES
        reply.body, reply.pieces = (b"", packed) if is_long else (b"".join(packed), None)
        reply.headers = joined(reply.headers, (_FIELDS, (coding, b"accept-encoding")))

    async def _gzip(self, start: bytes, shared: bytes, end: bytes) -> tuple[bytes, ...]:
        """Return a gzip stream whose middle is shared by all responses with the same long part."""
        deflated = await self._kept(b"gzip", b"", shared, _deflate)
        checksum, size = 0, 0
        for part in (start, shared, end):
            checksum, size = zlib.crc32(part, checksum), size + len(part)
        trailer = checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
        return _HEADER + _stored(start), deflated, _stored(end, is_last=True) + trailer

    async def _brotli(self, start: bytes, shared: bytes, end: bytes) -> tuple[bytes, ...]:
        """Return a Brotli stream whose beginning is shared by all responses with the same long part."""
        return await self._kept(b"br", start, shared, _brotli), _raw(end) + _BROTLI_END

    async def _kept(self, coding: bytes, start: bytes, shared: bytes, pack: Callable[[bytes], bytes]) -> bytes:
        """Return the compressed form of `start` and `shared`, computed for the first response that needs it."""
        key = coding, start, shared
        packed = self._packed.get(key)
        if packed is None:
            packed = await _run(len(shared), pack, start + shared)
            self._keep(key, packed)
        else:
            self._packed.move_to_end(key)
        return packed

    def _keep(self, key: tuple[bytes, bytes, bytes], packed: bytes) -> None:
        size = len(key[2]) + len(packed) + _ENTRY_BYTES
        if size > self._bytes_max or key in self._packed:
            return
        self._packed[key] = packed
        self.bytes += size
        while self.bytes > self._bytes_max:
            (_, _, oldest), its = self._packed.popitem(last=False)
            self.bytes -= len(oldest) + len(its) + _ENTRY_BYTES


def coding_of(accepted: bytes) -> bytes | None:
    """Return the coding that an `Accept-Encoding` prefers (gzip on a tie), or None for no compression.

    A header longer than any normal client sends also returns None.
    """
    return _coding_of(accepted) if len(accepted) <= _ACCEPTED_BYTES_MAX else None


@lru_cache(maxsize=256)
def _coding_of(accepted: bytes) -> bytes | None:
    wanted = qualities(accepted.lower())
    rest = wanted.get(b"*", 0.0)
    gzip, br = wanted.get(b"gzip", wanted.get(b"x-gzip", rest)), wanted.get(b"br", rest)
    best = max(gzip, br)
    if not best or wanted.get(b"identity", 0.0) > best:
        return None
    return b"br" if br > gzip else b"gzip"


def _split(body: bytes) -> tuple[bytes, bytes, bytes]:
    """Split an envelope into start, shared part and end. Any other body is one shared part."""
    end = body.rfind(_END) if body.startswith(_START) else -1
    return (b"", body, b"") if end < 0 else (_START, body[len(_START) : end], body[end:])


def _stored(data: bytes, *, is_last: bool = False) -> bytes:
    """Return an uncompressed deflate block (RFC 1951, 3.2.4)."""
    assert len(data) < 2**16, "the start and end of an envelope are short"
    size = len(data).to_bytes(2, "little")
    return bytes((is_last,)) + size + bytes(one ^ 0xFF for one in size) + data


def _deflate(data: bytes) -> bytes:
    """Return deflate blocks that do not depend on earlier blocks and end on a byte boundary."""
    deflating = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(data) + deflating.flush(zlib.Z_FULL_FLUSH)


def _brotli(data: bytes) -> bytes:
    """Return a Brotli stream that ends on a byte boundary, so that more blocks may follow."""
    compressor = brotli.Compressor(quality=_QUALITY)
    packed: bytes = compressor.process(data) + compressor.flush()
    return packed


def _raw(data: bytes) -> bytes:
    """Return an uncompressed Brotli block (RFC 7932, 9.2); nothing if there is no data."""
    if not data:
        return b""
    assert len(data) <= 2**16, "the end of an envelope is short"
    return ((len(data) - 1) << 3 | 1 << 19).to_bytes(3, "little") + data


async def _run(size: int, pack: Callable[[bytes], bytes], data: bytes) -> bytes:
    return pack(data) if size <= _ASIDE_BYTES else await trio.to_thread.run_sync(pack, data)
