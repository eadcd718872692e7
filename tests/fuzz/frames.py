"""The frames of clients on a WebSocket: valid frames in sequence, which are then mutated and cut."""

import struct

from hypothesis import strategies as st

from tests.fuzz.mutations import CUTS, MUTATIONS
from tests.fuzz.requests import MOSTLY, PAUSES_S, attack
from tests.gateway.server.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, closing, frame

PIECE_BYTES = 700


def message(opcode: int, pieces: list[bytes], between: list[bytes]) -> bytes:
    """A message in one frame or several, with control frames between them."""
    written = []
    for at, piece in enumerate(pieces):
        written.append(frame(CONTINUATION if at else opcode, piece, last=at == len(pieces) - 1))
        written += between[at : at + 1]
    return b"".join(written)


def cut_text(text: str, at: int) -> list[bytes]:
    """Split a text in two pieces, possibly inside a character."""
    whole = text.encode()
    return [whole[: at % (len(whole) + 1)], whole[at % (len(whole) + 1) :]]


SMALL = st.binary(max_size=20)
CONTROL = st.one_of(st.builds(frame, st.sampled_from([PING, PONG]), SMALL), st.just(frame(PING, b"p" * 125)))
CONTROLS = st.lists(CONTROL, max_size=2)
BINARIES = st.builds(message, st.just(BINARY), st.lists(st.binary(max_size=200), min_size=1, max_size=4), CONTROLS)
TEXTS = st.builds(message, st.just(TEXT), st.builds(cut_text, st.text(max_size=60), st.integers(0, 200)), CONTROLS)
LONG = st.integers(0, 5).map(lambda over: frame(BINARY, b"x" * (PIECE_BYTES + over)))
CLOSES = st.one_of(
    st.just(frame(CLOSE)),
    st.builds(closing, st.sampled_from([1000, 1001, 3000, 4999]), st.text(max_size=20).map(str.encode)),
)
SOUND = st.one_of(BINARIES, TEXTS, CONTROL)
UNSOUND = st.one_of(
    LONG,
    st.builds(frame, st.integers(0, 15), st.binary(max_size=130)),
    st.builds(lambda data: frame(TEXT, data, masked=False), SMALL),
    st.builds(lambda data, bits: frame(BINARY, data, reserved=bits), SMALL, st.integers(1, 7)),
    st.builds(lambda data: frame(TEXT, data), SMALL),
    st.builds(lambda data: frame(BINARY, data, last=False), SMALL),
    st.builds(closing, st.integers(0, 65_535), SMALL),
    st.integers(0, 2**64 - 1).map(lambda size: b"\x82\xff" + struct.pack("!Q", size) + b"\0\0\0\0some"),
)
FRAMES = st.lists(st.one_of(SOUND, SOUND, UNSOUND, CLOSES), min_size=1, max_size=6)
SOUND_FRAMES = st.builds(lambda frames, end: [*frames, end], st.lists(SOUND, max_size=6), CLOSES)
SOCKET_ATTACKS = st.builds(attack, FRAMES, MUTATIONS, CUTS, PAUSES_S, MOSTLY, MOSTLY)
SOUND_SOCKET_ATTACKS = st.builds(
    attack, SOUND_FRAMES, st.just([]), CUTS, st.just(0.0), st.just(value=True), st.just(value=True)
)
