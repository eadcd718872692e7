"""Trees of HTML at any nesting depth: elements too deep for the parser become siblings, as in browsers.

libxml2 stops building a tree at 256 open elements, and drops the rest of the page. Old pages may have more open
elements, because many of their tags are not closed. Only such pages are parsed a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lxml import etree

from upstreams.model.errors import UnexpectedBody

DEPTH_MAX: Final = 100
"""The maximum depth of a tree. The time to find the main text grows with the square of this depth."""
OPEN_MAX: Final = 5_000
"""Pages with deeper nesting are refused, because each unmatched end tag is searched for in all open elements."""

_PIECE: Final = 32 * 1024


def html_tree(page: bytes, parser: Any) -> Any:
    """Return the root of a UTF-8 page, or None if the page is empty. `parser` must be an unused HTML parser.

    Raises:
        LxmlError: The page cannot be parsed.
        UnexpectedBody: More than `OPEN_MAX` elements are nested.
    """
    root = etree.fromstring(page, parser)
    if all(one.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT for one in parser.error_log):
        return root
    whole = etree.HTMLParser(target=_Flattening(parser.makeelement), encoding="utf-8", recover=True)
    for start in range(0, len(page), _PIECE):  # refusals are detected after each piece
        whole.feed(page[start : start + _PIECE])
    return whole.close()


class _Flattening:
    """A parser target that builds a tree of at most `DEPTH_MAX` nested elements, plus one more level."""

    def __init__(self, make_element: Callable[..., Any]) -> None:
        self._tree = etree.TreeBuilder(element_factory=make_element)
        self._depth = 0
        self._lowest = ""
        """The tag of the open element in the last level. The element ends when the next one starts in that level."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Start an element."""
        self._depth += 1
        if self._depth > OPEN_MAX:
            raise UnexpectedBody(f"the page has more than {OPEN_MAX} nested elements")
        if self._depth > DEPTH_MAX:
            self._end_lowest()
            self._lowest = tag
        self._tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        """End the most recently started open element."""
        if self._depth > DEPTH_MAX:
            self._end_lowest()
        else:
            self._tree.end(tag)
        self._depth -= 1

    def data(self, words: str) -> None:
        """Add text."""
        self._tree.data(words)

    def close(self) -> Any:
        """Return the root of the tree, or None if the page was refused."""
        return None if self._depth else self._tree.close()

    def _end_lowest(self) -> None:
        if self._lowest:
            self._tree.end(self._lowest)
            self._lowest = ""
