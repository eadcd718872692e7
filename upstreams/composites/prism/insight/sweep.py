"""Dated mentions of a phrase, collected page by page from the searches of many platforms (decisions 18).

A post mentions a phrase if its text contains the phrase as whole words, whatever their case and character width:
`#Acme` contains `acme`, but `acmecorp` does not. Searches return the newest posts first if they can.

A platform is complete if its search was read back to the first day of the window, or to the end of the results. For
other platforms, the response reports how far back they were read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from unicodedata import normalize

from upstreams.composites.legs import Settled, attempt, check_any, part_of
from upstreams.composites.params import chosen
from upstreams.composites.prism.insight.days import DaySpan, instant_day
from upstreams.composites.prism.insight.tone import Tone, tone_of
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.insight import words
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args, State, Value
from upstreams.model.steps import Part

ROWS: Final = 100
"""The number of rows to request from each search call. A search may return fewer."""
METHOD: Final = (
    "Posts that contain the phrase as whole words (NFKC, any case), without duplicates, by their UTC day of "
    "publication. They come from the searches of these platforms, newest first if a search supports it."
)


class Mention(NamedTuple):
    """A post that contains the phrase."""

    platform: str
    day: date
    row: Record
    """The post with the fields that were computed from it."""
    tone: Tone | None

    def record(self) -> Record:
        """Return the mention as a record for the response."""
        return words.mention(**self.row, platform=self.platform, date=self.day.isoformat(), tone=self.tone)


@dataclass(slots=True)
class SearchSweep:
    """One platform's search during a sweep. `take` adds a page to it."""

    platform: Platform
    window: DaySpan | None
    mentions: list[Mention] = field(default_factory=list)
    legs: list[Settled] = field(default_factory=list)
    state: State | None = None
    has_next: bool = True
    is_complete: bool = False
    oldest_at: str | None = None
    dropped: int = 0
    _known: set[str] = field(default_factory=set)

    def take(self, leg: Settled, has_phrase: Callable[[str], bool]) -> None:
        """Add a page of the platform's search results."""
        self.legs.append(leg)
        self.state, self.has_next = leg.next, leg.next is not None
        if not leg.answer:
            self.has_next = False
            return
        for row in POST_LIST.rows(leg.records, []):
            self._take_row(row, has_phrase)
        endpoint = self.platform.playing("search")
        is_ordered = endpoint is not None and endpoint.newest is not None
        reached = self.window is not None and (instant_day(self.oldest_at) or date.max) < self.window.first
        self.is_complete = (is_ordered and reached) or (not self.has_next and self._has_ended(leg))
        self.has_next = self.has_next and not self.is_complete

    def _has_ended(self, leg: Settled) -> bool:
        """Return whether a search without a next page is complete.

        If it returned a single full page, more results may be hidden.
        """
        wanted = leg.part.values.get("limit")
        return len(self.legs) > 1 or not isinstance(wanted, int) or len(leg.records) < wanted

    def _take_row(self, row: Record, has_phrase: Callable[[str], bool]) -> None:
        post = row["post"]
        day, text = instant_day(post["published_at"]), post["content"]["text"] or ""
        if post["published_at"] is not None:
            self.oldest_at = min(self.oldest_at or post["published_at"], post["published_at"])
        is_due = day is not None and (self.window is None or self.window.holds(day)) and has_phrase(text)
        key = str(post["id"] or post["url"])
        if day is None or not is_due or key in self._known:
            self.dropped += 1
            return
        self._known.add(key)
        self.mentions.append(Mention(self.platform.slug, day, row, tone_of(text, row["computed"]["language"])))

    def record(self) -> Record:
        """Return the platform as a source in the response."""
        has_answered = any(leg.answer for leg in self.legs)
        return words.source(
            platform=self.platform.slug,
            mentions=len(self.mentions) if has_answered else None,
            is_complete=self.is_complete,
            oldest_seen_at=self.oldest_at,
            dropped=self.dropped,
        )


def named_in(platforms: Sequence[Platform], args: Args) -> list[Platform]:
    """Return the platforms that a request names, or all platforms if it names none."""
    names = chosen(args, "platforms", (one.slug for one in platforms))
    return [one for one in platforms if one.slug in names]


def phrase_of(text: str) -> str:
    """Return the phrase without surrounding quotes, and with single spaces between its words."""
    return " ".join(text.strip().strip('"\u201c\u201d').split())


def finder(phrase: str) -> Callable[[str], bool]:
    """Return a function that checks whether a text contains a phrase as whole words."""
    pattern = re.compile(rf"(?<!\w){re.escape(_folded(phrase))}(?!\w)")
    return lambda text: pattern.search(_folded(text)) is not None


def _folded(text: str) -> str:
    return " ".join(normalize("NFKC", text).casefold().split())


def sweep(
    platforms: Sequence[Platform],
    phrase: str,
    window: DaySpan | None,
    *,
    rounds: int,
    rows: int = ROWS,
    states: dict[str, State | None] | None = None,
    finds: Callable[[str], bool] | None = None,
    narrowed: Mapping[str, Value] = MappingProxyType({}),
    optional: bool = False,
) -> Generator[tuple[Part, ...], Any, list[SearchSweep]]:
    """Search these platforms page by page, in at most `rounds` rounds.

    `states` contains the cursor states of searches to continue. If `finds` is set, it decides which texts match,
    instead of the phrase. `narrowed` contains additional values for searches that accept them.

    Raises:
        UpstreamError, LimitError: All searches failed, and `optional` is not set.
    """
    wanted = [one for one in platforms if states is None or one.slug in states]
    found = [SearchSweep(one, window, state=(states or {}).get(one.slug)) for one in wanted]
    has_phrase = finds or finder(phrase)
    for _ in range(rounds):
        going = [one for one in found if one.has_next]
        settled = yield from attempt([_part(one, phrase, rows, narrowed) for one in going])
        for one, leg in zip(going, settled, strict=True):
            one.take(leg, has_phrase)
        if not any(one.has_next for one in found):
            break
    if not optional:
        check_any([leg for one in found for leg in one.legs])
    return found


def _part(one: SearchSweep, phrase: str, rows: int, narrowed: Mapping[str, Value]) -> Part:
    endpoint = one.platform.playing("search")
    names = set() if endpoint is None else {param.name for param in endpoint.params}
    values: dict[str, Value] = {name: value for name, value in narrowed.items() if name in names}
    values |= {"query": phrase, **((endpoint and endpoint.newest) or {})}
    if one.window is not None and {"since", "until"} <= names:
        values |= {"since": one.window.first.isoformat(), "until": _after(one.window.last)}
    return part_of(one.platform, "search", values, rows=rows, cursor=one.state)


def _after(day: date) -> str:
    return date.fromordinal(day.toordinal() + 1).isoformat()


def mentions_of(found: Sequence[SearchSweep]) -> list[Mention]:
    """Return all mentions, newest first."""
    listed = [one for sweep_ in found for one in sweep_.mentions]
    return sorted(listed, key=lambda one: (one.row["post"]["published_at"], one.platform), reverse=True)


def legs_in(found: Sequence[SearchSweep]) -> list[Settled]:
    """Return the legs of a sweep in the order of its rounds."""
    turns = max(len(one.legs) for one in found)
    return [one.legs[turn] for turn in range(turns) for one in found if turn < len(one.legs)]
