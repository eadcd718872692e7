"""The public pages as the API's entry point uses them. The code that renders pages is loaded with the first page.

Each page is rendered once and then cached. Only one page is rendered at a time, mostly in a thread, so that the event
loop stays responsive even if many clients request pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson
import trio

from gateway.docs.guide import Guides
from gateway.docs.operations import Reference
from gateway.docs.schemas import schema_of
from gateway.http.conditional import PUBLIC, TaggedText, tagged
from gateway.http.request import Reply, Request
from gateway.server.http1.fields import fields_of, joined
from upstreams.model.archetypes import ARCHETYPES

if TYPE_CHECKING:
    from gateway.docs.pages.app import HtmlPages
    from gateway.docs.pages.texts import MadePage, Texts

_LIVE_S: Final = 5.0
"""How long a page with the node's current state is cached, in seconds."""
_GUARDED: Final = fields_of(
    [
        (
            b"content-security-policy",
            b"default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self'; "
            b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    ]
)
Relinked = Callable[[Request, TaggedText], TaggedText]
"""Rewrites the links of a text to the base URL that the client used."""
StatusData = Callable[[], Mapping[str, Any]]
"""Returns the data of the status route, or the states of each platform in the last hours."""


class PublicPages:
    """Serves the pages, their Markdown versions, the schemas and the static files."""

    def __init__(
        self,
        reference: Reference,
        guides: Guides,
        *,
        base_url: str,
        relinked: Relinked,
        status: StatusData,
        past: StatusData,
        has_dashboard: bool,
    ) -> None:
        self._reference = reference
        self._guides = guides
        self._base_url = base_url
        self._relinked = relinked
        self._status, self._past = status, past
        self._has_dashboard = has_dashboard
        self._texts: Texts | None = None
        self._html: HtmlPages | None = None
        self._missing: MadePage | None = None
        self._schemas: dict[str, Callable[[], Any]] = {}
        self._made: dict[str, MadePage] = {}
        self._live: dict[str, tuple[float, MadePage]] = {}
        self._loading, self._build_lock = trio.Lock(), trio.Lock()

    async def knows(self, path: str) -> bool:
        """Return whether a page exists at this path."""
        return path in self._made or (await self._loaded()).knows(path) or path in self._schemas

    async def answer(self, request: Request) -> Reply:
        """Return an existing page, or 304 if the client already has it."""
        made = self._kept(request) or await self._make(request)
        text, tag = self._relinked(request, made.text)
        reply = tagged(request, Reply(200, text, content_type=made.content_type), tag, caching=PUBLIC)
        if reply.status == 304 or not made.content_type.startswith(b"text/html"):
            return reply
        return replace(reply, headers=joined(reply.headers, _GUARDED))

    async def missing(self, refused: Reply) -> Reply:
        """Return the 404 error as an HTML page. The page is rendered once and shared."""
        if self._missing is None:
            async with self._build_lock:
                self._missing = await (await self._with_html()).missing()
        fields = joined(refused.headers, joined(_GUARDED, ((b"vary",), (b"accept",))))
        return replace(refused, body=self._missing.text.text, content_type=self._missing.content_type, headers=fields)

    def _kept(self, request: Request) -> MadePage | None:
        made = self._made.get(request.path)
        if made is None and not request.query_string and request.path in self._live:
            until, made = self._live[request.path]
            return made if trio.current_time() < until else None
        return made

    async def _make(self, request: Request) -> MadePage:
        """Render a page. Pages are rendered one at a time, so that anonymous requests use at most one thread."""
        async with self._build_lock:
            if (made := self._kept(request)) is not None:
                return made  # Another task rendered the page in the meantime.
            made = await self._new(request)
            if not made.live:
                self._made[request.path] = made
            elif not request.query_string:
                self._live[request.path] = trio.current_time() + _LIVE_S, made
            return made

    async def _new(self, request: Request) -> MadePage:
        texts = await self._loaded()
        if request.path in self._schemas:
            return texts.kept(orjson.dumps(self._schemas[request.path]()), b"application/json")
        text = await texts.make(request)
        if text is not None:
            return text
        return await (await self._with_html()).make(request)

    async def _with_html(self) -> HtmlPages:
        if self._html is None:
            self._html = await trio.to_thread.run_sync(self._load_html, await self._loaded())
        return self._html

    async def _loaded(self) -> Texts:
        async with self._loading:
            if self._texts is None:
                self._texts = await trio.to_thread.run_sync(self._load)
            return self._texts

    def _load(self) -> Texts:
        from gateway.docs.pages.texts import Texts  # noqa: PLC0415 - loaded with the first page

        self._schemas = self._every_schema()
        return Texts(self._reference, self._guides, base_url=self._base_url, status=self._status, past=self._past)

    def _load_html(self, texts: Texts) -> HtmlPages:
        from gateway.docs.pages.app import HtmlPages  # noqa: PLC0415 - Quart and the rest take 0.3 s

        return HtmlPages(texts, has_dashboard=self._has_dashboard)

    def _every_schema(self) -> dict[str, Callable[[], Any]]:
        """Return a function for each schema by path: schemas of archetypes and of route responses."""
        found: dict[str, Callable[[], Any]] = {
            f"/schemas/{name}.json": partial(schema_of, one, self._base_url) for name, one in ARCHETYPES.items()
        }
        for operation in self._reference.operations:
            doc = operation.route.doc
            if doc is not None and doc.answer is not None:
                found[f"/schemas/{operation.archetype}.json"] = partial(msgspec.json.schema, doc.answer)
        return found
