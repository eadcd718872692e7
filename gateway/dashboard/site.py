"""The dashboard as the API's entry point uses it. The first request loads its other modules, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gateway.dashboard.address import PREFIX
from gateway.http.conditional import tag_of, tagged
from gateway.http.request import Reply, Request
from gateway.server.errors import BodyTooLong
from gateway.server.http1.fields import fields_of, joined
from gateway.server.http1.whole_body import read_body

if TYPE_CHECKING:
    from gateway.dashboard.app import DashboardApp
    from gateway.dashboard.services import Services

BODY_BYTES_MAX: Final = 262_144
_HERE: Final = Path(__file__).parent
_FILES: Final = {
    f"{PREFIX}/style.css": ("style.css", b"text/css; charset=utf-8"),
    f"{PREFIX}/page.js": ("page.js", b"text/javascript; charset=utf-8"),
}
GUARDED: Final = fields_of(
    [
        (
            b"content-security-policy",
            b"default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self'; "
            b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
)
_TEXT: Final = b"text/plain; charset=utf-8"


class Dashboard:
    """Serves everything under `/dashboard`."""

    def __init__(self, make_services: Callable[[], Services]) -> None:
        """`make_services` is called once, for the first page."""
        self._make_services = make_services
        self._app: DashboardApp | None = None
        self._loading = trio.Lock()

    @staticmethod
    def covers(path: str) -> bool:
        """Return whether a path belongs to the dashboard."""
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    async def answer(self, request: Request) -> Reply:
        """Return a page, a file, a redirect or a refusal. Its headers forbid browsers to show it in a frame."""
        if request.path in _FILES and request.method in ("GET", "HEAD"):
            name, content_type = _FILES[request.path]
            body = await trio.Path(_HERE / name).read_bytes()
            reply = Reply(200, body, content_type=content_type)
            reply = tagged(request, reply, tag_of(body), caching=b"private, max-age=300")
        else:
            reply = await self._page(request)
        return replace(reply, headers=joined(reply.headers, GUARDED))

    async def _page(self, request: Request) -> Reply:
        try:
            has_none = request.method in ("GET", "HEAD")
            body = b"" if has_none else await read_body(request.receive, bytes_max=BODY_BYTES_MAX)
        except BodyTooLong:
            return Reply(413, b"The form is too long.\n", code="PAYLOAD_TOO_LARGE", content_type=_TEXT)
        return await (await self._loaded()).answer(request, body)

    async def _loaded(self) -> DashboardApp:
        async with self._loading:
            if self._app is None:
                self._app = await trio.to_thread.run_sync(_load, self._make_services)
            return self._app


def _load(make_services: Callable[[], Services]) -> DashboardApp:
    from gateway.dashboard.app import DashboardApp  # noqa: PLC0415 - Quart and the rest take 0.3 s

    return DashboardApp(make_services())
