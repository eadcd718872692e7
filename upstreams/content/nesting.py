"""Trees of HTML however deep it is nested: what is too deep for the parser stands side by side, as browsers have it.

libxml2 ends a tree where 256 elements are open, and leaves out the rest of the page; old pages open more, by tags that
nobody closes. Only such a page is read a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lxml import etree

from upstreams.model.errors import UnexpectedBody

DEPTH_MAX: Final = 100
"""The time for finding the main text goes with the square of it."""
OPEN_MAX: Final = 5_000
"""Elements inside of each other from which on a page is refused: an end without a beginning is looked for in all."""

_PIECE: Final = 32 * 1024


def html_tree(page: bytes, parser: Any) -> Any:
    """The root of a page in UTF-8, None where it has nothing; `parser` is one of HTML, not used before.

    Raises:
        LxmlError: it cannot be read.
        UnexpectedBody: it has more than `OPEN_MAX` elements inside of each other.
    """
    root = etree.fromstring(page, parser)
    if all(one.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT for one in parser.error_log):
        return root
    whole = etree.HTMLParser(target=_Flattening(parser.makeelement), encoding="utf-8", recover=True)
    for start in range(0, len(page), _PIECE):  # a refusal is seen behind a piece
        whole.feed(page[start : start + _PIECE])
    return whole.close()


class _Flattening:
    """A parser's target that builds a tree of up to `DEPTH_MAX` elements inside of each other, and one in the last."""

    def __init__(self, make_element: Callable[..., Any]) -> None:
        self._tree = etree.TreeBuilder(element_factory=make_element)
        self._depth = 0
        self._lowest = ""
        """The tag of the element that is open in the last: another one that begins there ends it."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element."""
        self._depth += 1
        if self._depth > OPEN_MAX:
            raise UnexpectedBody(f"a page has more than {OPEN_MAX} elements inside of each other")
        if self._depth > DEPTH_MAX:
            self._end_lowest()
            self._lowest = tag
        self._tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        """End the element that began last and has no end yet."""
        if self._depth > DEPTH_MAX:
            self._end_lowest()
        else:
            self._tree.end(tag)
        self._depth -= 1

    def data(self, words: str) -> None:
        """Add text."""
        self._tree.data(words)

    def close(self) -> Any:
        """The root of the tree; None after a refusal."""
        return None if self._depth else self._tree.close()

    def _end_lowest(self) -> None:
        if self._lowest:
            self._tree.end(self._lowest)
            self._lowest = ""
