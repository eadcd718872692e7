"""Latencies as counts in log-linear buckets, the form of an HDR histogram: exact counts, values to 0.1 %, mergeable."""

import math
from collections import Counter
from collections.abc import Mapping

SUB_BITS = 10
"""Every octave has 2**10 buckets, so a bucket is at most a thousandth of its value wide."""


def bucket_of(value: int) -> int:
    """The bucket of a value of at least 0; buckets are numbered without a gap, in the order of their values."""
    shift = max(value.bit_length() - SUB_BITS - 1, 0)
    return (shift << SUB_BITS) + (value >> shift)


def highest_of(bucket: int) -> int:
    """The highest value that falls into a bucket."""
    shift = max((bucket >> SUB_BITS) - 1, 0)
    return ((bucket - (shift << SUB_BITS) + 1) << shift) - 1


class Histogram:
    """Nanoseconds, counted. Only the task that made one records into it."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """`counts` are those of another histogram: bucket -> how many."""
        self.counts = Counter(counts or {})

    def record(self, value_ns: int) -> None:
        """Count one value; below 0 counts as 0."""
        self.counts[bucket_of(max(value_ns, 0))] += 1

    def merge(self, other: "Histogram") -> None:
        """Count everything that `other` has counted, as if it had been recorded here."""
        self.counts.update(other.counts)

    @property
    def total(self) -> int:
        """Return the number of recorded values."""
        return self.counts.total()

    def percentile_ms(self, share: float) -> float:
        """The highest value of the first bucket that, with those below it, holds `share` of the values; 0 of none."""
        wanted = max(1, math.ceil(share * self.total))
        for bucket in sorted(self.counts):
            wanted -= self.counts[bucket]
            if wanted <= 0:
                return highest_of(bucket) / 1e6
        return 0.0
