"""Whether a path leads where its adapter meant it to: no value of a caller's is a way to another one.

Servers resolve `.` and `..` also where they are percent-encoded, once or twice, or stand beside an encoded slash; some
read compatibility forms of these characters as the characters themselves.
"""

from __future__ import annotations

import re
from unicodedata import normalize
from urllib.parse import unquote

from upstreams.model.steps import Call, Wanted

_DECODED_TIMES = 3
_DOTS = re.compile(r"(?:^|[/\\])[\s\0-\x20]*\.\.?[\s\0-\x20]*(?:[/\\;?#]|$)")


def leads_straight(wanted: Wanted) -> bool:
    """Whether no call among these has a path with an empty segment, or one that is `.` or `..` in any writing."""
    if not isinstance(wanted, Call):
        return not isinstance(wanted, tuple) or all(map(leads_straight, wanted))
    path = wanted.path
    if "//" in path or path[-1:] == "/":
        return False
    # Nearly all paths have none of these, and then nothing is decoded.
    is_plain = "%" not in path and "/." not in path and "\\" not in path and path.isascii()
    return is_plain or not has_dots(path)


def detours(wanted: Wanted) -> int:
    """Return the number of segments in these calls' paths that are empty, or `.` or `..` in any writing."""
    if isinstance(wanted, tuple):
        return sum(map(detours, wanted))
    segments = wanted.path.split("/")[1:] if isinstance(wanted, Call) else []
    return sum(1 for segment in segments if not segment or has_dots(segment))


def climbs(wanted: Wanted) -> bool:
    """Whether a call among these has a path with a segment that is `.` or `..` in any writing."""
    if isinstance(wanted, tuple):
        return any(map(climbs, wanted))
    return isinstance(wanted, Call) and has_dots(wanted.path)


def has_dots(path: str) -> bool:
    """Whether a segment of a path is `.` or `..` for anybody who decodes it."""
    plain = path
    for _ in range(_DECODED_TIMES):
        plain = unquote(plain)
    return _DOTS.search(normalize("NFKC", plain)) is not None
