"""The descriptions of a node: its reference, guides and OpenAPI document, built when they are first read.

Their modules are also imported only then, because a node that serves only calls needs none of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.docs.guide import Guides
    from gateway.docs.openapi.document import OpenApi
    from gateway.docs.operations import Reference
    from gateway.http.routing import Route
    from upstreams.catalog import Catalog
    from upstreams.model.cursors import CursorSigner


class NodeDocs:
    """Builds each description once. An attribute may be read in any thread, and `prepared` keeps the loop free."""

    def __init__(self, catalog: Catalog, *, signer: CursorSigner, base_url: str) -> None:
        self._catalog = catalog
        self._signer = signer
        self._base_url = base_url
        self._routes: tuple[Route, ...] = ()
        self._preparing = trio.Lock()
        self._is_prepared = False

    def describe(self, routes: Iterable[Route]) -> None:
        """Set the complete routing table, before the first read."""
        self._routes = tuple(routes)

    async def prepared(self) -> Self:
        """Return these descriptions, built in a thread on the first call, because that takes 0.1 s."""
        if not self._is_prepared:
            async with self._preparing:
                if not self._is_prepared:
                    await trio.to_thread.run_sync(self._prepare)
        return self

    def _prepare(self) -> None:
        self._is_prepared = all((self.guides, self.documents))

    @cached_property
    def reference(self) -> Reference:
        """All operations of the node."""
        from gateway.docs.operations import Reference  # noqa: PLC0415 - see the module

        reference = Reference(self._catalog)
        reference.describe(self._routes)
        return reference

    @cached_property
    def guides(self) -> Guides:
        """The guides of the operations."""
        from gateway.docs.guide import Guides  # noqa: PLC0415 - see the module

        return Guides(self.reference, base_url=self._base_url, signer=self._signer)

    @cached_property
    def documents(self) -> OpenApi:
        """The OpenAPI documents, of all platforms and of each one."""
        from gateway.docs.openapi.document import OpenApi  # noqa: PLC0415 - see the module

        return OpenApi(self.reference, self._base_url)
