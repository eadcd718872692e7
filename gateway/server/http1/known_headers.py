"""Stores the header blocks of earlier requests, so that a repeated block is looked up instead of parsed. No I/O."""

from gateway.server.asgi import HeaderLines

BLOCKS = 512
"""The number of most recent blocks that are always stored. At most twice as many are in memory."""
BLOCK_BYTES = 1_024
"""Longer blocks are not stored. A stored block and its headers take about 3 KB, and at most 16 KB."""


class KnownHeaders:
    """A mapping from the exact bytes of a header block to its headers, shared by all connections of one server.

    A client usually sends the same block with every request, and only the request lines differ. This class validates
    nothing. The head reader stores only blocks that it has checked, and looks blocks up only after request lines that
    cannot change the meaning of a block.

    Blocks contain API keys. They stay in this process's memory, are never written anywhere, and are dropped at the
    latest when twice `BLOCKS` others have arrived since their last use. A lookup compares bytes only if the hashes,
    which have a secret seed, are equal. Its duration therefore does not reveal how close a guess was.
    """

    __slots__ = ("_older", "_recent")

    def __init__(self) -> None:
        self._recent: dict[bytes, HeaderLines] = {}
        self._older: dict[bytes, HeaderLines] = {}

    def find(self, block: bytes) -> HeaderLines | None:
        """Return the headers of `block`, or None if it is unknown or was dropped."""
        headers = self._recent.get(block)
        if headers is None:
            headers = self._older.get(block)
            if headers is not None:
                self.keep(block, headers)
        return headers

    def keep(self, block: bytes, headers: HeaderLines) -> None:
        """Store `block`, which ends with the empty line.

        When `BLOCKS` recent blocks are stored, the older ones are dropped.
        """
        if len(block) <= BLOCK_BYTES:
            if len(self._recent) >= BLOCKS:
                self._older, self._recent = self._recent, {}
            self._recent[block] = headers
