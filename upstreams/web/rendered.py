"""The step of a read in which the browser renders a document: when the step is needed, its call, and its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import orjson

from upstreams.model.errors import InvalidArgument, NotFound, PageTooCostly, UpstreamFailed
from upstreams.model.params import Args, Value
from upstreams.model.steps import Call, Form, Wanted
from upstreams.web.browser.wanted import RenderedPage, RenderWanted
from upstreams.web.params import PICTURE
from upstreams.web.visiting import Visited

_HTML: Final = {"content-type": "text/html; charset=utf-8"}


def _read_rendered(raw: bytes, _content_type: str) -> RenderedPage:
    return msgspec.msgpack.decode(raw, type=RenderedPage)


_RENDERED: Final = Form("application/msgpack", _read_rendered, follows=False)


def is_rendered(values: Mapping[str, Value]) -> bool:
    """Return whether a request requires the browser."""
    formats = str(values.get("formats", "")).lower().split(",")
    return (
        str(values.get("wait_for", "0")) != "0"
        or bool(values.get("mobile") or values.get("screenshot_full_page"))
        or PICTURE in map(str.strip, formats)
    )


def render(
    visited: Visited, args: Args, on_costly: Callable[[], None] = lambda: None
) -> Generator[Wanted, Any, tuple[Visited, str | None]]:
    """Return the document after its scripts have run, and the address of its screenshot if the caller requests one.

    `on_costly` is called if the page reached the limit for all pages.

    Raises:
        InvalidArgument: The browser cannot parse the selector in `wait_for`.
        PageTooCostly: The page exceeded the time or memory limit.
        NotFound: No element matched in time, or the screenshot is too large.
        UpstreamFailed: The page cannot be shown.
    """
    answer = yield _render_call(visited, args)
    rendered: RenderedPage = answer.body
    if rendered.refused_selector:
        problem = f"must be milliseconds or a CSS selector; the browser cannot read {rendered.refused_selector[:60]}"
        raise InvalidArgument("wait_for", problem)
    if rendered.is_over_bounds:
        on_costly()
    if rendered.is_costly:
        raise PageTooCostly(rendered.problem)
    if rendered.is_absent:
        raise NotFound(rendered.problem, reason=rendered.reason or None)
    if rendered.problem:
        raise UpstreamFailed("page", rendered.problem)
    raw = rendered.html.encode("utf-8", "replace")
    shown = visited.answer._replace(status=rendered.status, headers=_HTML, raw=raw, body=None)
    return replace(visited, url=rendered.url, answer=shown), rendered.picture or None


def _render_call(visited: Visited, args: Args) -> Call:
    values = args.values
    wait_for = str(values.get("wait_for", "0"))
    whole = bool(values.get("screenshot_full_page"))
    has_picture = whole or PICTURE in map(str.strip, str(values.get("formats", "")).lower().split(","))
    wanted = RenderWanted(
        url=visited.url,
        status=visited.answer.status,
        headers=dict(visited.answer.headers),
        body=visited.answer.raw,
        wait_ms=int(wait_for) if wait_for.isdigit() else 0,
        selector="" if wait_for.isdigit() else wait_for,
        mobile=bool(values.get("mobile")),
        picture=("page" if whole else "window") if has_picture else "",
        account_id=args.account_id,
    )
    body = orjson.Fragment(msgspec.msgpack.encode(wanted))  # a body in bytes is sent unchanged
    return Call("/render", source="browser", method="POST", json=body, accepts=_RENDERED)
