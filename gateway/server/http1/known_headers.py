"""Header blocks that came before, so that a client's next request costs a look-up instead of a reading. No I/O."""

from gateway.server.asgi import HeaderLines

BLOCKS = 512
"""So many are kept for sure, twice as many at most."""
BLOCK_BYTES = 1_024
"""A longer block is read each time. With its headers a block takes about 3 KB, and 16 KB at worst."""


class KnownHeaders:
    """From the exact bytes of a header block to its headers; shared by all connections of one server.

    Clients send the same block again and again, only their request lines differ. Nothing is judged here: the reader of
    heads keeps what it has found harmless, and the same bytes mean the same behind every request line it looks up for.

    Blocks hold API keys. They stay in this process's memory, are written nowhere, and leave when `BLOCKS` others have
    come since their last use. A look-up compares hashes with a secret seed before it compares bytes, so the time it
    takes tells nobody how near a guess came.
    """

    __slots__ = ("_older", "_recent")

    def __init__(self) -> None:
        self._recent: dict[bytes, HeaderLines] = {}
        self._older: dict[bytes, HeaderLines] = {}

    def find(self, block: bytes) -> HeaderLines | None:
        """The headers of `block`; None when it is unknown or was forgotten."""
        headers = self._recent.get(block)
        if headers is None:
            headers = self._older.get(block)
            if headers is not None:
                self.keep(block, headers)
        return headers

    def keep(self, block: bytes, headers: HeaderLines) -> None:
        """Remember `block`, which ends with the empty line; a full generation takes the place of the one before."""
        if len(block) <= BLOCK_BYTES:
            if len(self._recent) >= BLOCKS:
                self._older, self._recent = self._recent, {}
            self._recent[block] = headers
