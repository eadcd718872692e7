"""File descriptors: as many as this process may have, and how many of them clients may take."""

import resource

KEPT = 2_000
"""So many stay for upstreams, the store and files, or half of all when that is less."""
_UNLIMITED = 1_048_576  # what Linux allows at most unless told otherwise


def connections_possible(wanted: int) -> int:
    """How many of `wanted` client connections the descriptors allow; the soft limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft not in {allowed, resource.RLIM_INFINITY}:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return min(wanted, allowed - min(KEPT, allowed // 2))
