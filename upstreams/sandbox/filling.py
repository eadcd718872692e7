"""Fills templates: each `$kind` is replaced by an invented value. The same subject always gets the same values.

A text that consists of one placeholder becomes a value of that kind (`"$count"` a number, `"$flag"` true or false). In
a longer text, each value is inserted as text. `${$kind}` is the same as `$kind`, for placeholders before a letter.
`${name}` is a value of the request, `${name:int}` is that value as a number, and `$$` is a dollar sign. The entries of
a list are repeated one to three times, or used once if the first entry is `"$all"`. A member whose name ends in `?` is
omitted from some objects. In rows, `$place` is the row number, `$serial` is that number as text, and `$tick` and
`$tick_iso` are a timestamp that identifies the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from random import Random
from typing import Any, Final
from urllib.parse import quote
from zlib import crc32

from upstreams.model.fields.values import instant
from upstreams.sandbox.invent import EPOCH_S, paragraph, person, sentence

_PLACEHOLDER = re.compile(
    r"\$(?:(?P<kind>\$|[a-z_]+)|\{\$(?P<apart>[a-z_]+)\}|\{(?P<name>[^{}:$]+)(?::(?P<form>int))?\})"
)
_NAMED = re.compile(r"\$digits|\$id|\$handle|.*\$\{.*")
"""Names of members in which placeholders are replaced too. Other names may start with a dollar sign, which is kept."""
_ALL: Final = "$all"
_SAFE_IN_URL: Final = "/:@!$&'()*+,;=?%"
"""Characters that stay unencoded in a URL."""
_OPTIONAL_IN = 4
"""In lists, one of this many objects lacks an optional member. The first object of a list always has it."""
_YEARS_S = 5 * 365 * 86_400
_TICK_S = 3_600
_SPREAD = 11_400_714_819_323_198_485
"""An odd number, because multiplying by an odd number maps different numbers to different numbers."""


def number_of(*subject: object) -> int:
    """Return a 32-bit number that depends only on the subject."""
    return crc32("/".join(map(str, subject)).encode())


def _token(number: int) -> str:
    return f"{number * _SPREAD % 2**60:015x}"


def _moment(number: int) -> datetime:
    return datetime.fromtimestamp(EPOCH_S + number % _YEARS_S, UTC)


def _handle(number: int) -> str:
    return f"{person(Random(number)).lower().replace(' ', '_')}_{number % 1_000}"


_KINDS: Mapping[str, Callable[[int], Any]] = {
    "count": lambda number: number % 2_000,
    "number": lambda number: 10_000_000 + number % 900_000_000,
    "digits": lambda number: str(10_000_000 + number % 900_000_000),
    "id": _token,
    "handle": _handle,
    "name": lambda number: person(Random(number)),
    "word": lambda number: ("python", "sqlite", "trio", "bash", "html", "git", "queues")[number % 7],
    "text": lambda number: sentence(Random(number)),
    "paragraph": lambda number: paragraph(Random(number)),
    "escaped": lambda number: f"{sentence(Random(number))[:-1]}, isn&#39;t it &quot;so&quot;?",
    "html": lambda number: f"<p>{paragraph(Random(number), 2)} It&#39;s <em>easy</em>.</p>\n<p>a &lt; b</p>",
    "url": lambda number: f"https://example.com/{_token(number)}",
    "image": lambda number: f"https://cdn.example.com/{_token(number)}.png",
    "domain": lambda number: f"{_token(number)}.example.com",
    "email": lambda number: f"{_handle(number)}@example.com",
    "instant": lambda number: _moment(number).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "unix": lambda number: EPOCH_S + number % _YEARS_S,
    "unix_ms": lambda number: (EPOCH_S + number % _YEARS_S) * 1_000,
    "date": lambda number: _moment(number).strftime("%Y-%m-%d"),
    "http_date": lambda number: format_datetime(_moment(number), usegmt=True),
    "seconds": lambda number: 1 + number % 5_000,
    "duration": lambda number: f"PT{number % 3}H{number % 60}M{number % 59}S",
    "clock": lambda number: f"{number % 90}:{number % 60:02}",
    "decimal": lambda number: number % 9_999 / 100 + 0.25,
    "price": lambda number: f"{number % 9_999 / 100 + 0.25:.2f}",
    "flag": lambda number: number % 2 == 0,
    "language": lambda _number: "en",
}
"""The functions that invent values, by kind. Each result depends only on a 32-bit number."""
KINDS: Final = frozenset(_KINDS)
PAGE_KINDS: Final = frozenset(("place", "serial", "tick", "tick_iso", "rows"))
"""Kinds whose value depends on the position of a row, and the kind that inserts the rows of a text."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The values that fill a template for one request."""

    values: Mapping[str, str]
    """The values of the request, for `${name}`."""
    seed: str
    """The subject that invented values depend on."""
    steps: int = 0
    """How often counters have grown by half a percent plus one."""
    page: Mapping[str, Any] = field(default_factory=dict)
    """Values of the `PAGE_KINDS` that are available for this row or page."""
    escape: Callable[[str], str] = str
    """Escapes a value for insertion into a text."""

    def fill(self, template: Any, path: str = "") -> Any:
        """Return the template filled with values that depend on the seed and on their position."""
        if isinstance(template, dict):
            return dict(self._members(template, path))
        if isinstance(template, list):
            return self._entries(template, path)
        return self._text(template, path) if isinstance(template, str) else template

    def rows(self, templates: list[Any], places: range) -> list[Any]:
        """Return the rows of a list at these positions, cycling through the templates."""
        return [
            replace(self, page=_page_at(place)).fill(templates[place % len(templates)], f"/{place}") for place in places
        ]

    def _entries(self, templates: list[Any], path: str) -> list[Any]:
        if templates and templates[0] == _ALL:
            return [self.fill(one, f"{path}/{place}") for place, one in enumerate(templates[1:])]
        rounds = 1 + self._number(path) % 3
        return [self.fill(one, f"{path}/{place}") for place, one in enumerate(templates * rounds)]

    def _number(self, path: str) -> int:
        return number_of(self.seed, path)

    def _members(self, template: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
        for name, inner in template.items():
            own = f"{path}/{name}"
            plain = name.removesuffix("?")
            if plain != name and "/0/" not in own and self._number(f"{own}?") % _OPTIONAL_IN == 0:
                continue
            yield self._text(plain, own) if is_filled_name(plain) else plain, self.fill(inner, own)

    def _text(self, template: str, path: str) -> Any:
        if "$" not in template:
            return template
        whole = _PLACEHOLDER.fullmatch(template)
        if whole is not None and self.escape is str:
            return self._value(whole, path)
        is_address = template.startswith("https://")
        return _PLACEHOLDER.sub(partial(self._written, path, is_address=is_address), template)

    def _written(self, path: str, match: re.Match[str], *, is_address: bool) -> str:
        value = self._value(match, f"{path}/{match.start()}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return (
            text if _kind_of(match) == "rows" else self.escape(quote(text, safe=_SAFE_IN_URL) if is_address else text)
        )

    def _value(self, match: re.Match[str], path: str) -> Any:
        if match["name"] is not None:
            value = self.values.get(match["name"], "")
            return _as_number(value) if match["form"] else value
        kind = _kind_of(match)
        if kind == "$":
            return "$"
        if kind in self.page:
            return self.page[kind]
        if kind not in KINDS:
            raise LookupError(f"unknown placeholder `{match[0]}` at {path} of {self.seed}")
        number = _KINDS[kind](self._number(path))
        return number + self.steps * (1 + number // 200) if kind == "count" else number


def _kind_of(match: re.Match[str]) -> str:
    return match["kind"] or match["apart"] or ""


def is_filled_name(name: str) -> bool:
    """Return whether placeholders are replaced in the name of a member."""
    return _NAMED.fullmatch(name.removesuffix("?")) is not None


def _page_at(place: int) -> dict[str, Any]:
    tick = EPOCH_S + _YEARS_S - place * _TICK_S
    return {"place": place, "serial": str(place), "tick": tick, "tick_iso": instant(tick)}


def place_of_tick(moment: str) -> int:
    """Return the position of the row that an ISO timestamp identifies. The later the row, the earlier its timestamp."""
    return (EPOCH_S + _YEARS_S - int(datetime.fromisoformat(moment).timestamp())) // _TICK_S


def _as_number(value: str) -> int:
    return int(value) if value.removeprefix("-").isascii() and value.removeprefix("-").isdecimal() else number_of(value)
