"""Hacker News' search behind a node's egress: what it finds is the test's, and may change between two looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import orjson

from tests.fakes.scripted_upstream import Told

HOST = "hn.algolia.com"


@dataclass(slots=True)
class Algolia:
    """Finds the numbers of stories for each query, and counts who asks."""

    found: dict[str, Sequence[int]] = field(default_factory=dict)
    fails: bool = False
    takes_s: float = 0.0
    reads: Counter[str] = field(default_factory=Counter)

    def answer(self, asked: str) -> Told:
        """A page of a search."""
        place, _, query = asked.partition("?")
        if self.fails or not place.startswith(HOST):
            return Told(500, b"{}")
        sent = {name: values[0] for name, values in parse_qs(query).items()}
        page, size = int(sent.get("page", "0")), int(sent.get("hitsPerPage", "20"))
        numbers = self.found.get(sent.get("query", ""), ())
        self.reads[f"{sent.get('query')} {page}"] += 1
        some = numbers[page * size : (page + 1) * size]
        pages = -(-len(numbers) // size)
        body = {"hits": [story(one) for one in some], "nbHits": len(numbers), "page": page, "nbPages": pages}
        return Told(200, orjson.dumps(body), delay_s=self.takes_s)


def story(number: int) -> dict[str, object]:
    """A story as Algolia tells it."""
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
