"""The pages that are plain text: Markdown versions, pages for language models, and the style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from gateway.docs.catalog import stats_of
from gateway.docs.guide import Guides
from gateway.docs.operations import Reference
from gateway.docs.pages.library import DocPage, Library
from gateway.docs.pages.llms import llms, llms_full
from gateway.docs.pages.search import QUERY_MAX, Search, SearchHit, words_of
from gateway.http.conditional import TaggedText, with_tag
from gateway.http.request import Request

HTML: Final = b"text/html; charset=utf-8"
MARKDOWN: Final = b"text/markdown; charset=utf-8"
_TEXT: Final = b"text/plain; charset=utf-8"
HERE: Final = Path(__file__).parent
FILES: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "/style.css": b"text/css; charset=utf-8",
        "/page.js": b"text/javascript; charset=utf-8",
        "/inter-v20.woff2": b"font/woff2",
        "/favicon.svg": b"image/svg+xml",
    }
)
"""The content types of this directory's static files that pages load."""
OWN: Final = ("/", "/docs", "/search", "/status")
"""The pages with their own templates that are not in the library."""


@dataclass(frozen=True, slots=True)
class MadePage:
    """A page that is ready to send.

    A `live` page shows the node's current state, so it is rebuilt after a few seconds.
    """

    text: TaggedText
    content_type: bytes
    live: bool = False


class Texts:
    """Builds any text page by its path, and holds the data for the HTML pages."""

    def __init__(
        self,
        reference: Reference,
        guides: Guides,
        *,
        base_url: str,
        status: Callable[[], Mapping[str, Any]],
        past: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.library = library = Library(reference, guides, base_url)
        self.status, self.past = status, past
        self._search: Search | None = None
        self._fixed: Mapping[str, tuple[bytes, Callable[[], str]]] = {
            "/robots.txt": (_TEXT, lambda: "User-agent: *\nDisallow: /v1/\n"),
            "/llms.txt": (_TEXT, lambda: llms(library)),
            "/llms-full.txt": (_TEXT, lambda: llms_full(library)),
            "/index.md": (MARKDOWN, lambda: _home_markdown(library, self.numbers())),
            "/docs.md": (MARKDOWN, lambda: _index_markdown(library)),
            "/status.md": (MARKDOWN, lambda: _status_markdown(status(), past())),
        }

    def knows(self, path: str) -> bool:
        """Return whether a page exists at this path, in any format."""
        return (
            path in FILES
            or path in self._fixed
            or path in OWN
            or path in ("/search.md",)
            or self._article(path) is not None
        )

    def _article(self, path: str) -> str | None:
        plain = path.removesuffix(".md")
        return plain if plain in self.library.pages else None

    async def make(self, request: Request) -> MadePage | None:
        """Return a text page; None if the path is not a text page."""
        path = request.path
        if path in FILES:
            return MadePage(with_tag(await trio.Path(HERE / path[1:]).read_bytes()), FILES[path])
        if path in self._fixed:
            content_type, write = self._fixed[path]
            text = (await trio.to_thread.run_sync(write)).encode()
            return MadePage(with_tag(text), content_type, live=path == "/status.md")
        if path == "/search.md":
            lines = "\n".join(words_of(await self.find(search_words(request.query_string))))
            text = f"# Search\n\n{lines or 'No results.'}\n".encode()
            return MadePage(with_tag(text), MARKDOWN, live=True)
        if path.endswith(".md"):
            text = (await trio.to_thread.run_sync(self.library.markdown, path[:-3])).encode()
            return MadePage(with_tag(text), MARKDOWN)
        return None

    @staticmethod
    def kept(body: bytes, content_type: bytes) -> MadePage:
        """Return a page for a text that was built elsewhere and never changes."""
        return MadePage(with_tag(body), content_type)

    async def find(self, words: str) -> list[SearchHit]:
        """Return the pages that contain these words."""
        if self._search is None:
            self._search = await trio.to_thread.run_sync(Search, self.library)
        return await trio.to_thread.run_sync(self._search.find, words)

    def numbers(self) -> Mapping[str, int]:
        """Return the current counts of platforms and endpoints."""
        return stats_of(self.library.reference)


def search_words(query_string: bytes) -> str:
    """Return the words of a search query."""
    sent = parse_qs(query_string.decode("ascii", "replace"), max_num_fields=100)
    return sent.get("q", [""])[0][:QUERY_MAX]


def _home_markdown(library: Library, stats: Mapping[str, int]) -> str:
    """Return the landing page as Markdown."""
    base = library.base_url
    return (
        f"# Sluice\n\nOne API over {stats['platforms']} public platforms: {stats['endpoints']} endpoints, "
        f"one envelope, billed in credits.\n\n```sh\ncurl -H \"x-api-key: $KEY\" '{base}/v1/utility/endpoints'\n```\n\n"
        f"- [Documentation]({base}/docs.md)\n- [Status]({base}/status.md)\n- [OpenAPI]({base}/v1/openapi.json)\n"
        f"- [For language models]({base}/llms.txt)\n"
    )


def _index_markdown(library: Library) -> str:
    """Return the list of all pages as Markdown."""
    groups = (
        ("## Use the API", library.of_group("use")),
        ("## Platforms", library.of_group("catalog")),
        *(
            (f"### {one.title}", [library.pages[f"/docs/{p.slug}"] for p in one.platforms])
            for one in library.categories
        ),
        ("## Account", library.of_group("account")),
        ("## Node", library.of_group("node")),
        ("## Run a node", library.of_group("run")),
    )
    return "# Documentation\n\n" + "\n".join(_group(library, heading, pages) for heading, pages in groups)


def _group(library: Library, heading: str, pages: Iterable[DocPage]) -> str:
    lines = "".join(f"- [{page.title}]({library.base_url}{page.path}.md): {page.summary}\n" for page in pages)
    return f"{heading}\n\n{lines}"


def troubled_first(platforms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states of platforms, starting with those that are not operational."""
    return dict(sorted(platforms.items(), key=lambda item: item[1]["status"] == "operational"))


def _status_markdown(status: Mapping[str, Any], past: Mapping[str, Any]) -> str:
    """Return the state of the platforms as Markdown."""
    rows = "".join(
        f"| {slug} | {one['status']} | {_circuits(one['sources'])} | {in_hours(past[slug])} |\n"
        for slug, one in troubled_first(status["platforms"]).items()
    )
    head = f"# Status: {status['status']}\n\nAs of {status['updated_at']}.\n\n"
    return f"{head}| Platform | Status | Sources | Last 24 hours |\n|---|---|---|---|\n{rows}"


def _circuits(sources: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {source['circuit']}" for name, source in sources.items())


def in_hours(past: Sequence[str | None]) -> str:
    """Describe the last hours of a platform in words."""
    known = [health for health in past if health is not None]
    bad = {health: known.count(health) for health in ("degraded", "down") if health in known}
    if not bad:
        return f"operational in all {len(known)} recorded hours" if len(known) != 1 else "operational"
    return ", ".join(f"{health} in {count} of {len(known)} hours" for health, count in bad.items())
