"""The request of a discover run: as sent, validated field by field, and as stored in a job (decisions 19)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, get_args

import msgspec
from msgspec import Meta

from scheduler.errors import JobInvalid
from scheduler.jobs.discover.searches import PlatformSearch, Searches, View
from scheduler.json_input import nearest, quoted

if TYPE_CHECKING:
    from upstreams.model.params import Value

KIND: Final = "discover"
KEYWORDS_MAX: Final = 20
KEYWORD_MAX: Final = 100
CREDITS_MAX: Final = 10_000
ROWS_MAX: Final = 10_000
VIEWS: Final = get_args(View)
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")

_DATES: Final = "such as 2026-11-01 or 2026-11-01T12:00:00Z; rows without a date are kept"


class SearchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that describe a run's search and limit its cost."""

    keywords: Annotated[
        list[str],
        Meta(description="1 to 20 unique keywords of 1 to 100 characters.", examples=[["structured concurrency"]]),
    ]
    max_credits: Annotated[int, Meta(description="The maximum cost in credits, 1 to 10,000.", examples=[100])]
    platforms: Annotated[
        list[str] | None, Meta(description="Slugs; omit to search every platform.", examples=[["hackernews"]])
    ] = None
    view: Annotated[
        str,
        Meta(
            description="`posts`; `accounts`: their authors and the results of user searches; or `items`: apps, "
            "repositories, articles.",
            examples=["posts"],
        ),
    ] = "posts"
    date_from: Annotated[
        str | None, Meta(description=f"Only rows from this time or later, {_DATES}.", examples=["2026-11-01"])
    ] = None
    date_to: Annotated[
        str | None, Meta(description=f"Only rows from this time or earlier, {_DATES}.", examples=["2026-11-24"])
    ] = None
    language: Annotated[
        str | None,
        Meta(description="A language code; rows of unknown language are kept.", examples=["en"]),
    ] = None
    max_rows: Annotated[int, Meta(description="The maximum number of rows, 1 to 10,000.", examples=[1000])] = 1_000


class RunBody(SearchBody, frozen=True, kw_only=True):
    """The fields of a new run."""

    background: Annotated[bool, Meta(description="Respond immediately, and publish the run's events.")] = False


class PlannedSearch(msgspec.Struct, frozen=True):
    """A search as a run stores it."""

    id: str
    platform: str
    kind: str
    key: str
    values: Mapping[str, str | int | bool]  # written out, because msgspec reads annotations at run time
    is_ordered: bool
    """Whether the search returns the newest first."""
    takes_days: bool
    price_credits: int
    """The price of a page."""


class PlannedRead(msgspec.Struct, frozen=True):
    """How to read one account of a platform, as a run stores it."""

    id: str
    param: str
    price_credits: int


class DiscoverSpec(msgspec.Struct, frozen=True):
    """A request as a job stores it.

    Each combination of a keyword and a search is a leg. Legs are ordered by keyword.
    """

    keywords: tuple[str, ...]
    searches: tuple[PlannedSearch, ...]
    view: str
    max_rows: int
    date_from: float | None = None
    date_to: float | None = None
    language: str | None = None
    unavailable: tuple[str, ...] = ()
    """Searches whose credential is not configured."""
    profiles: Mapping[str, PlannedRead] = {}
    """How to read one account, by platform. Used only in the accounts view."""

    @property
    def legs(self) -> int:
        """The number of legs."""
        return len(self.keywords) * len(self.searches)

    def leg(self, number: int) -> tuple[str, PlannedSearch]:
        """Return the keyword and the search of a leg. Legs are numbered from 1."""
        keyword, search = divmod(number - 1, len(self.searches))
        return self.keywords[keyword], self.searches[search]

    def values(self, keyword: str, search: PlannedSearch) -> dict[str, Value]:
        """Return the parameters of a search for a keyword."""
        values: dict[str, Value] = {"query": keyword, **search.values}
        if search.takes_days and self.date_from is not None:
            values["since"] = _day(self.date_from)
        if search.takes_days and self.date_to is not None:
            values["until"] = _day(self.date_to + timedelta(days=1).total_seconds())
        return values

    def holds(self, at: float | None, language: str | None) -> bool:
        """Return whether a row with this date and language matches. A missing value never excludes a row."""
        if at is not None and not (self.date_from or 0.0) <= at <= (self.date_to or 9e15):
            return False
        return self.language is None or language is None or language.partition("-")[0].lower() == self.language


@lru_cache(maxsize=100)  # at most 50 KB each, and a few dozen are in use at the same time
def spec_of(text: str) -> DiscoverSpec:
    """Return the request that a job stores. Cached, because each of its steps reads it."""
    return msgspec.json.decode(text, type=DiscoverSpec)


def read_body(sent: SearchBody, searches: Searches, *, at: str = "") -> DiscoverSpec:
    """Validate the request of a run. `at` prefixes the names of fields that are nested in another body.

    Raises:
        JobInvalid: names the first invalid field.
    """
    fields = _Fields(at)
    keywords = fields.keywords(sent.keywords)
    fields.number("max_credits", sent.max_credits, CREDITS_MAX)
    fields.number("max_rows", sent.max_rows, ROWS_MAX)
    view = fields.view(sent.view)
    first, last = fields.instant("date_from", sent.date_from), fields.instant("date_to", sent.date_to, is_end=True)
    if first is not None and last is not None and last < first:
        fields.refuse("date_to", "is before date_from", "Send the same or a later date.")
    chosen = fields.platforms(sent.platforms, searches.of_view(view), view)
    dated = first is not None or last is not None
    return DiscoverSpec(
        keywords=keywords,
        searches=tuple(_planned(one, is_dated=dated) for one in chosen if one.available),
        view=view,
        max_rows=sent.max_rows,
        date_from=first,
        date_to=last,
        language=fields.language(sent.language),
        unavailable=tuple(one.id for one in chosen if not one.available),
        profiles=_reads(searches) if view == "accounts" else {},
    )


