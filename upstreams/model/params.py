"""An endpoint's parameters: how they are declared, and how a read gets their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from upstreams.model.errors import InvalidArgument

Value = str | int | bool
State = Mapping[str, str | int]
"""The beginning of a next page, in the upstream's own terms: `{"p": 2}`, `{"o": 30}`, `{"c": "..."}` (decisions 10)."""
Credentials = Mapping[str, str]
_DROPPED = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, slots=True)
class Param:
    """One query parameter of an endpoint, as the guide shows it (spec 2.4)."""

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

    Nobody changes them. They are not frozen, because every request makes them.
    """

    values: Mapping[str, Value]
    cursor: State | None = None
    credentials: Credentials = field(default_factory=dict)
    now_at: float = 0.0

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


def path_of_url(param: str, url: str, hosts: tuple[str, ...]) -> list[str]:
    """The path segments, percent-decoded, of a public address on one of `hosts`; the scheme may be missing.

    Raises:
        InvalidArgument: the address is on another host or cannot be read.
    """
    if _DROPPED.search(url):  # `urlsplit` would leave them out, and read another address
        raise InvalidArgument(param, "must be a web address, without tabs and line ends in it")
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError as exc:  # brackets without an address in them
        raise InvalidArgument(param, "must be a web address") from exc
    if host not in hosts:
        raise InvalidArgument(param, f"must be an address on {' or '.join(hosts)}")
    return [unquote(part) for part in parts.path.split("/") if part]
