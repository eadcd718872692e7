"""Hacker News' search behind a node's egress. A test sets the results, and may change them between two queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import orjson

from tests.fakes.scripted_upstream import ScriptedAnswer

HOST = "hn.algolia.com"


@dataclass(slots=True)
class Algolia:
    """Returns stories by number for each query, and counts the reads of each page."""

    found: dict[str, Sequence[int]] = field(default_factory=dict)
    fails: bool = False
    takes_s: float = 0.0
    reads: Counter[str] = field(default_factory=Counter)

    def answer(self, asked: str) -> ScriptedAnswer:
        """Return a page of search results, or a 500 if the search fails."""
        place, _, query = asked.partition("?")
        if self.fails or not place.startswith(HOST):
            return ScriptedAnswer(500, b"{}")
        sent = {name: values[0] for name, values in parse_qs(query).items()}
        page, size = int(sent.get("page", "0")), int(sent.get("hitsPerPage", "20"))
        numbers = self.found.get(sent.get("query", ""), ())
        self.reads[f"{sent.get('query')} {page}"] += 1
        some = numbers[page * size : (page + 1) * size]
        pages = -(-len(numbers) // size)
        body = {"hits": [story(one) for one in some], "nbHits": len(numbers), "page": page, "nbPages": pages}
        return ScriptedAnswer(200, orjson.dumps(body), delay_s=self.takes_s)


def story(number: int) -> dict[str, object]:
    """Return a story in Algolia's format."""
    return {
        "objectID": str(number),
        "story_id": number,
        "title": f"The story number {number} of this search",
        "url": f"https://example.com/{number}",
        "author": f"user{number % 7}",
        "points": number,
        "num_comments": 1,
        "created_at": "2026-11-01T12:00:00Z",
        "created_at_i": 1_793_534_400 + number,
        "_tags": ["story", f"author_user{number % 7}", f"story_{number}"],
    }
