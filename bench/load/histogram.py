"""Latencies as counts in log-linear buckets, like an HDR histogram: exact counts, values to 0.1 %, mergeable."""

import math
from collections import Counter
from collections.abc import Mapping

SUB_BITS = 10
"""Each octave has 2**10 buckets, so the width of a bucket is at most a thousandth of its value."""


def bucket_of(value: int) -> int:
    """Return the bucket of a value, which must be at least 0.

    Buckets are numbered without gaps, in the order of values.
    """
    shift = max(value.bit_length() - SUB_BITS - 1, 0)
    return (shift << SUB_BITS) + (value >> shift)


def highest_of(bucket: int) -> int:
    """Return the highest value in a bucket."""
    shift = max((bucket >> SUB_BITS) - 1, 0)
    return ((bucket - (shift << SUB_BITS) + 1) << shift) - 1


class Histogram:
    """Counts values in nanoseconds. Only the task that created the histogram records values."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """Start empty, or with the `counts` of another histogram, which map a bucket to its number of values."""
        self.counts = Counter(counts or {})

    def record(self, value_ns: int) -> None:
        """Count one value; negative values count as 0."""
        self.counts[bucket_of(max(value_ns, 0))] += 1

    def merge(self, other: "Histogram") -> None:
        """Add all counts of `other`."""
        self.counts.update(other.counts)

    @property
    def total(self) -> int:
        """Return the number of recorded values."""
        return self.counts.total()

    def percentile_ms(self, share: float) -> float:
        """Return the highest value of the bucket that contains the percentile `share`; 0 if the histogram is empty."""
        wanted = max(1, math.ceil(share * self.total))
        for bucket in sorted(self.counts):
            wanted -= self.counts[bucket]
            if wanted <= 0:
                return highest_of(bucket) / 1e6
        return 0.0
