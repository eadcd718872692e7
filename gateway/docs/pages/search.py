"""Searches all pages for words. Titles have the highest weight, then names and parameters, then the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.docs.pages.library import DocPage, Library

QUERY_MAX: Final = 100
_FOUND_MAX: Final = 40
_WORDS_MAX: Final = 10
"""The maximum number of words in a query. Search is public, and each word is looked up in every page."""
_COUNTED_MAX: Final = 3
"""The maximum number of occurrences of a word that are counted in a text."""
_WORD = re.compile(r"[a-z0-9_./{}-]+")
_SHOWN: Final = 160
_FEW: Final = 2
_SMALL: Final = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from get give how i in is it me of on or the to what which with you"
    )
)
"""Stop words."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One page of the results, with an excerpt."""

    page: DocPage
    excerpt: str


class Search:
    """An index of all pages, built once. For an endpoint, it contains the declaration instead of the page's text."""

    def __init__(self, library: Library) -> None:
        self._entries = [_entry(library, page) for page in library.pages.values()]

    def find(self, query: str) -> list[SearchHit]:
        """Return the matching pages, best first.

        A page must contain every word of the query, or all but one if the query has three or more. If no page does, the
        result is the pages with the most words.
        """
        sent = _WORD.findall(query.lower()[:QUERY_MAX])
        words = ([word for word in sent if word not in _SMALL] or sent)[:_WORDS_MAX]
        if not words:
            return []
        points = [entry.points(words) for entry in self._entries]
        had = [len(words) - one.count(0) for one in points]
        enough = max(1, max(had) - (len(words) > _FEW))
        ranked = [(sum(one) * had[place], place) for place, one in enumerate(points) if had[place] >= enough]
        ranked.sort(key=lambda one: (-one[0], one[1]))
        best = [self._entries[place] for _, place in ranked[:_FOUND_MAX]]
        return [SearchHit(entry.page, entry.excerpt(words)) for entry in best]


@dataclass(frozen=True, slots=True)
class _Entry:
    page: DocPage
    title: str
    terms: str
    text: str
    lower: str

    def points(self, words: list[str]) -> list[int]:
        """Return the score of each word in a page; 0 if the page does not contain the word."""
        return [9 * (w in self.title) + 4 * (w in self.terms) + _times_in(self.lower, w) for w in words]

    def excerpt(self, words: list[str]) -> str:
        """Return the line with the first match, or the page's summary if the text has none."""
        at = min((place for word in words if (place := self.lower.find(word)) >= 0), default=-1)
        if at < 0 or not self.text:
            return self.page.summary
        start = self.text.rfind("\n", 0, at) + 1
        line = re.sub(r"[`*|#\[\]]", "", self.text[start : start + 2 * _SHOWN].split("\n")[0]).strip()
        return line[:_SHOWN] + ("..." if len(line) > _SHOWN else "") or self.page.summary


def _times_in(text: str, word: str) -> int:
    """Count a word in a text, stopping at `_COUNTED_MAX`."""
    times, at = 0, text.find(word)
    while at >= 0 and times < _COUNTED_MAX:
        times, at = times + 1, text.find(word, at + len(word))
    return times


def _entry(library: Library, page: DocPage) -> _Entry:
    is_made = page.group in ("errors", "catalog", "platforms", "account", "node")
    text = page.summary if is_made else library.markdown(page.path)
    return _Entry(page, f"{page.title} {page.summary}".lower(), f"{page.path} {page.terms}".lower(), text, text.lower())


def words_of(found: list[SearchHit]) -> Iterator[str]:
    """Return the results as lines of Markdown."""
    return (f"- [{one.page.title}]({one.page.path}): {one.excerpt}" for one in found)
