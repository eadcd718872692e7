"""A page to render, and the rendered page. These types are also needed by nodes without a browser."""

from __future__ import annotations

from typing import Final

import msgspec

SOURCE: Final = "browser"
RENDER_S: Final = 30.0
"""The maximum time for a page, in seconds."""


class RenderWanted(msgspec.Struct, frozen=True):
    """A fetched document, how to render it, and the account that requested it."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    wait_ms: int = 0
    selector: str = ""
    mobile: bool = False
    picture: str = ""
    """`window` or `page`, if a screenshot is requested."""
    account_id: str = ""


class RenderedPage(msgspec.Struct, frozen=True):
    """A rendered page, or the `problem` with it. `reason` is set if the page or an element was not found."""

    url: str = ""
    status: int = 0
    html: str = ""
    picture: str = ""
    """A data address that contains the picture."""
    problem: str = ""
    reason: str = ""
    is_absent: bool = False
    is_costly: bool = False
    """Whether the page itself used up its time or memory."""
    is_over_bounds: bool = False
    """Whether the page reached the limit for all pages, and not only the shorter time that its caller allowed."""
    refused_selector: str = ""
    """The selector that the browser cannot parse."""
