"""Known header blocks, so that a client's next request costs a lookup instead of a parse. No I/O."""

from gateway.server.asgi import HeaderLines

BLOCKS = 512
"""How many of the latest blocks are certainly kept. At most twice as many are in memory."""
BLOCK_BYTES = 1_024
"""A longer block is parsed each time. A stored block and its headers take about 3 KB, at most 16 KB."""


class KnownHeaders:
    """A mapping from the exact bytes of a header block to its headers, shared by all connections of one server.

    Clients send the same block repeatedly, and only their request lines differ. This class does not validate. The head
    reader stores only blocks that it found harmless, and it looks them up only after request lines that do not change
    their meaning.

    Blocks contain API keys. They stay in this process's memory, are never written anywhere, and are dropped when
    `BLOCKS` others have arrived since their last use. A lookup compares hashes with a secret seed before it compares
    bytes, so its duration does not reveal how close a guess was.
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
        """Store `block`, which ends with the empty line. A full generation of blocks replaces the previous one."""
        if len(block) <= BLOCK_BYTES:
            if len(self._recent) >= BLOCKS:
                self._older, self._recent = self._recent, {}
            self._recent[block] = headers
