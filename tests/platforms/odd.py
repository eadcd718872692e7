"""Ways to corrupt a good body: changes to its JSON, and changes to the bytes that are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from tests.fakes.scripted_upstream import ScriptedAnswer

Path = tuple[str | int, ...]
Kind = Literal["drop", "put", "twice", "add", "insert"]
HTML = b"<!DOCTYPE html>\n<html><head><title>Just a moment</title></head><body>Sorry</body></html>"
_DEEP, _HUGE = "@deep@", "@huge@"
_RAW = {_DEEP: "[" * 3_000 + "]" * 3_000, _HUGE: "9" * 5_000}
"""Values that Python cannot write as JSON, by the placeholder that stands for them."""
UNREADABLE = (_DEEP, _HUGE)

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    -17,
    3.0,
    0.5,
    1e308,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    float("nan"),
    float("-inf"),
    "",
    " ",
    "0",
    "-3",
    "12",
    "1,234",
    "1e3",
    "NaN",
    "Infinity",
    "null",
    "undefined",
    "9" * 19,
    "9" * 5_000,
    "٣",
    "²",
    "2020-01-31",
    "2020-01-31 12:00:00 UTC",
    "2020-01-31T12:00:00.123456789+05:30",
    "2020-02-30T25:61:61Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "20200131T120000",
    "1580472000",
    1580472000,
    1580472000123,
    -62135596800,
    "something#new",
    "a\0b",
    "half of a pair \ud83d",
    "\ufeff\u202e",
    "<p>Sorry &amp; <script>",
    "&#99999999999999999999999999;",
    "x" * 20_000,
    [],
    [None],
    [[]],
    [1, "two", {"three": 3}],
    {},
    {"$type": "app.bsky.feed.defs#somethingNew"},
    {"id": None, "deleted": True},
    {"totalCount": "12"},
    [{"nodes": None}],
    _DEEP,
    _HUGE,
)


def text_of(body: Any) -> bytes:
    """Return the body as JSON text, which may contain values that JSON does not allow."""
    written = json.dumps(body)
    for name, raw in _RAW.items():
        written = written.replace(f'"{name}"', raw)
    return written.encode()


def paths(body: Any, here: Path = ()) -> Iterator[Path]:
    """Yield the path of every value in a body, including the body itself."""
    yield here
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in inner:
        yield from paths(value, (*here, name))


def numbers_in(body: Any) -> set[int]:
    """Return the whole numbers in a body, also those that are sent as text or as 3.0."""
    if isinstance(body, dict | list):
        return set[int]().union(*map(numbers_in, body.values() if isinstance(body, dict) else body))
    if isinstance(body, int):
        return {body}
    with suppress(OverflowError, TypeError, ValueError):
        return {int(body)} if int(body) == float(body) else set()
    return set()


@dataclass(frozen=True, slots=True)
class Change:
    """A change to a body. `place` selects the path to change, modulo the number of paths."""

    kind: Kind
    place: int
    value: Any = None

    def at(self, body: Any, known: list[Path]) -> Path:
        """Return the path to which this change applies."""
        return known[self.place % len(known)]

    def on(self, body: Any, path: Path) -> Any:
        """Return the body after this change. A change that does not fit the value at its path has no effect."""
        if not path:
            return deepcopy(self.value) if self.kind == "put" else body
        *above, last = path
        parent = body
        try:
            for name in above:
                parent = parent[name]
            self._change(parent, last)
        except (IndexError, KeyError, TypeError):  # an earlier change removed the path
            pass
        return body

    def _change(self, parent: Any, last: str | int) -> None:
        if self.kind == "drop":
            del parent[last]
        elif self.kind == "put":
            parent[last] = deepcopy(self.value)
        elif self.kind == "add" and isinstance(parent[last], dict):
            parent[last].update({"unknown_field": self.value, "$new": [self.value]})
        elif isinstance(parent, list) and isinstance(last, int):
            parent.insert(last, deepcopy(parent[last] if self.kind == "twice" else self.value))


def changes(chance: Random) -> list[Change]:
    """Return one to three changes. Most of them replace a value."""
    kinds: tuple[Kind, ...] = ("put", "put", "put", "drop", "drop", "twice", "add", "insert")
    wanted = range(chance.randint(1, 3))
    return [Change(chance.choice(kinds), chance.randrange(100_000), chance.choice(VALUES)) for _ in wanted]


@dataclass(frozen=True, slots=True)
class Carried:
    """How a body is sent: a change to its bytes, and the status and headers."""

    name: str
    body: Callable[[bytes], bytes] = bytes
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[int] = frozenset((502,))
    """The statuses that the gateway may return."""


def _reencoded(encoding: str) -> Callable[[bytes], bytes]:
    return lambda body: body.decode().encode(encoding, errors="replace")


_READ, _FAILED, _GONE = frozenset((200,)), frozenset((502,)), frozenset((404,))
CARRIED = (
    Carried("as it is", statuses=_READ),
    Carried("cut in the middle", lambda body: body[: len(body) // 2]),
    Carried("cut before its end", lambda body: body[:-1]),
    Carried("twice", lambda body: body + body),
    Carried("a page of HTML", lambda _body: HTML, headers={"content-type": "text/html"}),
    Carried("a page of HTML that calls itself JSON", lambda _body: HTML),
    Carried("behind a guard against hijacking", lambda body: b")]}'\n" + body),
    Carried("as a callback", lambda body: b"callback(" + body + b")"),
    Carried("of another type", headers={"content-type": "text/html; charset=utf-8"}, statuses=_READ),
    Carried("of no type", headers={"content-type": ""}, statuses=_READ),
    Carried("with a byte order mark", _reencoded("utf-8-sig"), statuses=_READ),
    Carried("in UTF-16", _reencoded("utf-16"), statuses=_READ),
    Carried("in Latin-1", lambda body: body[:-1] + b"\xe9" + body[-1:]),
    Carried("with blanks around it", lambda body: b" \r\n\t" + body + b"\n\n", statuses=_READ),
    Carried("compressed as it says and is not", headers={"content-encoding": "gzip"}),
    Carried("nothing", lambda _body: b"", statuses=_GONE),
    Carried("null", lambda _body: b" null\n", statuses=_GONE),
    Carried("a number", lambda _body: b"17"),
    Carried("no content", lambda _body: b"", status=204, statuses=_GONE),
    Carried("not yet", lambda _body: b"{}", status=202),
    Carried("not changed", lambda _body: b"", status=304),
    Carried("moved to nowhere", lambda _body: b"", status=302),
    Carried("moved elsewhere", lambda _body: b"", status=301, headers={"location": "https://example.org/"}),
    Carried("a bad request", lambda _body: HTML, status=400),
    Carried("not authorized", lambda _body: b"", status=401),
    Carried("forbidden", lambda _body: HTML, status=403),
    Carried("not found, with its body", status=404, statuses=_GONE),
    Carried("not found, in HTML", lambda _body: HTML, status=404, statuses=_GONE),
    Carried("gone", lambda _body: b"[]", status=410, statuses=_GONE),
    Carried("forbidden by law", lambda _body: b"null", status=451, statuses=_GONE),
    Carried("not to be worked on", lambda _body: b"{}", status=422),
    Carried("a failure, with the body", status=500),
    Carried("a failure before it", lambda _body: HTML, status=502),
    Carried("a failure of time", lambda _body: b"", status=504),
    Carried("a status that nobody knows", lambda _body: b"[1]", status=599),
)


def carried(body: bytes, how: Carried, status: int, headers: Mapping[str, str]) -> ScriptedAnswer:
    """Return the answer as the upstream would send it."""
    merged = {name: value for name, value in {**headers, **how.headers}.items() if value}
    return ScriptedAnswer(how.status or status, how.body(body), merged)
