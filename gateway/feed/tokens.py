"""Cursor tokens of the feed: a position in an account's whole log, independent of filters (spec 4.4, decisions 10)."""

from __future__ import annotations

from collections.abc import Callable

from events.positions import Position
from upstreams.model.cursors import PREFIX, CursorSigner
from upstreams.model.errors import InvalidCursor

PATH = "/v1/events"


class FeedTokens:
    """The tokens of one account. Any of its keys may use them, with any filters."""

    def __init__(self, signer: CursorSigner, account_id: str) -> None:
        self._signer = signer
        self._binding = f"{PATH} {account_id}".encode()

    def seal(self, position: Position) -> str:
        """Return the token for reads after `position`. The same position always has the same token."""
        return self._signer.seal(self._binding, {"p": position.pos, "t": round(position.at * 1000)})

    def open(self, token: str) -> Position:
        """Return the position inside a token.

        Raises:
            InvalidCursor: the token is malformed, was changed, or belongs to another account or endpoint.
        """
        if not token.startswith(PREFIX):
            raise InvalidCursor("must be oldest, now, a next_cursor or an event's id")
        state = self._signer.open(self._binding, token)
        return Position(int(state["p"]), int(state["t"]) / 1000)


def seal_cursor(signer: CursorSigner) -> Callable[[str, Position], str]:
    """Return a function that builds the token for an account and a position."""
    return lambda account_id, position: FeedTokens(signer, account_id).seal(position)
