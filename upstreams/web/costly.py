"""Pages that were too costly a moment ago, so that nobody pays for them again and no worker reads them again.

A page is remembered for the very request that found it so: its address, its endpoint, and all values that change how it
is read. The selectors of one caller therefore never make a page unreadable for another one. A page that is led to by a
redirect is remembered by the address that was asked for, which alone decides where it leads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from upstreams.model.errors import PAGE_TOO_COSTLY, NotFound
from upstreams.model.params import Args, Value

REMEMBERED_S: Final = 600.0
PAGES_MAX: Final = 1_000
_NOT_READ_BY: Final = frozenset(("max_age", "fresh", "proxy"))
"""Parameters that do not change how a page is read."""
_Key = tuple[str, frozenset[tuple[str, Value]]]


class CostlyPages:
    """The pages that a node remembers; reads change it between two of their calls."""

    def __init__(self) -> None:
        self._until: OrderedDict[_Key, float] = OrderedDict()

    def page_of(self, endpoint: str, args: Args) -> RequestedPage:
        """The page of a request.

        Raises:
            NotFound: it was too costly a moment ago; this is free.
        """
        values = frozenset((name, value) for name, value in args.values.items() if name not in _NOT_READ_BY)
        page = RequestedPage(self, (endpoint, values), args.now_at)
        page.check()
        return page

    def check(self, key: _Key, now: float) -> None:
        """Refuse a page that is remembered.

        Raises:
            NotFound: it is.
        """
        if self._until.get(key, now) > now:
            raise NotFound(PAGE_TOO_COSTLY, reason="page_too_costly")

    def remember(self, key: _Key, until: float) -> None:
        """Remember a page, in place of the one that was added first if there are too many."""
        self._until[key] = until
        self._until.move_to_end(key)
        if len(self._until) > PAGES_MAX:
            self._until.popitem(last=False)


class RequestedPage(NamedTuple):
    """The page of one request."""

    pages: CostlyPages
    key: _Key
    now: float

    def check(self) -> None:
        """Refuse to go on with it, if an identical request has found it too costly meanwhile.

        Raises:
            NotFound: it has.
        """
        self.pages.check(self.key, self.now)

    def remember(self) -> None:
        """Remember that it is too costly."""
        self.pages.remember(self.key, self.now + REMEMBERED_S)
