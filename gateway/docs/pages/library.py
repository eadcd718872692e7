"""All pages of a node by path: guides, tables, platforms and endpoints. A page is built when a client requests it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from gateway.docs.catalog import CATEGORY_TITLES, by_category
from gateway.docs.errors import REASONS
from gateway.docs.guide import Guides
from gateway.docs.operations import ApiOperation, Reference
from gateway.docs.pages.endpoint import endpoint_markdown
from gateway.docs.pages.event_types import shapes_markdown
from gateway.docs.pages.reasons import reason_markdown
from gateway.docs.pages.tables import (
    composite_records_markdown,
    errors_markdown,
    platform_markdown,
    records_markdown,
)
from upstreams.model.endpoint import Platform

Group = Literal["use", "run", "errors", "catalog", "platforms", "account", "node"]
CATALOG: Final = "/docs/catalog"
_DOCS: Final = Path(__file__).parents[3] / "docs"
_CHANGELOG: Final = Path(__file__).with_name("changelog.md")
"""A symbolic link to the repository's changelog. In a wheel, it is a copy of the file."""
_GUIDES: Final[Mapping[str, tuple[str, str, Group]]] = MappingProxyType(
    {
        "quickstart": ("Quickstart", "Get started: make your first calls in five steps.", "use"),
        "api": ("Using the API", "Keys, the response envelope, URLs as parameters, and generated clients.", "use"),
        "credits": (
            "Credits and refunds",
            "What a call costs, when it is free, and a worked example.",
            "use",
        ),
        "packs": ("Packs", "Packs of credits: grants, card payments and refunds.", "use"),
        "pagination": ("Pagination", "Cursors, reading many pages, fields, and rows as CSV or NDJSON.", "use"),
        "web-pages": ("Web pages", "Any page as Markdown: what it costs, and what can block it.", "use"),
        "composites": ("Composites", "One call to many platforms: legs, prices, rankings, scores.", "use"),
        "cohorts": ("Cohorts", "Search the posts of thousands of accounts for keywords, privately.", "use"),
        "discover": ("Discover", "Search many keywords on every platform, once or on a schedule.", "use"),
        "idempotency": ("Idempotency", "Retry a request without paying or running it twice.", "use"),
        "rate-limits": ("Rate limits", "How many requests a key may make, and how to wait.", "use"),
        "events": ("Events", "Everything that happens in an account, by long polling, streams or WebSocket.", "use"),
        "monitors": ("Monitors", "Repeat a call on a cadence, track its numbers, and receive alerts.", "use"),
        "dashboard": ("Dashboard", "Pages for account owners: keys, usage, Monitors, a playground.", "use"),
        "webhooks": ("Webhooks", "Deliveries: their format, retries, and how to verify them.", "use"),
        "first-hour": (
            "The first hour in production",
            "Set up a node with TLS, a backup and alerts.",
            "run",
        ),
        "operating": ("Running a node", "Settings, commands, credentials, metrics, backup, reload, shutdown.", "run"),
        "many-nodes": ("Many nodes", "Several nodes that share PostgreSQL and Redis, step by step.", "run"),
        "performance": ("Performance", "What a request costs, and why.", "run"),
        "how-it-works": (
            "How it works",
            "How the code handles requests, charges, Monitors and events.",
            "run",
        ),
        "architecture": ("Architecture", "The packages of each layer, for people who change the code.", "run"),
        "contributing": ("Contributing", "Which files to open, tests to run and rules to follow.", "run"),
        "platforms": ("Adding a platform", "How to write a declaration, its records and its sandbox.", "run"),
        "platform-reference": (
            "Reference for platforms",
            "The arguments of everything that a declaration uses.",
            "run",
        ),
        "testing": ("Testing", "The test suite, and a whole node simulated from a seed.", "run"),
    }
)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```")
_CODE = re.compile(r"(`+)(?:(?!\1).)+\1")


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page. `make` returns its Markdown with the links of the source file, which `relinked` then rewrites."""

    path: str
    title: str
    summary: str
    group: Group
    make: Callable[[], str]
    platform: str = ""
    terms: str = ""
    """Search terms in addition to the words of the page."""


class Library:
    """All pages of a node."""

    def __init__(self, reference: Reference, guides: Guides, base_url: str) -> None:
        self.reference = reference
        self.base_url = base_url
        self._guides = guides
        self.pages: dict[str, DocPage] = {}
        self._endpoints: dict[str, list[DocPage]] = {}
        for page in (*self._written(), *self._tables(), *self._platforms(), *self._operations()):
            assert page.path not in self.pages, f"two pages are at {page.path}"
            self.pages[page.path] = page
            if page.platform and page.path != f"/docs/{page.platform}":
                self._endpoints.setdefault(page.platform, []).append(page)
        self.categories = by_category(site.platform for site in reference.catalog.sites.values())

    def markdown(self, path: str, ending: str = ".md") -> str:
        """Return a page as Markdown. Links to other pages get the same `ending`."""
        return relinked(self.pages[path].make(), self.pages, self.base_url if ending else "", ending)

    def guide_of(self, operation: ApiOperation) -> Mapping[str, Any]:
        """Return the guide of an operation."""
        return self._guides.of(operation)

    def of_group(self, group: Group) -> list[DocPage]:
        """Return the pages of a group, in order."""
        return [page for page in self.pages.values() if page.group == group]

    def page_of(self, platform: Platform) -> DocPage:
        """Return the page of a platform."""
        return self.pages[f"/docs/{platform.slug}"]

    def endpoints_of(self, platform: str) -> list[DocPage]:
        """Return the pages of a platform's endpoints."""
        return self._endpoints.get(platform, [])

    def _written(self) -> Iterator[DocPage]:
        for name, (title, summary, group) in _GUIDES.items():
            more = shapes_markdown if name == "events" else None
            yield DocPage(f"/docs/{name}", title, summary, group, partial(_written, _DOCS / f"{name}.md", more))

    def _tables(self) -> Iterator[DocPage]:
        summary = "Every kind of record, and the meaning of each field."
        yield DocPage("/docs/records", "Records", summary, "use", records_markdown)
        summary = "The records of endpoints that read several platforms."
        yield DocPage("/docs/composite-records", "Records of composites", summary, "use", composite_records_markdown)
        yield DocPage("/docs/errors", "Errors", "Every code and reason, and what to do.", "use", errors_markdown)
        summary = "Every platform and its endpoints, by category."
        yield DocPage(CATALOG, "Catalog", summary, "catalog", self._catalog_markdown)
        for name, meaning in {reason.name: reason.meaning for reason in REASONS.values()}.items():
            make = partial(reason_markdown, name, self.reference.offered)
            yield DocPage(f"/docs/errors/{name}", name, meaning, "errors", make)
        summary = "Changes for users and operators, newest first."
        yield DocPage("/docs/changelog", "Changelog", summary, "run", partial(_written, _CHANGELOG))

    def _catalog_markdown(self) -> str:
        """Return the catalog page: a section for each category, with a table of its platforms."""
        head = "| Platform | Endpoints |\n|---|---|\n"
        sections = (
            f"## {group.title}\n\n{head}{''.join(map(self._catalog_row, group.platforms))}" for group in self.categories
        )
        return "# Catalog\n\nEvery platform of this node and its endpoints.\n\n" + "\n".join(sections)

    def _catalog_row(self, platform: Platform) -> str:
        names = ", ".join(f"[`{self.name_of(one)}`]({one.path})" for one in self.endpoints_of(platform.slug))
        return f"| [{platform.title}](/docs/{platform.slug}) | {names} |\n"

    def name_of(self, page: DocPage) -> str:
        """Return the short name of an endpoint's page: its path after the platform's."""
        return page.path.removeprefix(f"/docs/{page.platform}/")

    def _platforms(self) -> Iterator[DocPage]:
        for slug, site in self.reference.catalog.sites.items():
            listed = [one for one in self.reference.operations if one.platform == slug]
            summary = f"{len(listed)} endpoint{'s' * (len(listed) != 1)} of {site.platform.title}."
            make = partial(platform_markdown, site, listed)
            terms = CATEGORY_TITLES[site.platform.category]
            yield DocPage(f"/docs/{slug}", site.platform.title, summary, "platforms", make, platform=slug, terms=terms)

    def _operations(self) -> Iterator[DocPage]:
        for operation in self.reference.operations:
            group: Group = "platforms" if operation.site else "account" if operation.platform == "account" else "node"
            terms = " ".join(
                [operation.id, operation.name, *(one.name for one in operation.query), operation.archetype]
            )
            make = partial(endpoint_markdown, operation, self._guides)
            yield DocPage(
                operation.page,
                operation.title,
                operation.summary,
                group,
                make,
                platform=operation.platform,
                terms=terms,
            )