def _planned(search: PlatformSearch, *, is_dated: bool) -> PlannedSearch:
    """Return a search as a run stores it. A run with dates reads the newest first, so that it can stop early."""
    values = {**search.values, **(search.newest if is_dated else {})}
    return PlannedSearch(
        id=search.id,
        platform=search.platform,
        kind=search.kind,
        key=search.key,
        values=values,
        is_ordered=is_dated and bool(search.newest),
        takes_days=search.takes_days,
        price_credits=search.price_credits,
    )


def _reads(searches: Searches) -> dict[str, PlannedRead]:
    return {slug: PlannedRead(one.id, one.param, one.price_credits) for slug, one in searches.profiles.items()}


class _Fields:
    """Reads the fields of a body; errors name the invalid field."""

    def __init__(self, at: str) -> None:
        self._at = at

    def refuse(self, name: str, problem: str, how: str, *, meant: str | None = None) -> NoReturn:
        """Reject a field."""
        raise JobInvalid(self._at + name, problem, how, did_you_mean=meant)

    def keywords(self, sent: Sequence[str]) -> tuple[str, ...]:
        """Return the keywords with whitespace collapsed."""
        if not 1 <= len(sent) <= KEYWORDS_MAX:
            self.refuse("keywords", f"must contain 1 to {KEYWORDS_MAX} keywords", 'Send keywords such as ["trio"].')
        found: dict[str, int] = {}
        words = []
        for place, text in enumerate(sent):
            word, name = " ".join(text.split()), f"keywords[{place}]"
            if not 1 <= len(word) <= KEYWORD_MAX:
                self.refuse(name, f"must have 1 to {KEYWORD_MAX} characters", "Send a word or a phrase.")
            if "\0" in word or "\ufffd" in word:
                self.refuse(name, "contains a character that is not allowed in text", "Send it without that character.")
            if (before := found.setdefault(word.casefold(), place)) != place:
                self.refuse(name, f"repeats keywords[{before}]", "Send each keyword once.")
            words.append(word)
        return tuple(words)

    def number(self, name: str, number: int, most: int) -> None:
        """Check that a number is in its range."""
        if not 1 <= number <= most:
            self.refuse(name, f"must be a whole number from 1 to {most}", f"Send 1 to {most}.")

    def view(self, sent: str) -> View:
        """Return the view with this name."""
        found: View | None = next((one for one in get_args(View) if one == sent), None)
        if found is None:
            near = nearest(sent.lower(), VIEWS)
            self.refuse(
                "view", f"must be {', '.join(VIEWS)}, not {quoted(sent)}", "Send one of these views.", meant=near
            )
        return found

    def instant(self, name: str, sent: str | None, *, is_end: bool = False) -> float | None:
        """Return the Unix time of a timestamp or a day. A day means its beginning, or its end if `is_end`."""
        if sent is None:
            return None
        try:
            read = datetime.fromisoformat(sent)
            if _DAY.fullmatch(sent) and is_end:
                read += timedelta(days=1, microseconds=-1)
            at = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            at = -1.0
        if at < 0:
            how = "Send a date such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z."
            self.refuse(name, f"must be a date or a time after 1970, not {quoted(sent)}", how)
        return at

    def language(self, sent: str | None) -> str | None:
        """Return a language code."""
        if sent is None:
            return None
        code = sent.lower()
        if not _LANGUAGE.fullmatch(code):
            self.refuse(
                "language",
                f"must be a code of two or three letters, not {quoted(sent)}",
                "Send a code such as en or de.",
            )
        return code

    def platforms(
        self, sent: Sequence[str] | None, known: Sequence[PlatformSearch], view: View
    ) -> list[PlatformSearch]:
        """Return the searches of the named platforms, or all searches if no platform is named."""
        slugs = dict.fromkeys(one.platform for one in known)
        if sent is not None and not 1 <= len(sent) <= len(slugs):
            self.refuse(
                "platforms", f"must name 1 to {len(slugs)} platforms", f"Send one or more of {', '.join(slugs)}."
            )
        for place, name in enumerate(sent or ()):
            if name not in slugs:
                problem = f"is not a platform with a search for {view}: {quoted(name)}"
                how = f"Send one or more of {', '.join(slugs)}."
                self.refuse(f"platforms[{place}]", problem, how, meant=nearest(name.lower(), slugs))
        chosen = [one for one in known if sent is None or one.platform in sent]
        for place, name in enumerate(sent or ()):
            if not any(one.available for one in chosen if one.platform == name):
                how = "Choose another platform, or ask the operator to configure it."
                self.refuse(f"platforms[{place}]", "needs a credential that the operator has not configured", how)
        if not any(one.available for one in chosen):
            self.refuse("view", f"has no available search: {view}", "Choose another view.")
        return chosen


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
