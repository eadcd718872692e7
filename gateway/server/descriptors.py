"""Raises the limit of file descriptors, and calculates how many of them client connections may use."""

import resource
from contextlib import suppress

KEPT = 2_000
"""Descriptors reserved for upstreams, the store and files, or half of all descriptors if that is less."""
_UNLIMITED = 1_048_576  # the default maximum on Linux


def connections_possible(wanted: int) -> int:
    """Raise the soft limit of descriptors as far as possible.

    Return how many of `wanted` client connections the descriptors then allow.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft not in {most, resource.RLIM_INFINITY}:
        with suppress(ValueError, OSError):  # macOS reports no limit, but then grants less or rejects the increase
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = most if soft == resource.RLIM_INFINITY else soft
    return min(wanted, allowed - min(KEPT, allowed // 2))
