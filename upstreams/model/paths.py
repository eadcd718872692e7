"""Whether a path leads where its adapter meant it to: no value of a caller's is a way to another one.

Calls to whole addresses, which callers or answers name, have hosts, paths and queries as they are written.

Servers resolve `.` and `..` also where they are percent-encoded, once or twice, or stand beside an encoded slash; some
read compatibility forms of these characters as the characters themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Address, Args, Host, Param, Value
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

    __slots__ = ("_address", "_host", "groups", "name", "params")

    def __init__(self, host: Param, *params: Param) -> None:
        self.params = params
        self.groups = (tuple(one.name for one in params),)
        """The parameters of which exactly one must be sent."""
        self.name = next(one for one in params if one.type != "url")
        """The parameter that a call takes, whichever was sent."""
        self._host = host
        self._address = next(one.name for one in params if one.type == "url")

    def settled(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the values as they are: the address is a parameter of its own."""
        return values

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


class Within:
    """The subject of endpoints, named by its number, or in the same parameter by an address that says the place too.

    The canonical form of such an address is the place and, behind a slash, the number. The place is another parameter
    of the platform's own, such as a site, a country or a host; names go by as numbers do.
    """

    __slots__ = ("_name", "groups", "params", "place")

    def __init__(self, place: Param, subject: Param) -> None:
        self.place = place
        """The parameter of the place."""
        self.params = (subject,)
        self.groups: tuple[tuple[str, ...], ...] = ()
        self._name = subject.name

    def settled(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """The values that were sent, with the number and the place that an address among them names.

        Raises:
            InvalidArgument: another place was sent beside it, or it is none that there is.
        """
        place, mark, number = str(values.get(self._name, "")).partition("/")
        if not mark:
            return values
        place = replace(self.place, name=self._name).canonical(place)
        if values.get(self.place.name, place) != place:
            raise InvalidArgument(self.place.name, f"must be {place}, as the address says, or be left out")
        return {**values, self._name: number, self.place.name: place}

    def placed(self, args: Args) -> Args:
        """The arguments with these; a place that is the default counts as not sent.

        Raises:
            InvalidArgument: as above.
        """
        if "/" not in str(args.values.get(self._name, "")):
            return args
        usual = (self.place.name, self.place.default)
        settled = self.settled(dict(one for one in args.values.items() if one != usual))
        return replace(args, values={**args.values, **settled})


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
