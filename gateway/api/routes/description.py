"""A node's public description: catalog, guides, `/v1/openapi.json`, status and pages (spec 4.2, 9; decisions 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import trio

from gateway.api.responses import Replies
from gateway.api.routes.discovery import Discovery
from gateway.api.routes.status import STATUS_PATH, Status
from gateway.docs.account.node import OPENAPI
from gateway.docs.guide import Guides
from gateway.docs.openapi.document import OpenApi
from gateway.docs.operations import Reference
from gateway.docs.pages.site import PublicPages
from gateway.http.conditional import PUBLIC, TaggedText, tagged, with_tag
from gateway.http.errors import InvalidParam
from gateway.http.params import read_free
from gateway.http.request import Caller, Public, Reply, Request
from gateway.http.routing import Route, Routes
from upstreams.catalog import Catalog
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import Param

OPENAPI_PATH: Final = "/v1/openapi.json"
_PARAMS: Final = (Param("platform", "Only the operations of this platform.", "github"),)


class OpenApiRoute:
    """Serves the OpenAPI document. The first request builds it in a thread. After that it never changes."""

    def __init__(self, reference: Reference, documents: OpenApi, replies: Replies) -> None:
        self._reference = reference
        self._documents = documents
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
        if platform is not None and platform not in self._reference.platforms:
            problem = f"must be one of {', '.join(self._reference.platforms)}"
            raise InvalidParam("platform", problem, meant=self._reference.nearest_platform(platform))
        made = self._replies.relinked(request, self._made.get(platform) or await self._make(platform))
        return tagged(request, Reply(200, made.text), made.tag, caching=PUBLIC)

    async def _make(self, platform: str | None) -> TaggedText:
        """Build a document.

        Documents are built one at a time: the first takes 0.3 s, and many clients may request it concurrently.
        """
        async with self._build_lock:
            if platform not in self._made:
                self._made[platform] = with_tag(await trio.to_thread.run_sync(self._documents.document, platform))
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
        reference = self.reference = Reference(catalog)
        guides = self.guides = Guides(reference, base_url=replies.base_url, signer=signer)
        documents = self.documents = OpenApi(reference, replies.base_url)
        status, document = Status(catalog, now=now), OpenApiRoute(reference, documents, replies)
        self.status = status
        self.routes = (*Discovery(reference, guides=guides, replies=replies).routes, status.route, document.route)
        self.public: dict[str, Public] = {STATUS_PATH: status.answer, OPENAPI_PATH: document.answer}
        """The paths under `/v1/` that need no key."""
        self.pages = PublicPages(
            reference,
            guides,
            base_url=replies.base_url,
            relinked=replies.relinked,
            status=status.data,
            past=status.past,
            has_dashboard=has_dashboard,
        )

    def table(self, data: Iterable[Route], account: Iterable[Route]) -> Routes:
        """Return the routing table of a node, including its own routes, and add all of them to the reference."""
        routes = Routes((*data, *self.routes, *account))
        self.reference.describe(routes.all())
        return routes
