"""The lists of an account, page by page: where a page begins, and the answer that leads to the next (spec 4.3)."""

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
    """Where a page begins: behind `state`, or with the first item. Its cursors are good for this list only."""

    binding: bytes
    state: State | None

    @property
    def before(self) -> tuple[float, str] | None:
        """The instant and the id of the last item before it, newest first."""
        return None if self.state is None else (float(self.state["at"]), str(self.state["id"]))


def behind(at: float, id_: str) -> State:
    """The place behind an item, as `ListPosition.before` reads it."""
    return {"at": repr(at), "id": id_}


@dataclass(frozen=True, slots=True)
class Lists:
    """Answers with lists; every cursor is signed."""

    signer: CursorSigner
    replies: Replies
    platform: str = "account"
    """The slug that their envelopes tell."""

    def place(self, request: Request, caller: Caller, values: Mapping[str, Value], *chosen: object) -> ListPosition:
        """Where the page begins that is asked for; `chosen` is what else a cursor of this list depends on.

        Raises:
            InvalidCursor: the one that was sent is not of this list.
        """
        binding = orjson.dumps([request.path, caller.key.account_id, *chosen])
        return ListPosition(binding, self.signer.open(binding, str(values["cursor"])) if "cursor" in values else None)

    def cursor(self, place: ListPosition, more: State | None) -> str | None:
        """The cursor of the page that begins behind `more`."""
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
        """A page; `more` is where the next one begins, None on the last."""
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
        """Return the part of a page's envelope that holds its items. Any thread may call it."""
        cursor = self.cursor(place, more)
        pagination = {"next_cursor": cursor, "has_more": more is not None, "page_size": len(items)}
        data = {"items": items, "_warnings": warnings} if warnings else {"items": items}
        return envelope.fragment(self.platform, request.path, data, pagination)
