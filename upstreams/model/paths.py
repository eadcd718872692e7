"""Checks that values from a caller cannot redirect a call to a path that its adapter did not intend.

Servers resolve `.` and `..` even if they are percent-encoded once or twice, or next to an encoded slash. Some servers
treat Unicode compatibility forms of these characters as the characters themselves. Calls to whole URLs, from callers or
from answers, are exempt: they use the host, path and query as given.
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
"""A parameter for a host name exactly as given, including `www.`."""
_URL_IN_ANSWER: Final = Address("url", "A URL in a response.", "https://example.org/x")


class Located:
    """The subject of an endpoint, given as a URL, or as a name together with the `host` parameter.

    The canonical form of the URL is its host, a slash and the name.
    """

    __slots__ = ("_address", "_host", "groups", "name", "params")

    def __init__(self, host: Param, *params: Param) -> None:
        self.params = params
        self.groups = (tuple(one.name for one in params),)
        """The parameters. A request must have exactly one of them."""
        self.name = next(one for one in params if one.type != "url")
        """The parameter that calls use, whichever parameter the request contained."""
        self._host = host
        self._address = next(one.name for one in params if one.type == "url")

    @property
    def arguments(self) -> tuple[Param, ...]:
        """The arguments of the constructor."""
        return (self._host, *self.params)

    def normalize(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the values unchanged, because the URL is a separate parameter."""
        return values

    def resolve(self, args: Args) -> Args:
        """Return the arguments with the name and host taken from the URL, or unchanged if the request contains no URL.

        Raises:
            InvalidArgument: The host is not clearly public.
        """
        found = args.text_or_none(self._address)
        if found is None:
            return args
        place, _, value = found.partition("/")
        place = replace(self._host, name=self._address).canonical(place)
        return replace(args, values={**args.values, self.name.name: value, self._host.name: place})


class Within:
    """The subject of an endpoint, given in one parameter as its number, or as a URL that also names its place.

    The place is another parameter of the platform, such as a site, a country or a host. The canonical form of the URL
    is the place, a slash and the number. A name may replace the number.
    """

    __slots__ = ("_name", "groups", "params", "place")

    def __init__(self, place: Param, subject: Param) -> None:
        self.place = place
        """The parameter for the place."""
        self.params = (subject,)
        self.groups: tuple[tuple[str, ...], ...] = ()
        self._name = subject.name

    @property
    def arguments(self) -> tuple[Param, ...]:
        """The arguments of the constructor."""
        return (self.place, *self.params)

    def normalize(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the values, with a URL among them replaced by the number and the place that it names.

        Raises:
            InvalidArgument: The request also names a different place, or the place does not exist.
        """
        place, mark, number = str(values.get(self._name, "")).partition("/")
        if not mark:
            return values
        place = replace(self.place, name=self._name).canonical(place)
        if values.get(self.place.name, place) != place:
            raise InvalidArgument(self.place.name, f"must be {place}, as in the URL, or be left out")
        return {**values, self._name: number, self.place.name: place}

    def resolve(self, args: Args) -> Args:
        """Return the arguments with the number and the place extracted from a URL.

        A place that equals the default is overridden by the URL, because the request may not have set it.

        Raises:
            InvalidArgument: The URL names a different place than the request, or its place does not exist.
        """
        if "/" not in str(args.values.get(self._name, "")):
            return args
        usual = (self.place.name, self.place.default)
        settled = self.normalize(dict(one for one in args.values.items() if one != usual))
        return replace(args, values={**args.values, **settled})


@dataclass(slots=True)
class AddressCall(Call):
    """A call to a whole URL that a caller or an answer provides. Its path may contain empty segments."""

    written: str = ""
    """The query string of the URL, unchanged. It is sent instead of `query`."""

    def target(self, base_path: str) -> str:
        """See `Call`."""
        return f"{base_path}{self.path}{self.written}"


def address_call(name: str, address: str, *, source: str, accepts: Accepts, optional: bool = False) -> AddressCall:
    """Return the call to a URL in canonical form. `name` is the parameter that errors refer to.

    Raises:
        InvalidArgument: The host is not clearly public.
    """
    place, _, target = address.partition("/")
    host = replace(_HOST, name=name).canonical(place)
    path, mark, query = target.partition("?")
    written = f"{mark}{query}"
    return AddressCall(f"/{path}", source=source, accepts=accepts, optional=optional, host=host, written=written)


def call_from_answer(
    address: str | None, *, source: str, accepts: Accepts, optional: bool = False
) -> AddressCall | None:
    """Return the call to a URL that an answer contains, or None if the URL cannot be called."""
    try:
        written = _URL_IN_ANSWER.canonical(address or "")
        return address_call("url", written, source=source, accepts=accepts, optional=optional)
    except InvalidArgument:
        return None


def leads_straight(wanted: Wanted) -> bool:
    """Return whether every path in these calls leads where it says.

    A path leads elsewhere if a segment is empty, or is `.` or `..` in any encoding. Only a URL that was given as a
    whole may have empty segments.
    """
    if not isinstance(wanted, Call):
        return not isinstance(wanted, tuple) or all(map(leads_straight, wanted))
    path = wanted.path
    if ("//" in path or path[-1:] == "/") and not isinstance(wanted, AddressCall):
        return False
    # Nearly all paths are plain, and checking that is cheaper than decoding them.
    is_plain = "%" not in path and "/." not in path and "\\" not in path and path.isascii()
    return is_plain or not has_dots(path)


def count_detours(wanted: Wanted) -> int:
    """Return how many segments in the paths of these calls are empty, or are `.` or `..` in any encoding."""
    if isinstance(wanted, tuple):
        return sum(map(count_detours, wanted))
    segments = wanted.path.split("/")[1:] if isinstance(wanted, Call) else []
    is_whole = isinstance(wanted, AddressCall)
    return sum(1 for segment in segments if has_dots(segment) or not (segment or is_whole))


def has_dot_segment(wanted: Wanted) -> bool:
    """Return whether a path in these calls has a segment that is `.` or `..` in any encoding."""
    if isinstance(wanted, tuple):
        return any(map(has_dot_segment, wanted))
    return isinstance(wanted, Call) and has_dots(wanted.path)


def has_dots(path: str) -> bool:
    """Return whether a segment of a path decodes to `.` or `..`."""
    plain = path
    for _ in range(_DECODED_TIMES):
        plain = unquote(plain)
    return _DOTS.search(normalize("NFKC", plain)) is not None
