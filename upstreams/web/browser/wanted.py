"""A page to be rendered, and the page that comes of it: all that a node without a browser needs to know of one."""

from __future__ import annotations

from typing import Final

import msgspec

SOURCE: Final = "browser"
RENDER_S: Final = 30.0
"""The longest that a page may take."""


class RenderWanted(msgspec.Struct, frozen=True):
    """A document that was fetched, and how it is to be rendered, for an account."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    wait_ms: int = 0
    selector: str = ""
    mobile: bool = False
    picture: str = ""
    """`window` or `page`, where one is wanted."""
    account_id: str = ""


class RenderedPage(msgspec.Struct, frozen=True):
    """A page as it was rendered, or the `problem` with it; `reason` where there is no such thing."""

    url: str = ""
    status: int = 0
    html: str = ""
    picture: str = ""
    """An address with the picture in it."""
    problem: str = ""
    reason: str = ""
    is_absent: bool = False
    is_costly: bool = False
    """Whether the page itself used up the time or the memory of a page."""
    is_over_bounds: bool = False
    """Whether it used all that any page may use, however little time its caller gave it."""
    refused_selector: str = ""
    """The selector that the browser cannot read."""
