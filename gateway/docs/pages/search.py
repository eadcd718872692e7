"""Search over all pages: every word must be found; titles count most, then names and parameters, then the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.docs.pages.library import DocPage, Library

QUERY_MAX: Final = 100
_FOUND_MAX: Final = 40
_WORD = re.compile(r"[a-z0-9_./{}-]+")
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One page that was found, and the place in its text."""

    page: DocPage
    excerpt: str


class Search:
    """The words of all pages, kept from its making on; of an endpoint's page those of its declaration."""

    def __init__(self, library: Library) -> None:
        self._entries = [_entry(library, page) for page in library.pages.values()]

    def find(self, query: str) -> list[SearchHit]:
        """The pages that have every word of a query, the best first."""
        words = _WORD.findall(query.lower()[:QUERY_MAX])
        if not words:
            return []
        ranked = [(score, place) for place, entry in enumerate(self._entries) if (score := entry.score(words))]
        ranked.sort(key=lambda one: (-one[0], one[1]))
        best = [self._entries[place] for _, place in ranked[:_FOUND_MAX]]
        return [SearchHit(entry.page, entry.excerpt(words)) for entry in best]


@dataclass(frozen=True, slots=True)
class _Entry:
    page: DocPage
    title: str
    terms: str
    text: str

    def score(self, words: list[str]) -> int:
        """Points of all words together; 0 where one is missing."""
        points = [9 * (w in self.title) + 4 * (w in self.terms) + min(3, self.text.lower().count(w)) for w in words]
        return 0 if 0 in points else sum(points)

    def excerpt(self, words: list[str]) -> str:
        """Where the text has the first word; the page's summary where none is there."""
        lower = self.text.lower()
        at = min((place for word in words if (place := lower.find(word)) >= 0), default=-1)
        if at < 0 or not self.text:
            return self.page.summary
        start = self.text.rfind("\n", 0, at) + 1
        line = re.sub(r"[`*|#\[\]]", "", self.text[start : start + 2 * _SHOWN].split("\n")[0]).strip()
        return line[:_SHOWN] + ("..." if len(line) > _SHOWN else "") or self.page.summary


def _entry(library: Library, page: DocPage) -> _Entry:
    is_made = page.group in ("errors", "platforms", "account", "node")
    text = page.summary if is_made else library.markdown(page.path)
    return _Entry(page, f"{page.title} {page.summary}".lower(), f"{page.path} {page.terms}".lower(), text)


def words_of(found: list[SearchHit]) -> Iterator[str]:
    """The results as lines of Markdown."""
    return (f"- [{one.page.title}]({one.page.path}): {one.excerpt}" for one in found)
