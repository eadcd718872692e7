"""A large body cut into what is sent at once."""

from collections.abc import Iterator, Sequence

SLICE_BYTES = 16_384


def slices(parts: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, bool]]:
    """At least one slice of the body that `parts` are, what it was cut out of, and whether it is the last."""
    for nth, part in enumerate(parts, start=1):
        for at in range(0, len(part) or 1, SLICE_BYTES):
            yield part[at : at + SLICE_BYTES], part, nth == len(parts) and at + SLICE_BYTES >= len(part)
