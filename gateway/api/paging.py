"""Paginated lists of an account: the position of a page, and the response with the next cursor (spec 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from gateway.api.responses import Replies
from gateway.http import envelope
from gateway.http.request import Caller, Reply, Request
from upstreams.model.cursors import CursorSigner
from upstreams.model.params import State, Value


class ListPosition(NamedTuple):
    """The start of a page: after `state`, or at the first item. Its cursors are valid only for this list."""

    binding: bytes
    state: State | None

    @property
    def before(self) -> tuple[float, str] | None:
        """The timestamp and the id of the item before this page, for a list with the newest item first."""
        return None if self.state is None else (float(self.state["at"]), str(self.state["id"]))


def position_after(at: float, id_: str) -> State:
    """Return the cursor state for the position after an item, in the format that `ListPosition.before` reads."""
    return {"at": repr(at), "id": id_}


@dataclass(frozen=True, slots=True)
class Lists:
    """Builds list responses. Every cursor is signed."""

    signer: CursorSigner
    replies: Replies
    platform: str = "account"
    """The platform slug in the envelopes of the lists."""

    def position(self, request: Request, caller: Caller, values: Mapping[str, Value], *chosen: object) -> ListPosition:
        """Return the requested start of the page.

        `chosen` contains the other request values that the cursor is bound to.

        Raises:
            InvalidCursor: the cursor belongs to another list.
        """
        binding = orjson.dumps([request.path, caller.key.account_id, *chosen])
        return ListPosition(binding, self.signer.open(binding, str(values["cursor"])) if "cursor" in values else None)

    def cursor(self, place: ListPosition, more: State | None) -> str | None:
        """Return the cursor for the page that begins after `more`."""
        return None if more is None else self.signer.seal(place.binding, more)

    async def page(
        self,
        request: Request,
        caller: Caller,
        items: Sequence[Any],
        *,
        place: ListPosition,
        more: State | None,
        warnings: Sequence[str] = (),
    ) -> Reply:
        """Return a page. `more` is the state after which the next page begins; None for the last page."""
        stored = self.fragment(request, items, place=place, more=more, warnings=warnings)
        return await self.replies.free(request, caller, stored)

    def fragment(
        self,
        request: Request,
        items: Sequence[Any],
        *,
        place: ListPosition,
        more: State | None,
        warnings: Sequence[str] = (),
    ) -> bytes:
        """Return the part of a page's envelope that contains the items. This method is thread-safe."""
        cursor = self.cursor(place, more)
        pagination = {"next_cursor": cursor, "has_more": more is not None, "page_size": len(items)}
        data = {"items": items, "_warnings": warnings} if warnings else {"items": items}
        return envelope.fragment(self.platform, request.path, data, pagination)
