"""Whether a path leads where its adapter meant it to: no value of a caller's is a way to another one.

Calls to whole addresses, which callers or answers name, have hosts, paths and queries as they are written.

Servers resolve `.` and `..` also where they are percent-encoded, once or twice, or stand beside an encoded slash; some
read compatibility forms of these characters as the characters themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Address, Args, Host, Param
from upstreams.model.steps import Accepts, Call, Wanted

_DECODED_TIMES = 3
_DOTS = re.compile(r"(?:^|[/\\])[\s\0-\x20]*\.\.?[\s\0-\x20]*(?:[/\\;?#]|$)")

_HOST: Final = replace(Host("host"), forms=())
"""A host as it is written, also its `www.`."""
_TOLD: Final = Address("url", "An address in an answer.", "https://example.org/x")


class Located:
    """The subject of endpoints, named by its address, which says the host too, or by a name on the `host`.

    The canonical form of such an address is its host and, behind a slash, what it names there.
    """

    __slots__ = ("_address", "_host", "name", "params")

    def __init__(self, host: Param, *params: Param) -> None:
        self.params = params
        self.name = next(one for one in params if one.type != "url")
        """The parameter that a call takes, whichever was sent."""
        self._host = host
        self._address = next(one.name for one in params if one.type == "url")

    def placed(self, args: Args) -> Args:
        """The arguments with what the address names, and its host; the same ones where none was sent.

        Raises:
            InvalidArgument: the host is not plainly public.
        """
        found = args.text_or_none(self._address)
        if found is None:
            return args
        place, _, value = found.partition("/")
        place = replace(self._host, name=self._address).canonical(place)
        return replace(args, values={**args.values, self.name.name: value, self._host.name: place})


@dataclass(slots=True)
class AddressCall(Call):
    """A call to a whole address that somebody named: an empty segment in its path is as good as another."""

    written: str = ""
    """The query as it was written, which stands for the members."""

    def target(self, base_path: str) -> str:
        """As `Call`."""
        return f"{base_path}{self.path}{self.written}"


def address_call(name: str, address: str, *, source: str, accepts: Accepts, optional: bool = False) -> AddressCall:
    """Return the call to an address in its canonical form, which the parameter of this name has.

    Raises:
        InvalidArgument: its host is not plainly public.
    """
    place, _, target = address.partition("/")
    host = replace(_HOST, name=name).canonical(place)
    path, mark, query = target.partition("?")
    written = f"{mark}{query}"
    return AddressCall(f"/{path}", source=source, accepts=accepts, optional=optional, host=host, written=written)


def told_call(address: str | None, *, source: str, accepts: Accepts, optional: bool = False) -> AddressCall | None:
    """Return the call to an address that an answer tells; None where it tells none that can be called."""
    try:
        written = _TOLD.canonical(address or "")
        return address_call("url", written, source=source, accepts=accepts, optional=optional)
    except InvalidArgument:
        return None


def leads_straight(wanted: Wanted) -> bool:
    """Whether no call among these has a path with an empty segment, or one that is `.` or `..` in any writing.

    An empty segment of an address that was named whole leads nowhere else.
    """
    if not isinstance(wanted, Call):
        return not isinstance(wanted, tuple) or all(map(leads_straight, wanted))
    path = wanted.path
    if ("//" in path or path[-1:] == "/") and not isinstance(wanted, AddressCall):
        return False
    # Nearly all paths have none of these, and then nothing is decoded.
    is_plain = "%" not in path and "/." not in path and "\\" not in path and path.isascii()
    return is_plain or not has_dots(path)


def detours(wanted: Wanted) -> int:
    """Return the number of segments in these calls' paths that are empty, or `.` or `..` in any writing."""
    if isinstance(wanted, tuple):
        return sum(map(detours, wanted))
    segments = wanted.path.split("/")[1:] if isinstance(wanted, Call) else []
    is_whole = isinstance(wanted, AddressCall)
    return sum(1 for segment in segments if has_dots(segment) or not (segment or is_whole))


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
