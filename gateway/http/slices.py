"""Cuts a large body into pieces for sending."""

from collections.abc import Iterator, Sequence

SLICE_BYTES = 16_384


def slices(parts: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield each slice of a body, with the part that it comes from and whether it is the last slice.

    An empty body has one empty slice.
    """
    for nth, part in enumerate(parts, start=1):
        for at in range(0, len(part) or 1, SLICE_BYTES):
            yield part[at : at + SLICE_BYTES], part, nth == len(parts) and at + SLICE_BYTES >= len(part)
