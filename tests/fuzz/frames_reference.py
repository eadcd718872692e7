"""A second reader of WebSocket frames, written from RFC 6455 without any code of the first one. No I/O."""

from dataclasses import dataclass, field

CLOSE, PING = 8, 9
WRONG, NO_TEXT, TOO_LONG, LOST = 1002, 1007, 1009, 1006


@dataclass
class Told:
    """The messages and pings of a client, and the close codes with which it may end."""

    heard: list[str | bytes] = field(default_factory=list)
    pings: list[bytes] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)


class Ended(Exception):
    """Raised at the end, after which nothing is read."""

    def __init__(self, *codes: int) -> None:
        super().__init__(codes)
        self.codes = set(codes)


def read_client(data: bytes, limit: int) -> Told:
    """Return the messages and pings in `data`. A message has at most `limit` bytes."""
    told = Told()
    begun: tuple[int, bytes] | None = None
    try:
        while True:
            last, opcode, payload, data = _frame(data)
            if opcode == CLOSE:
                _end(payload)
            elif opcode == PING:
                told.pings.append(payload)
            elif opcode < CLOSE:
                begun = _join(begun, opcode, payload, limit)
                if begun[0] == 1:
                    _text(begun[1], whole=last)
                if last:
                    told.heard.append(begun[1].decode() if begun[0] == 1 else begun[1])
                    begun = None
    except Ended as end:
        told.ends = end.codes
    return told


def _frame(data: bytes) -> tuple[bool, int, bytes, bytes]:
    """Return whether the frame ends a message, its opcode, its payload, and the bytes after it."""
    if len(data) < 2:
        raise Ended(LOST)
    last, reserved, opcode = data[0] >> 7, data[0] >> 4 & 7, data[0] & 15
    masked, size, at = data[1] >> 7, data[1] & 127, 2
    if size > 125:
        width = 2 if size == 126 else 8
        size, at = int.from_bytes(data[2 : 2 + width]), 2 + width
        least = 126 if width == 2 else 65_536
    else:
        least = 0
    whole = len(data) >= at + 4 + size
    if len(data) < at:
        raise Ended(LOST, WRONG)  # the error may already be visible
    if reserved or opcode in {3, 4, 5, 6, 7} or opcode > 10 or not masked or size < least or size >> 63:
        raise Ended(WRONG)
    if opcode >= CLOSE and (not last or size > 125):
        raise Ended(WRONG)
    if not whole:
        raise Ended(LOST, WRONG, NO_TEXT, TOO_LONG)
    mask, payload = data[at : at + 4], data[at + 4 : at + 4 + size]
    clear = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bool(last), opcode, clear, data[at + 4 + size :]


def _join(begun: tuple[int, bytes] | None, opcode: int, payload: bytes, limit: int) -> tuple[int, bytes]:
    if (begun is None) == (opcode == 0):
        raise Ended(WRONG)
    kind, before = begun or (opcode, b"")
    if len(before) + len(payload) > limit:
        raise Ended(TOO_LONG, NO_TEXT) if kind == 1 else Ended(TOO_LONG)
    return kind, before + payload


def _text(data: bytes, *, whole: bool) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as exc:
        if whole or "unexpected end" not in exc.reason:
            raise Ended(NO_TEXT) from exc


def _end(payload: bytes) -> None:
    raise Ended(_code(payload))


def _code(payload: bytes) -> int:
    if not payload:
        return 1005
    code = int.from_bytes(payload[:2])
    usual = code in {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014}
    if len(payload) == 1 or not (usual or 3_000 <= code <= 4_999):
        return WRONG
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        return NO_TEXT
    return code


def read_server(data: bytes) -> list[tuple[int, bytes]]:
    """Return the server's frames. Each must be complete, unmasked and unfragmented, and none may follow a close."""
    frames: list[tuple[int, bytes]] = []
    while data:
        assert not frames or frames[-1][0] != CLOSE, "data follows a close"
        assert data[0] & 0xF0 == 0x80
        size, at = data[1], 2
        assert size < 128, "a server's frame is masked"
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(data[2:at])
        assert len(data) >= at + size, "a frame is truncated"
        frames.append((data[0] & 15, data[at : at + size]))
        data = data[at + size :]
    return frames
