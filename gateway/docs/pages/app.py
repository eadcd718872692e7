"""The HTML pages: a Quart app with Jinja2 templates. `PublicPages` calls it directly, without a connection."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import trio
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from quart import Response, request
from quart_trio import QuartTrio

from gateway.docs.pages.endpoint import sample_markdown
from gateway.docs.pages.library import CATALOG, DocPage
from gateway.docs.pages.render import Rendered, Renderer
from gateway.docs.pages.texts import HERE, HTML, OWN, MadePage, Texts, in_hours, search_words, troubled_first
from gateway.http.conditional import with_tag
from gateway.http.request import Request

_LIVE: Final = frozenset(OWN) - {"/docs"}
_SCOPE: Final = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "GET",
    "scheme": "http",
    "root_path": "",
    "headers": [(b"host", b"localhost")],
    "client": None,
    "server": None,
    "extensions": {},
}
_MISSING: Final = "/missing"
"""An internal path of the Quart app, which no public URL reaches."""
_SAMPLE: Final = "github/profile"
_CALLS: Final = ("try-it", "answer")
"""The parts of an operation's page that go into the side column."""
_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {"use": "Use the API", "run": "Run a node", "account": "Account", "node": "Node"}
)


class HtmlPages:
    """Renders any page by its path."""

    def __init__(self, texts: Texts, *, has_dashboard: bool) -> None:
        """With `has_dashboard`, every page links to the dashboard."""
        self._texts = texts
        self._has_dashboard = has_dashboard
        self._library = texts.library
        self._renderer = Renderer()
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(("html",)),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._app = self._routed()

    async def make(self, page_request: Request) -> MadePage:
        """Render an existing page."""
        path = page_request.path
        body = await self._body_of(path, page_request.query_string)
        return MadePage(with_tag(body), HTML, live=path in _LIVE)

    async def missing(self) -> MadePage:
        """Render the error page for unknown paths."""
        return MadePage(with_tag(await self._body_of(_MISSING, b"")), HTML)

    async def _body_of(self, path: str, query_string: bytes) -> bytes:
        parts: list[bytes] = []

        async def receive() -> Any:
            await trio.sleep_forever()  # The request has no body, and no client connection that could end.

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            parts.append(message.get("body", b""))

        scope: Any = {**_SCOPE, "path": path, "raw_path": path.encode(), "query_string": query_string}
        await self._app(scope, receive, send)
        return b"".join(parts)

    def _routed(self) -> QuartTrio:
        app = QuartTrio("pages", static_folder=None)
        app.config["PROPAGATE_EXCEPTIONS"] = True
        app.add_url_rule("/", "home", self._home)
        app.add_url_rule("/docs", "index", self._index)
        app.add_url_rule("/search", "search", self._results)
        app.add_url_rule(CATALOG, "catalog", self._catalog)
        app.add_url_rule("/docs/<path:name>", "page", self._page)
        app.add_url_rule("/status", "status", self._health)
        app.add_url_rule(_MISSING, "missing", self._missing_page)
        return app

    async def _home(self) -> Response:
        sample = await trio.to_thread.run_sync(self._sample)
        return await self._shown(
            "home.html",
            "/",
            "Sluice",
            stats=self._texts.numbers(),
            status=self._texts.status(),
            sample=sample,
            groups=self._groups(),
        )

    def _sample(self) -> str:
        offered = self._library.reference.offered
        operation = next((one for one in offered if one.id == _SAMPLE), offered[0])
        return self._renderer.render(sample_markdown(operation, self._library.guide_of(operation))).html

    async def _index(self) -> Response:
        return await self._shown("index.html", "/docs", "Documentation", groups=self._groups())

    async def _catalog(self) -> Response:
        return await self._shown("catalog.html", CATALOG, "Catalog", groups=self._groups())

    async def _results(self) -> Response:
        words = search_words(request.query_string)
        return await self._shown("search.html", "/search", "Search", query=words, found=await self._texts.find(words))

    async def _page(self, name: str) -> Response:
        page = self._library.pages[f"/docs/{name}"]
        rendered = await trio.to_thread.run_sync(self._rendered, page.path)
        is_operation = page.platform != "" and page.path != f"/docs/{page.platform}"
        return await self._shown(
            "page.html",
            page.path,
            rendered.title,
            rendered=rendered,
            page=page,
            columns=rendered.around(_CALLS) if is_operation else None,
            crumbs=self._crumbs(page),
            around=self._around(page),
        )

    async def _missing_page(self) -> Response:
        return await self._shown("missing.html", _MISSING, "Not found", twin=None, columns=None)

    async def _health(self) -> Response:
        sites = {slug: site.platform.title for slug, site in self._library.reference.catalog.sites.items()}
        past = {slug: (hours, in_hours(hours)) for slug, hours in self._texts.past().items()}
        status = self._texts.status()
        return await self._shown(
            "status.html",
            "/status",
            "Status",
            status=status,
            platforms=troubled_first(status["platforms"]),
            sites=sites,
            past=past,
        )

    def _rendered(self, path: str) -> Rendered:
        return self._renderer.render(self._library.markdown(path, ""))

    async def _shown(self, template: str, path: str, title: str, **values: Any) -> Response:
        twin = "/index.md" if path == "/" else f"{path}.md"
        common = {
            "title": title,
            "path": path,
            "twin": twin,
            "nav": self._nav(path),
            "has_dashboard": self._has_dashboard,
            **values,
        }
        text = await trio.to_thread.run_sync(lambda: self._templates.get_template(template).render(common))
        return Response(text, content_type=HTML.decode())

    def _nav(self, path: str) -> Mapping[str, Any]:
        """Return the groups of the menu, with the category and the endpoints of the open platform."""
        library, page = self._library, self._library.pages.get(path)
        opened = page.platform if page is not None and page.group == "platforms" else ""
        open_group = next((one for one in library.categories if any(p.slug == opened for p in one.platforms)), None)
        return {
            "use": library.of_group("use"),
            "run": library.of_group("run"),
            "categories": library.categories,
            "open_group": open_group,
            "opened": opened,
            "endpoints": library.endpoints_of(opened) if opened else [],
            "account": library.of_group("account"),
            "node": library.of_group("node"),
        }

    def _crumbs(self, page: DocPage) -> list[tuple[str, str]]:
        """Return the breadcrumbs of a page: names, with paths for those that are pages."""
        if page.group == "errors":
            return [("Errors", "/docs/errors")]
        if page.group != "platforms":
            return [(_GROUPS[page.group], "")]
        above = self._library.pages[f"/docs/{page.platform}"]
        return [("Catalog", CATALOG), *([] if above is page else [(above.title, above.path)])]

    def _around(self, page: DocPage) -> Mapping[str, DocPage | None]:
        """Return the guides before and after a guide. Both are None for a page that is not a guide."""
        guides = [*self._library.of_group("use"), *self._library.of_group("run")]
        if page not in guides:
            return {"before": None, "after": None}
        place = guides.index(page)
        return {
            "before": guides[place - 1] if place else None,
            "after": guides[place + 1] if place + 1 < len(guides) else None,
        }

    def _groups(self) -> list[Mapping[str, Any]]:
        """Return the platforms by category, each with its endpoints, and whether the node has its credentials."""
        library = self._library
        offered = {operation.platform for operation in library.reference.offered}
        return [
            {
                "category": group.category,
                "title": group.title,
                "platforms": [
                    {
                        "slug": platform.slug,
                        "title": platform.title,
                        "is_configured": platform.slug in offered,
                        "endpoints": [(library.name_of(one), one.path) for one in library.endpoints_of(platform.slug)],
                    }
                    for platform in group.platforms
                ],
            }
            for group in library.categories
        ]
