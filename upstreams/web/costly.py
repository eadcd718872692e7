"""Remembers pages that recently exceeded a limit, so that no caller pays for them and no worker reads them again.

A page is remembered for exactly the request that exceeded the limit: its address, its endpoint, and all values that
change how it is read. One caller's selectors therefore never make a page unreadable for another caller. If a page
redirects, the requested address is remembered, because that address determines where the redirect leads.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from upstreams.model.errors import PAGE_TOO_COSTLY, NotFound
from upstreams.model.params import Args, Value

REMEMBERED_S: Final = 600.0
PAGES_MAX: Final = 1_000
_IGNORED_PARAMS: Final = frozenset(("max_age", "fresh", "proxy"))
"""Parameters that do not change how a page is read."""
_Key = tuple[str, frozenset[tuple[str, Value]]]


class CostlyPages:
    """The pages that this node remembers as costly. Its methods never wait, so concurrent reads need no lock."""

    def __init__(self) -> None:
        self._until: OrderedDict[_Key, float] = OrderedDict()

    def page_of(self, endpoint: str, args: Args) -> RequestedPage:
        """Return the page that a request asks for, after checking that it is not costly.

        Raises:
            NotFound: The page was too costly recently. This answer is free.
        """
        values = frozenset((name, value) for name, value in args.values.items() if name not in _IGNORED_PARAMS)
        page = RequestedPage(self, (endpoint, values), args.now_at)
        page.check()
        return page

    def check(self, key: _Key, now: float) -> None:
        """Reject a page that is remembered as costly.

        Raises:
            NotFound: The page is remembered.
        """
        if self._until.get(key, now) > now:
            raise NotFound(PAGE_TOO_COSTLY, reason="page_too_costly")

    def remember(self, key: _Key, until: float) -> None:
        """Remember a page. If too many pages are remembered, drop the one that was added first."""
        self._until[key] = until
        self._until.move_to_end(key)
        if len(self._until) > PAGES_MAX:
            self._until.popitem(last=False)


class RequestedPage(NamedTuple):
    """The page that one request asks for."""

    pages: CostlyPages
    key: _Key
    now: float

    def check(self) -> None:
        """Reject the page if another request with the same values has found it too costly in the meantime.

        Raises:
            NotFound: The page was found too costly.
        """
        self.pages.check(self.key, self.now)

    def remember(self) -> None:
        """Remember that the page is too costly."""
        self.pages.remember(self.key, self.now + REMEMBERED_S)
