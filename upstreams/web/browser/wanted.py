"""A page to render, and the rendered page: the types that a node without a browser needs too."""

from __future__ import annotations

from typing import Final

import msgspec

SOURCE: Final = "browser"
RENDER_S: Final = 30.0
"""The maximum seconds of a page."""


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
    """A rendered page, or the `problem` with it. `reason` is set if the page or an element does not exist."""

    url: str = ""
    status: int = 0
    html: str = ""
    picture: str = ""
    """A data address that contains the picture."""
    problem: str = ""
    reason: str = ""
    is_absent: bool = False
    is_costly: bool = False
    """Whether the page itself used up the time or the memory of a page."""
    is_over_bounds: bool = False
    """Whether it used the maximum of any page, however little time its caller allowed."""
    refused_selector: str = ""
    """The selector that the browser cannot read."""
