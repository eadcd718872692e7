"""A node's public description: catalog, guides, `/v1/openapi.json`, status and pages (spec 4.2, 9; decisions 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import trio

from gateway.api.responses import Replies
from gateway.api.routes.discovery import Discovery
from gateway.api.routes.status import STATUS_PATH, Status
from gateway.docs.account.node import OPENAPI
from gateway.docs.node_docs import NodeDocs
from gateway.http.conditional import PUBLIC, TaggedText, tagged, with_tag
from gateway.http.errors import InvalidParam
from gateway.http.params import read_free
from gateway.http.request import Caller, Public, Reply, Request
from gateway.http.routing import Route, Routes
from upstreams.catalog import Catalog
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param

if TYPE_CHECKING:
    from gateway.docs.guide import Guides
    from gateway.docs.openapi.document import OpenApi
    from gateway.docs.operations import Reference
    from gateway.docs.pages.site import PublicPages

OPENAPI_PATH: Final = "/v1/openapi.json"
_PARAMS: Final = (Param("platform", "Only the operations of this platform.", "github"),)


class OpenApiRoute:
    """Serves the OpenAPI document. The first request builds it in a thread. After that it never changes."""

    def __init__(self, docs: NodeDocs, replies: Replies) -> None:
        self._docs = docs
        self._replies = replies
        self._made: dict[str | None, TaggedText] = {}
        """The documents requested so far, by platform. The key of the complete document is None."""
        self._build_lock = trio.Lock()

    @property
    def route(self) -> Route:
        """Return the routing table entry.

        Because of the entry, the catalog lists the route, and a wrong method returns 405. The 405 requires a key.
        """
        return Route(OPENAPI_PATH, self._by_route, doc=OPENAPI, params=_PARAMS)

    async def _by_route(self, request: Request, _caller: Caller) -> Reply:
        return await self.answer(request)

    async def answer(self, request: Request) -> Reply:
        """Return the document."""
        chosen = read_free(request.query, _PARAMS).get("platform")
        platform = None if chosen is None else str(chosen)
        reference = (await self._docs.prepared()).reference
        if platform is not None and platform not in reference.platforms:
            problem = f"must be one of {', '.join(reference.platforms)}"
            raise InvalidParam("platform", problem, meant=reference.nearest_platform(platform))
        made = self._replies.relinked(request, self._made.get(platform) or await self._make(platform))
        return tagged(request, Reply(200, made.text), made.tag, caching=PUBLIC)

    async def _make(self, platform: str | None) -> TaggedText:
        """Build a document.

        Documents are built one at a time: the first takes 0.3 s, and many clients may request it concurrently.
        """
        async with self._build_lock:
            if platform not in self._made:
                self._made[platform] = with_tag(await trio.to_thread.run_sync(self._docs.documents.document, platform))
            return self._made[platform]


class Description:
    """Builds the routes, documents and pages that describe a node, all from one reference.

    With `has_dashboard`, the pages link to the dashboard.
    """

    def __init__(
        self,
        catalog: Catalog,
        replies: Replies,
        *,
        signer: CursorSigner,
        now: Callable[[], float],
        has_dashboard: bool,
    ) -> None:
        self._replies = replies
        self._has_dashboard = has_dashboard
        self.docs = NodeDocs(catalog, signer=signer, base_url=replies.base_url)
        status, document = Status(catalog, now=now), OpenApiRoute(self.docs, replies)
        self.status = status
        self.routes = (*Discovery(self.docs, replies).routes, status.route, document.route)
        self.public: dict[str, Public] = {STATUS_PATH: status.answer, OPENAPI_PATH: document.answer}
        """The paths under `/v1/` that need no key."""

    @property
    def reference(self) -> Reference:
        """All operations of the node."""
        return self.docs.reference

    @property
    def guides(self) -> Guides:
        """The guides of the operations."""
        return self.docs.guides

    @property
    def documents(self) -> OpenApi:
        """The OpenAPI documents."""
        return self.docs.documents

    @cached_property
    def _pages(self) -> PublicPages:
        from gateway.docs.pages.site import PublicPages  # noqa: PLC0415 - imported with the first page

        replies, status = self._replies, self.status
        return PublicPages(
            self.reference,
            self.guides,
            base_url=replies.base_url,
            relinked=replies.relinked,
            status=status.data,
            past=status.past,
            has_dashboard=self._has_dashboard,
        )

    async def pages(self) -> PublicPages:
        """Return the public pages."""
        await self.docs.prepared()
        return self._pages

    def table(self, data: Iterable[Route], account: Iterable[Route]) -> Routes:
        """Return the routing table of a node, including its own routes, and add all of them to the reference."""
        routes = Routes((*data, *self.routes, *account))
        self.docs.describe(routes.all())
        return routes
