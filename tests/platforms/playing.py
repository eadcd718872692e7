"""Runs a platform's cases through its readers. Records the calls, and which members of the answers were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.platforms.case import Case, from_recordings
from tests.platforms.drive import drive
from tests.platforms.templates import literals_of
from tests.platforms.traced import sought, traced, was_read
from upstreams.content import FEED
from upstreams.model.calls import Pages
from upstreams.model.endpoint import Platform
from upstreams.model.errors import UpstreamError
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Form, Page
from upstreams.sandbox.rehearse import sent_by
from upstreams.sandbox.site import SandboxRequest, query_of

_PIECES = re.compile(r"[/?&=#]")
SIGNED_IN = {"identifier": "ada.test", "password": "abcd-efgh", "token": "t0ken", "key": "k3y"}


@dataclass(slots=True)
class Exchange:
    """One call that a case makes, and the answer to it."""

    resource: str
    pattern: str
    """Method, host and path. `{name}` stands for a value from the case's parameters or from an earlier answer."""
    request: SandboxRequest
    status: int
    headers: Mapping[str, str]
    body: Any
    """The members of the answer that were read. A text is kept whole."""
    params: Mapping[str, str | int]
    is_feed: bool = False
    pages: Pages | None = None
    """The paging of the list, if the answer is a page."""
    last_row: Mapping[str, Any] = field(default_factory=dict)
    """The record of the last row in the list."""
    sought: frozenset[str] = frozenset()
    """The paths of members that the reader looked for but did not find."""

    @property
    def place(self) -> str:
        """The method, host and path of the call."""
        return f"{self.request.method} {self.request.host}{self.request.path}"


def play(platform: Platform, case: Case) -> list[Exchange]:
    """Return the exchanges that a case makes."""
    exchanges: list[Exchange] = []
    known = dict(_words(case.params))
    recorded = from_recordings(platform.slug, case.answers)

    def upstream(host_and_path: str, call: Call) -> Answer:
        answer = recorded(host_and_path, call)
        exchange = _exchange(platform, case, (host_and_path, call), answer, known)
        exchange.body = traced(answer.body)
        exchanges.append(exchange)
        known.update({**dict(_words(_named(answer.body))), **dict(_words(case.params))})
        return answer._replace(body=exchange.body)

    with _noted_pages(exchanges), suppress(UpstreamError):
        drive(platform, case.resource, case.params, upstream, credentials=case.known(SIGNED_IN))
    for exchange in exchanges:
        exchange.sought = frozenset(sought(exchange.body))
        exchange.body = was_read(exchange.body)
    return exchanges


@contextmanager
def _noted_pages(exchanges: list[Exchange]) -> Iterator[None]:
    """Record which `Pages` object reads the list in each exchange, also inside a generator."""
    read = Pages.page

    def page(self: Pages, args: Args, answer: Answer) -> Page:
        found = read(self, args, answer)
        of_json = (one for one in exchanges if one.body is answer.body)
        exchange = next(of_json, exchanges[-1])
        exchange.pages, exchange.last_row = self, found.records[-1] if found.records else {}
        return found

    Pages.page = page  # type: ignore[method-assign]
    try:
        yield
    finally:
        Pages.page = read  # type: ignore[method-assign]


def _exchange(
    platform: Platform, case: Case, asked: tuple[str, Call], answer: Answer, known: Mapping[str, str]
) -> Exchange:
    host_and_path, call = asked
    host, _, path = host_and_path.partition("/")
    target = urlsplit(call.target(""))
    base = urlsplit(platform.sources[call.source or next(iter(platform.sources))])
    fixed = fixed_segments(platform.slug) | set(base.path.split("/"))
    own = {text: name for text, name in known.items() if text not in fixed}
    is_feed = isinstance(call.accepts, Form) and call.accepts.media_types == FEED.media_types
    pattern = f"{call.method} {base.netloc}{_path(f'/{path}', own)}"
    request = SandboxRequest(host, f"/{path}", query_of(target.query), json=sent_by(call), method=call.method)
    return Exchange(case.resource, pattern, request, answer.status, answer.headers, None, case.params, is_feed)


@cache
def fixed_segments(slug: str) -> frozenset[str]:
    """Return the path segments that are written in a platform's code."""
    literals = literals_of(f"upstreams.platforms.{slug}")
    return frozenset(piece for text in literals if text.startswith("/") for piece in text.split("/"))


def _path(path: str, known: Mapping[str, str]) -> str:
    for value in sorted(known, key=len, reverse=True):  # a value with several segments
        before, found, rest = unquote(path).partition(f"/{value.strip('/')}")
        if "/" in value and found and not rest:
            return f"{_path(before, known) if before else ''}/{{{known[value]}*}}"
    used: dict[str, int] = {}
    return "/".join(_segment(segment, known, used) for segment in path.split("/"))


def _segment(segment: str, known: Mapping[str, str], used: dict[str, int]) -> str:
    plain = unquote(segment)
    value = (
        plain if plain in known else next((one for one in sorted(known, key=len, reverse=True) if _in(one, plain)), "")
    )
    if not value:
        return segment
    name = re.sub(r"\W", "_", known[value])
    used[name] = used.get(name, 0) + 1
    name = name if used[name] == 1 else f"{name}{used[name]}"
    return plain.replace(value, f"{{{name}}}", 1)


def _in(value: str, segment: str) -> bool:
    """Return whether a segment is a value with other text around it: `{username}.json`."""
    found = segment.partition(value) if len(value) > 2 else ("", "", "")
    return bool(found[1]) and not (found[0][-1:].isalnum() or found[2][:1].isalnum())


def _words(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return every value as text, with the parts of each URL, because another call may be built from them."""
    for name, value in values.items():
        text = str(value)
        if isinstance(value, bool) or not text:
            continue
        yield text, name
        yield text.lstrip("@#"), name
        if "/" in text:
            yield from ((unquote(piece), name) for piece in _PIECES.split(text) if len(piece) > 1)


def _named(body: Any) -> dict[str, Any]:
    """Return texts and numbers from the top levels of an answer, because a second call may be built from them."""
    found: dict[str, Any] = {}
    near = [body, *(body.values() if isinstance(body, dict) else body[:1] if isinstance(body, list) else ())]
    near += [one[0] for one in near if isinstance(one, list) and one]
    for one in reversed([one for one in near if isinstance(one, dict)]):
        named = sorted(one.items(), key=lambda member: member[0] == "id")
        found |= {name: value for name, value in named if isinstance(value, str | int) and len(str(value)) < 200}
    return found