def _written(file: Path, more: Callable[[], str] | None = None) -> str:
    text = file.read_text()
    return text if more is None else f"{text}\n{more()}"


def relinked(text: str, pages: Mapping[str, DocPage], base_url: str, ending: str) -> str:
    """Rewrite a document's links to the node's pages. Links to files that are not served become plain text."""

    def lead(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if target.startswith(("http://", "https://", "#", "mailto:")):
            return found[0]
        path, _, anchor = target.partition("#")
        page = path if path.startswith("/") else f"/docs/{path.rpartition('/')[2].removesuffix('.md').lower()}"
        behind = f"#{anchor}" if anchor else ""
        if page in pages and not (path.startswith("../") and "bench" in path):
            return f"[{words}]({base_url}{page}{ending}{behind})"
        is_served = path.startswith(("/v1/", "/schemas/", "/status", "/llms"))
        return f"[{words}]({base_url}{path}{behind})" if is_served else words

    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= _FENCE.match(line) is not None
        lines.append(line if in_code else _outside_code(line, lead))
    return "\n".join(lines)


def _outside_code(line: str, lead: Callable[[re.Match[str]], str]) -> str:
    """Rewrite the links of a line, except those inside code. The text of a link may contain code."""
    spans = [found.span() for found in _CODE.finditer(line)]

    def guarded(found: re.Match[str]) -> str:
        start = found.start()
        return found[0] if any(begin < start < end for begin, end in spans) else lead(found)

    return _LINK.sub(guarded, line)
