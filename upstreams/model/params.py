"""Declarations of endpoint parameters, and access to their values while an endpoint is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from upstreams.model.errors import InvalidArgument

Value = str | int | bool
State = Mapping[str, str | int]
"""The position at which the next page starts, in the upstream's own terms: `{"p": 2}`, `{"o": 30}`, `{"c": "..."}`
(decisions 10)."""
Credentials = Mapping[str, str]
_DROPPED = re.compile(r"[\t\r\n]")
_QUERY = re.compile(r"[?#]")


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter of an endpoint, as shown in the guide (spec 2.4), and the rules for its values.

    Each value is first converted from any accepted spelling to one canonical text. That text is sent upstream. It also
    identifies responses, cursors and charges, so all spellings share them (decisions 8).
    """

    name: str
    description: str
    example: str
    type: Literal["string", "integer", "boolean", "url"] = "string"
    required: bool = False
    default: Value | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    length_max: int = 500
    strip: str = ""
    """A prefix that is removed from a value, such as `@`."""
    fold: bool = False
    """Whether the platform ignores case. Values are then converted to lower case."""
    blanks: str = ""
    """The text that replaces each run of spaces, as on the platform."""
    pattern: str = ""
    """A regular expression that must match the whole canonical value."""
    forms: tuple[str, ...] = ()
    """Regular expressions for other spellings, such as URLs. The value is the matched groups, joined by slashes.

    A URL is matched without its scheme, `www.` and user, and with its host in lower case. It is tried without its query
    and fragment first, and then with them.
    """
    problem: str = ""
    """An error message that describes valid values, for patterns that the example does not make clear."""
    is_host: bool = False
    is_address: bool = False
    """Whether the value is a whole URL. The call then uses its host, path and query as given."""
    platform: str = ""
    """The slug of the platform that the values belong to, in composites that combine several platforms."""

    @property
    def example_value(self) -> Value:
        """The example, converted to the value that a request would carry."""
        return self.example if self.type in ("integer", "boolean") else self.canonical(self.example)

    def asks_for(self, value: Value, slug: str) -> bool:  # noqa: ARG002 - for names, it depends on the value
        """Return whether a composite calls a platform for this value. For a URL, it calls every platform."""
        return self.type == "url" or slug == self.platform

    def canonical(self, text: str) -> str:
        """Return the canonical form of a value, whatever its spelling.

        Raises:
            InvalidArgument: The text is not a valid value.
        """
        value = text.strip()
        if self.is_address:
            return self._whole(value)
        if self.forms and not value.isalnum():  # a URL is always a string
            value = self._read(value)
        if self.strip:
            while value.startswith(self.strip):
                value = value.removeprefix(self.strip).lstrip()
        if not value:
            raise InvalidArgument(self.name, "must not be blank")
        if self.fold:
            value = value.lower()
        if self.blanks:
            value = self.blanks.join(value.replace(self.blanks, " ").split())
        if self.pattern and _compiled(self.pattern).fullmatch(value) is None:
            raise InvalidArgument(self.name, self.problem or f"must have the form of {self.example}")
        return value

    def _whole(self, value: str) -> str:
        """Return the URL without scheme and fragment, with normalized percent-encoding.

        Path and query are otherwise unchanged.
        """
        found = _ADDRESS.fullmatch(value)
        if found is None:
            raise InvalidArgument(self.name, f"must be a complete URL, such as {self.example}")
        return found[1].lower() + _coded(found[2] or "/") + _coded(found[3] or "")

    def at_address(self, address: str) -> str | None:
        """Return the canonical value that a URL contains, or None if the URL matches none of the parameter's forms."""
        try:
            return None if match_form(self.forms, address) is None else self.canonical(address)
        except InvalidArgument:
            return None

    def _read(self, value: str) -> str:
        """Return the value that a URL contains.

        The forms are applied until nothing changes, because the extracted value may itself be a URL. Without this, a
        canonical value could change when it is parsed again.
        """
        while (found := _read_as(self.forms, value)) is not None and found != value:
            value = found.strip()
        return value


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_UNRESERVED = re.compile(r"%(2[dDeE]|3\d|4[1-9a-fA-F]|5[\daAfF]|6[1-9a-fA-F]|7[\daAeE])")
"""Percent-encoded letters, digits, hyphens, dots, underscores and tildes. They are equivalent to the plain characters
(RFC 3986, 2.3)."""
_SCHEME = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:www\.)?(?:git@)?([^/?#:]+)(?::(?:443|80|22)(?=/|$))?", re.IGNORECASE
)

_ADDRESS = re.compile(
    r"(?:feed:)?(?:(?:https?|feed)://)?([^/?#@:\\\s]+)(?::(?:443|80))?(?![^/?#])(/[^?#\\\s\0-\x1f\x7f]*)?(\?[^#\\\s\0-\x1f\x7f]*)?(?:#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(r"%([0-9A-Fa-f]{2})?")
_SAFE = "/?%:@!$&'()*+,;=[]~"


def _coded(piece: str) -> str:
    """Normalize the percent-encoding of a path or query: upper-case codes, and only where encoding is needed."""

    def one(code: re.Match[str]) -> str:
        letter = chr(int(code[1], 16)) if code[1] else ""
        return letter if _UNRESERVED.fullmatch(code[0]) else code[0].upper() if letter else "%25"

    return _CODE.sub(one, quote(piece, safe=_SAFE, errors="replace"))


def _read_as(forms: tuple[str, ...], value: str) -> str | None:
    """Return the value that one of these spellings extracts, or None if none of them matches."""
    matched = match_form(forms, value)
    return matched and "/".join(unquote(group) for group in matched.groups() if group is not None)


def match_form(forms: tuple[str, ...], value: str) -> re.Match[str] | None:
    """Return the match of the first spelling that matches a value. Its groups are still percent-encoded."""
    found = _SCHEME.match(value)
    if found is None or _DROPPED.search(value):
        return None
    path = _UNRESERVED.sub(lambda code: chr(int(code[1], 16)), value[found.end() :])
    begin = _QUERY.split(path, maxsplit=1)[0]
    plain = found[1].lower() + re.sub("//+", "/", begin) + path[len(begin) :]
    spelled = (plain,) if "." in found[1] else (value, plain)
    for text in (*(_QUERY.split(one)[0].rstrip("/") for one in spelled), *spelled):
        for form in forms:
            matched = _compiled(form).fullmatch(text)
            if matched is not None:
                return matched
    return None


class AddressForm(NamedTuple):
    """A URL form that identifies an endpoint. Its named groups are parameter values."""

    resource: str
    form: str


_HOST = r"(?=.{4,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]"
"""A host name. All labels except the last may contain underscores, as in `my_show.example.org`."""


def Host(name: str, *, default: str | None = None, example: str = "", description: str = "") -> Param:  # noqa: N802 - reads like a declaration
    """Return a parameter for a host that the caller names, accepting its URL in any spelling.

    The host becomes part of source addresses. Credentials are never sent to it, and it is called only if its address is
    clearly public (`upstreams.guard`).
    """
    return Param(
        name,
        description or f"The host to read from{f'; default {default}' if default else ''}.",
        example or default or "example.org",
        required=default is None,
        default=default,
        length_max=253,
        forms=(r"([^/@:]+)(?:/.*)?",),
        strip="@",
        fold=True,
        pattern=_HOST,
        problem=f"must be the name of a public host, such as {example or default or 'example.org'}",
        is_host=True,
    )


def Address(name: str, description: str, example: str) -> Param:  # noqa: N802 - reads like a declaration
    """Return a parameter for a whole URL on any host. `upstreams.model.paths` converts the URL to a call."""
    return Param(name, description, example, type="url", length_max=2_000, is_address=True)


def forms_at_host(mark: str) -> tuple[str, ...]:
    """Return the accepted spellings of a name that may belong to another host.

    They are its URL, with `mark` before the name, and `name@host`. The canonical form is the name, a slash and its
    host. If a third host shows the profile, the URL on that host contains the account's own host.
    """
    return (
        rf"(?=[^/]+/{mark}([^/@]+)(?:/|$))([^/@]+)/.*",
        rf"[^/]+/{mark}([^/@]+)@([^/@]+)(?:/.*)?",
        r"[@!]?([^/@]+)@([^/@]+)",
    )


AT_HOST = r"(?:/[\w-]+(?:\.[\w-]+)+)?"
"""A suffix for a name's pattern. It matches an optional host after the name, such as `/example.org`."""


def at_host(name: str | None) -> str | None:
    """Return the canonical form of a name as `name@host`."""
    return name and name.replace("/", "@")


def limit(maximum: int, default: int = 20) -> Param:
    """Return the page size parameter of a list endpoint (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Number of items per page, 1 to {maximum}.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


def collected(maximum: int, default: int) -> Param:
    """Return the parameter for the number of items that an endpoint collects over all pages (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Number of items to collect, 1 to {maximum}, over as many pages as needed. Each page is billed.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


@dataclass(slots=True)
class Args:
    """The arguments of a `read`: validated parameters, the cursor's state, the platform's credentials and the time.

    Never modify an instance. The class is not frozen, because every request creates an instance and frozen classes are
    slower to create.
    """

    values: Mapping[str, Value]
    cursor: State | None = None
    credentials: Credentials = field(default_factory=dict)
    now_at: float = 0.0
    account_id: str = ""
    """The account that made the request, used only to share capacity fairly. It never affects a key, cursor or
    response."""

    def text(self, name: str) -> str:
        """Return a string parameter that always has a value, because it is required or has a default."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a string parameter, or None if the request does not contain it."""
        return self.text(name) if name in self.values else None

    def number(self, name: str) -> int:
        """Return an integer parameter that always has a value."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def position(self, key: str, first: int) -> int:
        """Return the page number or offset stored under `key` in the cursor, or `first` if there is no cursor."""
        value = self.cursor.get(key, first) if self.cursor else first
        return value if isinstance(value, int) else first

    def token(self, key: str = "c") -> str | None:
        """Return the upstream's cursor, which our cursor contains, or None on the first page."""
        value = self.cursor.get(key) if self.cursor else None
        return None if value is None else str(value)
