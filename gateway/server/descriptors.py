"""File descriptors: as many as this process may have, and how many of them clients may take."""

import resource
from contextlib import suppress

KEPT = 2_000
"""So many stay for upstreams, the store and files, or half of all when that is less."""
_UNLIMITED = 1_048_576  # what Linux allows at most unless told otherwise


def connections_possible(wanted: int) -> int:
    """How many of `wanted` client connections the descriptors allow; the soft limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft not in {most, resource.RLIM_INFINITY}:
        with suppress(ValueError, OSError):  # macOS tells of no limit and gives less, or nothing more
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = most if soft == resource.RLIM_INFINITY else soft
    return min(wanted, allowed - min(KEPT, allowed // 2))
