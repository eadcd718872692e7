"""Runs a platform's cases through its readers. Records the calls, and which members of the answers were read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, count, takewhile
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tests.platforms.case import Case, from_recordings
from tests.platforms.credentials import known_of
from tests.platforms.drive import NOW_AT, Upstream, drive, endpoint, refusal_in
from tests.platforms.templates import literals_of
from tests.platforms.traced import sought, traced, unread, was_read
from upstreams.content import FEED
from upstreams.model.calls import Pages
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import NotFound, UpstreamError
from upstreams.model.paging import ByOffset, ByPage
from upstreams.model.params import Args, Param
from upstreams.model.steps import Answer, Call, Form, Page, Single
from upstreams.sandbox.rehearse import sent_by
from upstreams.sandbox.site import SandboxRequest, expression, query_of
from upstreams.suppliers import resolve_address

_PIECES = re.compile(r"[/?&=#]")
_LATER_S = 40_000_123.0
"""Another year, month, day, hour and second."""
_CHOICES_MAX = 3
"""How many other choices of a parameter are tried."""
_MORE_CALLS_MAX = 20
"""How many more calls than in its first run a case may make when it is run again."""


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
    params: Mapping[str, str | int | bool] = field(default_factory=dict)
    """The parameters of the case, with the defaults of those that are not a choice."""
    refusal: UpstreamError | None = None
    """The refusal that the answer expresses, or None if it is a success."""
    is_feed: bool = False
    pages: Pages | None = None
    """The paging of the list, if the answer is a page."""
    is_unpaged: bool = False
    """Whether the answer is a page that no `Pages` object reads, and the next page is another request."""
    last_row: Mapping[str, Any] = field(default_factory=dict)
    """The record of the last row in the list."""
    sought: frozenset[str] = frozenset()
    """The paths of members that the reader looked for but did not find."""
    unread: tuple[str, ...] = ()
    """The paths of members that no reader looked at."""
    varying: frozenset[str] = frozenset()
    """The members of the request that depend on the time, on a credential, or on a choice of the caller."""
    variants: list[SandboxRequest] = field(default_factory=list)
    """The same call at another time, with other credentials, with other choices, and for the next page."""

    @property
    def place(self) -> str:
        """The method, host and path of the call."""
        return f"{self.request.method} {self.request.host}{self.request.path}"


def play(platform: Platform, case: Case) -> list[Exchange]:
    """Return the exchanges that a case makes.

    The case is also run at another time, with other credentials, with the caller's other choices, and for the next
    page. The differences show which parts of a request are fixed.
    """
    run = _run(platform, case, from_recordings(platform.slug, case.answers))
    if run.exchanges:
        _compare(run, _again(platform, case, run, **_elsewhere(platform, case)), "computed")
        for param, choice in _other_choices(endpoint(platform, case.resource), case):
            changed = replace(case, params={**case.params, param.name: choice})
            _compare(run, _again(platform, changed, run), param.name)
        _find_next_page(platform, case, run)
    for exchange in run.exchanges:
        exchange.sought = frozenset(sought(exchange.body))
        exchange.unread = tuple(dict.fromkeys(unread(exchange.body)))
        exchange.body = was_read(exchange.body)
    return run.exchanges


@dataclass(slots=True)
class _Run:
    """One run of a case: its calls, the answer to each of them, and the result, or None if the read refused."""

    exchanges: list[Exchange] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    result: Page | Single | None = None

    @property
    def listed(self) -> Exchange:
        """The last call whose answer is a page of a list. If no `Pages` object reads one, it is the last call."""
        return next((one for one in reversed(self.exchanges) if one.pages is not None), self.exchanges[-1])


def _run(platform: Platform, case: Case, answer: Upstream, **changed: Any) -> _Run:
    run, known = _Run(), dict(_words(case.params))
    defaults = {one.name: one.default for one in endpoint(platform, case.resource).params if not one.choices}
    params = {**{name: value for name, value in defaults.items() if value is not None}, **case.params}

    def upstream(host_and_path: str, call: Call) -> Answer:
        got = answer(host_and_path, call)
        exchange = _exchange(platform, case.resource, (host_and_path, call), got, known)
        exchange.params, exchange.refusal = params, refusal_in(platform, call, got)
        exchange.body = traced(got.body)
        run.exchanges.append(exchange)
        run.answers.append(got)
        known.update({**dict(_words(_named(got.body))), **dict(_words(case.params))})
        return got._replace(body=exchange.body)

    given = {"credentials": case.known(known_of(platform)), **changed}
    with _noted_pages(run.exchanges), suppress(UpstreamError):
        run.result = drive(platform, case.resource, case.params, upstream, **given)
    return run


def _again(platform: Platform, case: Case, run: _Run, **changed: Any) -> _Run:
    """Run a case again. A call that the first run did not make gets the answer of the call in its position."""
    answers = {exchange.place: got for exchange, got in zip(run.exchanges, run.answers, strict=True)}
    made = count()

    def answer(host_and_path: str, call: Call) -> Answer:
        number = next(made)
        if number >= len(run.answers) + _MORE_CALLS_MAX:
            raise NotFound("the other run makes too many calls")
        return answers.get(f"{call.method} {host_and_path}", run.answers[min(number, len(run.answers) - 1)])

    return _run(platform, case, answer, **changed)


def _elsewhere(platform: Platform, case: Case) -> dict[str, Any]:
    """Return another time and other credentials."""
    other = {name: value[::-1] for name, value in case.known(known_of(platform)).items()}
    return {"now_at": NOW_AT + _LATER_S, "credentials": other}


def _other_choices(found: Endpoint, case: Case) -> Iterator[tuple[Param, str | int]]:
    """Return the values that the caller may choose instead of those in a case."""
    alternatives = {name for group in found.one_of for name in group}
    for param in found.params:
        choices: tuple[Any, ...] = ("true", "false") if param.type == "boolean" else param.choices
        used = case.params.get(param.name, param.default)
        if param.name in case.params or param.name not in alternatives:
            others = [one for one in choices if str(one).lower() != str(used).lower()]
            yield from ((param, one) for one in others[:_CHOICES_MAX])


def _compare(run: _Run, other: _Run, name: str) -> None:
    """Mark the parts of each request that differ in the other run, which changed the value `name`."""
    for mine, theirs in zip(run.exchanges, other.exchanges, strict=False):
        if mine.pattern.partition("/")[0] != theirs.pattern.partition("/")[0]:
            return
        sent, changed = mine.request.sent, theirs.request.sent
        mine.varying |= {one for one in sent.keys() | changed.keys() if sent.get(one) != changed.get(one)}
        mine.pattern = _with_places(mine, theirs, name)
        mine.variants.append(theirs.request)


def _with_places(mine: Exchange, theirs: Exchange, name: str) -> str:
    """Return the pattern of a call, with `{name}` in place of each segment that differs in another run."""
    pattern, own, other = (text.split("/") for text in (mine.pattern, mine.request.path, theirs.request.path))
    if len(pattern) == len(own) == len(other):
        for position, (segment, theirs_segment) in enumerate(zip(own, other, strict=True)):
            if segment != theirs_segment and "{" not in pattern[position]:
                before, after = _shared(segment, theirs_segment)
                pattern[position] = f"{before}{{{_unused(name, pattern)}}}{after}"
    return "/".join(pattern)


def _shared(one: str, other: str) -> tuple[str, str]:
    """Return the beginning and the end that two segments share, up to a sign that is not a letter or digit."""
    pieces = re.split(r"([\W_])", one), re.split(r"([\W_])", other)
    before = "".join(_same(*pieces))
    after = "".join(_same(pieces[0][::-1], pieces[1][::-1])[::-1])
    return (before, after) if len(before) + len(after) < min(len(one), len(other)) else ("", "")


def _same(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [mine for mine, theirs in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]


def _unused(name: str, pattern: Sequence[str]) -> str:
    """Return the name, with a number if the pattern contains it already."""
    used = set(re.findall(r"\{(\w+)", "/".join(pattern)))
    return next(one for one in chain((name,), (f"{name}{number}" for number in count(2))) if one not in used)


def _find_next_page(platform: Platform, case: Case, run: _Run) -> None:
    """Find how the next page of a list is requested. If its path contains the position, so does the pattern."""
    listed = run.listed
    paging = listed.pages.paging if listed.pages is not None else None
    state = run.result.next if isinstance(run.result, Page) else None
    if state is None and isinstance(paging, ByPage | ByOffset):
        state = {paging.key: paging.first + 1}
    other = None if state is None else _again(platform, case, run, cursor=state)
    if state is None or other is None or not other.exchanges:
        return
    following = other.listed
    listed.variants.append(following.request)
    listed.is_unpaged = paging is None and following.request != listed.request
    if following.request.path == listed.request.path:
        return
    positions = [quote(str(value), safe="") for value in state.values()]
    pattern = _with_position(following, listed, positions, getattr(paging, "name", "page"))
    if pattern is None:
        return
    following.pattern = pattern
    if expression(pattern.partition("/")[2]).fullmatch(listed.request.path.removeprefix("/")):
        listed.pattern = pattern
    else:
        following.is_unpaged = listed.is_unpaged
        run.exchanges.append(following)


def _with_position(following: Exchange, listed: Exchange, values: Sequence[str], name: str) -> str | None:
    """Return the pattern of the next page's path, with `{name}` in place of the position; None if it is not there."""
    pattern, own, first = (text.split("/") for text in (following.pattern, following.request.path, listed.request.path))
    if len(pattern) != len(own):
        return None
    for position in reversed(range(1, len(own))):
        if len(own) == len(first) and own[position] == first[position]:
            continue
        for value in values:
            found, times = re.subn(_whole(value), f"{{{name}}}", own[position], count=1)
            if times:
                pattern[position] = found
                return "/".join(pattern)
    return None


def _whole(value: str) -> str:
    """Return an expression for a value that is not a part of a longer number or word."""
    letter = r"\d" if value.isdecimal() else r"\w"
    return rf"(?<!{letter}){re.escape(value)}(?!{letter})"


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
    platform: Platform, resource: str, asked: tuple[str, Call], answer: Answer, known: Mapping[str, str]
) -> Exchange:
    host_and_path, call = asked
    host, _, path = host_and_path.partition("/")
    target = urlsplit(call.target(""))
    base = urlsplit(resolve_address(platform.sources[call.source or next(iter(platform.sources))]))
    fixed = fixed_segments(platform.slug) | set(base.path.split("/"))
    own = {text: name for text, name in known.items() if text not in fixed}
    is_feed = isinstance(call.accepts, Form) and call.accepts.media_types == FEED.media_types
    pattern = f"{call.method} {base.netloc}{_path(f'/{path}', own)}"
    request = SandboxRequest(host, f"/{path}", query_of(target.query), json=sent_by(call), method=call.method)
    return Exchange(resource, pattern, request, answer.status, answer.headers, None, is_feed=is_feed)


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
