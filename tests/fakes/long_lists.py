"""Three upstreams, each with a list of any length, for tests of the collect-until-N endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from upstreams.sandbox.invent import seeded, sentence

WALKS = {
    "bluesky/user/posts": "/v1/bluesky/user/posts?handle=ada.test",
    "hackernews/search": "/v1/hackernews/search?query=trio",
    "github/profile/repos": "/v1/github/profile/repos?handle=octocat",
}
"""The endpoints that collect, each with a request that sets no limit."""


@dataclass(slots=True)
class LongList:
    """A script for `Upstream`: item N has the id N.

    A page has at most `page_max` rows, whatever size is requested. The page with the number `fails_at`, counted from 0,
    is answered with `failing`. `asked` holds the number and the size of each requested page.
    """

    rows: int = 420
    page_max: int = 100
    fails_at: int = -1
    failing: ScriptedAnswer = field(default_factory=lambda: json_answer({"message": "broken"}, 500))
    delay_s: float = 0.0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, asked: str) -> ScriptedAnswer:
        """Answer one request; same signature as `Upstream.script`."""
        parts = urlsplit(f"//{asked}")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        answer = {"hn.algolia.com": self._hits, "api.github.com": self._repos}.get(parts.netloc, self._feed)
        return answer(query)

    def _page(self, start: int, number: int, size: int) -> tuple[list[int], ScriptedAnswer | None]:
        self.asked.append((number, size))
        rows = list(range(start, min(start + min(size, self.page_max), self.rows)))
        return rows, self.failing if number == self.fails_at else None

    def _answer(self, body: Any, link: str = "") -> ScriptedAnswer:
        whole = json_answer(body, link=link)
        return ScriptedAnswer(200, whole.body, whole.headers, delay_s=self.delay_s)

    def _feed(self, query: dict[str, str]) -> ScriptedAnswer:
        """Bluesky's list, with a position as cursor."""
        start, size = int(query.get("cursor", "0")), int(query["limit"])
        rows, failing = self._page(start, start // min(size, self.page_max), size)
        feed = [{"post": {"uri": f"at://did:plc:a/app.bsky.feed.post/{row}", **_record(row)}} for row in rows]
        more = {"cursor": str(rows[-1] + 1)} if rows and rows[-1] + 1 < self.rows else {}
        return failing or self._answer({"feed": feed, **more})

    def _hits(self, query: dict[str, str]) -> ScriptedAnswer:
        """Algolia's list, with page numbers from 0 and a count."""
        page, size = int(query["page"]), int(query["hitsPerPage"])
        each = min(size, self.page_max)
        rows, failing = self._page(page * each, page, size)
        hits = [{"objectID": str(row), "title": _words(row)} for row in rows]
        return failing or self._answer(
            {"hits": hits, "nbHits": self.rows, "nbPages": -(-self.rows // each), "page": page}
        )

    def _repos(self, query: dict[str, str]) -> ScriptedAnswer:
        """GitHub's list, with page numbers from 1 and a link to the next page."""
        page, size = int(query.get("page", "1")), int(query["per_page"])
        each = min(size, self.page_max)
        rows, failing = self._page((page - 1) * each, page - 1, size)
        repos = [{"id": row, "full_name": f"octocat/{row}", "description": _words(row)} for row in rows]
        more = page * each < self.rows
        link = f'<https://api.github.com/x?page={page + 1}&per_page={size}>; rel="next"' if more else ""
        return failing or self._answer(repos, link)


def _words(row: int) -> str:
    return sentence(seeded("long list", row))


def _record(row: int) -> dict[str, Any]:
    return {"record": {"text": _words(row)}}


def ids_of(body: Any) -> list[int]:
    """Return the ids of a response's items, in order."""
    return [
        int(next(item[key] for key in ("post", "repository") if key in item)["id"]) for item in body["data"]["items"]
    ]
