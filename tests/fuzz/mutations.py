"""Changes to bytes, as data that Hypothesis can shrink."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

SPECIALS = (
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"\0",
    b"\x0b",
    b"\x7f",
    b"\x80",
    b"\xff",
    b" ",
    b"\t",
    b"\r\n ",
    b":",
    b",",
    b";",
    b"0",
    b"-",
    b"+",
    b"0x",
    b"_",
    b'"',
    b"0\r\n\r\n",
    b"1\r\nA\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"chunked",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"HTTP/2.0",
    b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nX",
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change at `at` (modulo the length): remove `drops` bytes, and insert `adds` and a copy of `copies` bytes."""

    at: int
    drops: int
    adds: bytes
    copies: int

    def apply(self, data: bytes) -> bytes:
        """Return the changed bytes."""
        at = self.at % (len(data) + 1)
        return data[:at] + self.adds + data[at : at + self.copies] + data[at + self.drops :]


PLACES = st.integers(0, 4_000)
ADDED = st.one_of(st.just(b""), st.sampled_from(SPECIALS), st.binary(max_size=4))
MUTATIONS = st.lists(
    st.one_of(
        st.builds(Mutation, PLACES, st.sampled_from([0, 0, 1, 2, 40]), ADDED, st.just(0)),
        st.builds(Mutation, PLACES, st.just(0), st.just(b""), st.sampled_from([1, 1, 2, 10, 60])),
        st.builds(Mutation, PLACES, st.just(10_000), st.just(b""), st.just(0)),  # nothing follows
    ),
    max_size=3,
)
CUTS = st.lists(PLACES, max_size=12)


def mutated(data: bytes, mutations: list[Mutation]) -> bytes:
    """Return `data` after all mutations."""
    for mutation in mutations:
        data = mutation.apply(data)
    return data


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return `data` cut into packets."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]
