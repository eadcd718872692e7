"""WebSocket frames as bytes, written and parsed independently of the server, and a handshake to send before them."""

import struct
from dataclasses import dataclass

from tests.gateway.server.raw_client import Client

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x12\x34\x56\x78"


def handshake(
    path: bytes = b"/talk", *more: bytes, drop: bytes = b"", method: bytes = b"GET", version: bytes = b"1.1"
) -> bytes:
    """Return a WebSocket request with the `more` lines, and without the line that begins with `drop`."""
    lines = [
        b"Host: a",
        b"Connection: keep-alive, Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: " + KEY,
    ]
    kept = [line for line in lines if not (drop and line.startswith(drop + b":"))]
    return b"\r\n".join([method + b" " + path + b" HTTP/" + version, *kept, *more, b"", b""])


def frame(opcode: int, payload: bytes = b"", *, last: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """Return one client frame."""
    head = bytes([last << 7 | reserved << 4 | opcode])
    mark = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([mark | len(payload)])
    elif len(payload) < 65_536:
        head += bytes([mark | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([mark | 127]) + struct.pack("!Q", len(payload))
    return head + (MASK + unmask(payload) if masked else payload)


def unmask(payload: bytes) -> bytes:
    """Return `payload` with the mask applied or removed."""
    size = len(payload)
    key = (MASK * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(size)


def closing(code: int, reason: bytes = b"") -> bytes:
    """Return a client's close frame."""
    return frame(CLOSE, struct.pack("!H", code) + reason)


@dataclass(frozen=True)
class Frame:
    """One frame from the server."""

    opcode: int
    payload: bytes

    @property
    def code(self) -> int:
        """The code of a close frame, or 1005 if it has none."""
        assert self.opcode == CLOSE
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else 1005


async def next_frame(client: Client) -> Frame:
    """Return the server's next frame, which must be neither fragmented nor masked."""
    head = await client.exactly(2)
    assert head[0] & 0xF0 == 0x80
    assert head[1] < 0x80
    size = head[1]
    if size == 126:
        size = struct.unpack("!H", await client.exactly(2))[0]
    elif size == 127:
        size = struct.unpack("!Q", await client.exactly(8))[0]
    return Frame(head[0] & 0x0F, await client.exactly(size))


async def end_of(client: Client) -> int:
    """Return the code of the server's close frame, or 1006 if there is none, and check that nothing follows it."""
    try:
        while (got := await next_frame(client)).opcode != CLOSE:
            pass
    except EOFError:
        return 1006
    assert await client.closed()
    return got.code
