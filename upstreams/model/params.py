"""An endpoint's parameters: how they are declared, and how a read gets their values."""

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
"""The beginning of a next page, in the upstream's own terms: `{"p": 2}`, `{"o": 30}`, `{"c": "..."}` (decisions 10)."""
Credentials = Mapping[str, str]
_DROPPED = re.compile(r"[\t\r\n]")
_QUERY = re.compile(r"[?#]")


@dataclass(frozen=True, slots=True)
class Param:
    """One query parameter of an endpoint, as the guide shows it (spec 2.4), and the one form that its values have.

    Every spelling of a value becomes the same canonical text before anything is done with it: that text is sent
    upstream, and answers, cursors and charges are known by it (decisions 8).
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
    """The characters that may stand before a value and are no part of it: an at sign."""
    fold: bool = False
    """Whether the platform takes capital letters for small ones."""
    blanks: str = ""
    """The text that the platform writes in place of blanks, however many there are."""
    pattern: str = ""
    """The regular expression of a whole canonical value."""
    forms: tuple[str, ...] = ()
    """The regular expressions of further spellings, such as addresses: the groups that matched, with slashes between,
    are the value. An address is matched without its scheme, `www.` and user, with a small host; first without its query
    and fragment, then with them."""
    problem: str = ""
    """Says what a value must be, where the pattern would say it badly."""
    is_host: bool = False
    is_address: bool = False
    """Whether it is a whole address, which is called as it is written: host, path and query, without its scheme."""
    platform: str = ""
    """The slug of the platform that its values are of, where a composite has parts of several."""

    @property
    def example_value(self) -> Value:
        """The example as a request's value."""
        return self.example if self.type in ("integer", "boolean") else self.canonical(self.example)

    def asks_for(self, value: Value, slug: str) -> bool:  # noqa: ARG002 - of names it depends on the value
        """Whether a value of it asks for a platform that a composite has parts of: an address leads to all of them."""
        return self.type == "url" or slug == self.platform

    def canonical(self, text: str) -> str:
        """The one form of a value in any spelling.

        Raises:
            InvalidArgument: it cannot be one.
        """
        value = text.strip()
        if self.is_address:
            return self._whole(value)
        if self.forms and not value.isalnum():  # no address is
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
            raise InvalidArgument(self.name, self.problem or f"must be such as {self.example}")
        return value

    def _whole(self, value: str) -> str:
        """The address without its scheme and fragment, its codes in one form; path and query are as they are else."""
        found = _ADDRESS.fullmatch(value)
        if found is None:
            raise InvalidArgument(self.name, f"must be a whole address, such as {self.example}")
        return found[1].lower() + _coded(found[2] or "/") + _coded(found[3] or "")

    def at_address(self, address: str) -> str | None:
        """The canonical value that an address holds; None where it has none of the parameter's forms."""
        try:
            return None if match_form(self.forms, address) is None else self.canonical(address)
        except InvalidArgument:
            return None

    def _read(self, value: str) -> str:
        """The value that an address holds, which may be one again: a canonical value is its own canonical form."""
        while (found := _read_as(self.forms, value)) is not None and found != value:
            value = found.strip()
        return value


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_UNRESERVED = re.compile(r"%(2[dDeE]|3\d|4[1-9a-fA-F]|5[\daAfF]|6[1-9a-fA-F]|7[\daAeE])")
"""Codes of letters, digits, hyphen, dot, underscore and tilde, which mean the same as these (RFC 3986, 2.3)."""
_SCHEME = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:www\.)?(?:git@)?([^/?#:]+)(?::(?:443|80|22)(?=/|$))?", re.IGNORECASE
)

_ADDRESS = re.compile(
    r"(?:feed:)?(?:(?:https?|feed)://)?([^/?#@:\\\s]+)(?::(?:443|80))?(?![^/?#])(/[^?#\\\s\0-\x1f\x7f]*)?(\?[^#\\\s\0-\x1f\x7f]*)?(?:#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(r"%([0-9A-Fa-f]{2})?")
_AS_THEY_ARE = "/?%:@!$&'()*+,;=[]~"


def _coded(piece: str) -> str:
    """A path or a query with codes where it needs some, in capitals, and none of letters and digits."""

    def one(code: re.Match[str]) -> str:
        letter = chr(int(code[1], 16)) if code[1] else ""
        return letter if _UNRESERVED.fullmatch(code[0]) else code[0].upper() if letter else "%25"

    return _CODE.sub(one, quote(piece, safe=_AS_THEY_ARE, errors="replace"))


def _read_as(forms: tuple[str, ...], value: str) -> str | None:
    """The value in one of these spellings; None where it has none of them."""
    matched = match_form(forms, value)
    return matched and "/".join(unquote(group) for group in matched.groups() if group is not None)


def match_form(forms: tuple[str, ...], value: str) -> re.Match[str] | None:
    """The match of the first of these spellings that a value has, its groups percent-encoded as they came."""
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
    """A form of addresses that leads to an endpoint; its named groups are the values of parameters."""

    resource: str
    form: str


_HOST = r"(?=.{4,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]"
"""A host, whose labels may have underscores, as in `my_show.example.org`, except the last one."""


def Host(name: str, *, default: str | None = None, example: str = "", description: str = "") -> Param:  # noqa: N802 - reads as a declaration
    """A host that the caller names, in any spelling of its address: it stands in the platform's sources.

    No credential is ever sent to it, and it is called only where it is plainly public (`upstreams.guard`).
    """
    return Param(
        name,
        description or f"The host to read from{f'; {default} when absent' if default else ''}.",
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


def Address(name: str, description: str, example: str) -> Param:  # noqa: N802 - reads as a declaration
    """A whole address that the caller names, on whichever host; `upstreams.model.paths` makes the call of it."""
    return Param(name, description, example, type="url", length_max=2_000, is_address=True)


def forms_at_host(mark: str) -> tuple[str, ...]:
    """The spellings of a name that may be one of another host: its address, with `mark` before it, or `name@host`.

    The canonical form is the name and, behind a slash, its host; of its address on a third host those of its own.
    """
    return (
        rf"(?=[^/]+/{mark}([^/@]+)(?:/|$))([^/@]+)/.*",
        rf"[^/]+/{mark}([^/@]+)@([^/@]+)(?:/.*)?",
        r"[@!]?([^/@]+)@([^/@]+)",
    )


AT_HOST = r"(?:/[\w-]+(?:\.[\w-]+)+)?"
"""The part of such a name's pattern behind the name itself."""


def at_host(name: str | None) -> str | None:
    """Such a name as `name@host`."""
    return name and name.replace("/", "@")


def limit(maximum: int, default: int = 20) -> Param:
    """The page-size control of a list endpoint (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Items on a page, 1 to {maximum}.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


def collected(maximum: int, default: int) -> Param:
    """The number of items that a collect-until-N endpoint walks its pages for (spec 4.3, rule 7)."""
    return Param(
        "limit",
        f"Items to collect, 1 to {maximum}, from as many pages as it takes; each page used is billed.",
        str(default),
        type="integer",
        default=default,
        minimum=1,
        maximum=maximum,
    )


@dataclass(slots=True)
class Args:
    """The arguments of a `read`: validated parameters, the cursor's state, this platform's credentials and the instant.

    Nothing changes them. They are not frozen, because every request makes them.
    """

    values: Mapping[str, Value]
    cursor: State | None = None
    credentials: Credentials = field(default_factory=dict)
    now_at: float = 0.0
    account_id: str = ""
    """The account that the work is for, used only for fair turns: no part of a key, a cursor or an answer."""

    def text(self, name: str) -> str:
        """A string parameter that is known to be there: required, or with a default."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def text_or_none(self, name: str) -> str | None:
        """A string parameter, or None when it was not sent."""
        return self.text(name) if name in self.values else None

    def number(self, name: str) -> int:
        """An integer parameter that is known to be there."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def position(self, key: str, first: int) -> int:
        """The page number or offset that the cursor holds under `key`, or `first` without a cursor."""
        value = self.cursor.get(key, first) if self.cursor else first
        return value if isinstance(value, int) else first

    def token(self, key: str = "c") -> str | None:
        """The upstream's own cursor that ours carries, or None on the first page."""
        value = self.cursor.get(key) if self.cursor else None
        return None if value is None else str(value)
