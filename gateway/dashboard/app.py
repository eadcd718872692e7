"""The Quart app of the dashboard: admits a request, calls its page's handler, and converts the result to a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import trio
from quart import Response, g, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from gateway.dashboard.address import PREFIX
from gateway.dashboard.doors import SESSION, Door, door_of, has_token, is_own_form
from gateway.dashboard.frame import PIECES, Frame, ObjectMissing, here
from gateway.dashboard.pages.account import AccountPages
from gateway.dashboard.pages.billing import BillingPages
from gateway.dashboard.pages.cohorts import CohortPages
from gateway.dashboard.pages.discover.runs import RunPages
from gateway.dashboard.pages.discover.schedules import SchedulePages
from gateway.dashboard.pages.events import EventPages
from gateway.dashboard.pages.jobs import JobPages
from gateway.dashboard.pages.keys import KeyPages
from gateway.dashboard.pages.money import MoneyPages
from gateway.dashboard.pages.monitors import MonitorPages
from gateway.dashboard.pages.playground import PlaygroundPages
from gateway.dashboard.pages.signing import OPEN_PAGES, SigningPages
from gateway.dashboard.pages.webhooks import WebhookPages
from gateway.dashboard.services import Services
from gateway.http.request import Reply, Request
from gateway.server.http1.fields import fields_of
from limits.errors import LongReadsReached
from storage.errors import StorageError

_APART: Final = (b"content-length", b"content-type")


class DashboardApp:
    """Serves the dashboard's pages."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._frame = Frame(services)
        self._app = self._routed()

    async def answer(self, incoming: Request, body: bytes) -> Reply:
        """Return the page, or a redirect."""
        sent: list[Any] = []
        bodies = [body]

        async def receive() -> Any:
            if not bodies:
                await trio.sleep_forever()  # The body is complete, and no page waits for a disconnect.
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            sent.append(message)

        scope = _scope(incoming)
        await self._app(scope, receive, send)
        return _reply(sent, scope.get(PIECES))

    def _routed(self) -> QuartTrio:
        app = QuartTrio("dashboard", static_folder=None)
        app.url_map.strict_slashes = True
        app.url_map.merge_slashes = False
        app.before_request(self._enter)
        app.register_error_handler(ObjectMissing, self._missing)
        app.register_error_handler(HTTPException, self._refused)
        app.register_error_handler(StorageError, self._store_away)
        app.register_error_handler(LongReadsReached, self._busy)
        app.register_error_handler(Exception, self._failed)
        for pages in (
            SigningPages,
            AccountPages,
            KeyPages,
            MoneyPages,
            BillingPages,
            MonitorPages,
            PlaygroundPages,
            EventPages,
            WebhookPages,
            JobPages,
            RunPages,
            SchedulePages,
            CohortPages,
        ):
            pages(self._services, self._frame).add_to(app)
        return app

    async def _enter(self) -> Response | None:
        """Check the host, connection, form and session of a request.

        Return the response that refuses it, or None if it is admitted.
        """
        incoming: Request = request.scope["sluice.request"]  # type: ignore[typeddict-item] # put there by `_scope`
        services = self._services
        g.incoming = incoming
        base_url = services.proxies.base_url(incoming.client, incoming.headers, services.base_url)
        host = incoming.headers.get(b"host", b"").decode("latin-1")
        door = g.door = door_of(host, base_url, services.base_url)
        g.token = request.cookies.get(door.cookie(SESSION), "")
        g.signed_in = await services.sessions.find(g.token) if g.token else None
        if not door.is_known:
            return await self._frame.message(421, "Another address", _OTHER_HOST)
        if not door.is_open:
            return await self._frame.message(403, "Insecure connection", _INSECURE)
        if request.method == "POST" and not await self._is_own_form(door, host):
            return await self._frame.message(403, "This form has expired", _OLD_FORM)
        return self._to_sign_in()

    async def _is_own_form(self, door: Door, host: str) -> bool:
        form = await request.form
        return is_own_form(g.incoming.headers, door, host) and has_token(
            self._frame.binding(), form.get("form_token", "")
        )

    def _to_sign_in(self) -> Response | None:
        signed_in = g.signed_in
        if request.endpoint in OPEN_PAGES or (signed_in is not None and signed_in.session.stage == "full"):
            return None
        if signed_in is not None:
            return self._frame.to_page(f"{PREFIX}/code")
        return self._frame.to_page(f"{PREFIX}/sign-in", next=here() if request.method == "GET" else "")

    async def _missing(self, _error: Exception) -> Response:
        return await self._frame.message(404, "Not found", _ABSENT)

    async def _refused(self, error: HTTPException) -> Response:
        if error.code == 404:
            return await self._missing(error)
        if error.code is not None and error.code < 400:
            return self._frame.to_page(PREFIX)
        return await self._frame.message(error.code or 400, error.name, error.description or "")

    async def _store_away(self, error: Exception) -> Response:
        self._services.log.failure("page_failed", error, path=request.path)
        return await self._frame.message(503, "Just a moment", _STORE_UNAVAILABLE)

    async def _busy(self, _error: Exception) -> Response:
        return await self._frame.message(429, "Just a moment", _BUSY)

    async def _failed(self, error: Exception) -> Response:
        self._services.log.failure("page_failed", error, path=request.path)
        return await self._frame.message(500, "Something went wrong", _FAILED)


_OTHER_HOST: Final = (
    "This is not an address of this node. Open the dashboard at the address in server.base_url, or at localhost."
)
_INSECURE: Final = (
    "The dashboard requires https, or a browser on this machine. Set server.base_url to the proxy's https URL."
)
_OLD_FORM: Final = "Nothing was changed. The form has expired: open its page again and repeat the change."
_ABSENT: Final = "This page does not exist, or belongs to another account."
_BUSY: Final = "Several long pages of this account are being built. Try again in a moment."
_STORE_UNAVAILABLE: Final = "The store is unavailable at the moment. No data was lost. Try again in a moment."
_FAILED: Final = "The error was logged for the operator. You were not charged for this page."


def _scope(incoming: Request) -> Any:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if incoming.method == "HEAD" else incoming.method,
        "scheme": "http",
        "root_path": "",
        "path": incoming.path,
        "raw_path": incoming.path.encode(),
        "query_string": incoming.query_string,
        "headers": [*incoming.headers.items()],
        "client": None,
        "server": None,
        "extensions": {},
        "sluice.request": incoming,
    }


def _reply(sent: list[Any], pieces: AsyncIterator[bytes] | None) -> Reply:
    """Convert the ASGI messages of a response to a reply. `pieces` is a body that is produced while it is sent."""
    headers = [(name.lower(), value) for name, value in sent[0]["headers"]]
    content_type = next((value for name, value in headers if name == b"content-type"), b"text/html; charset=utf-8")
    body = b"".join(message.get("body", b"") for message in sent[1:])
    others = [(name, value) for name, value in headers if name not in _APART]
    fields = fields_of([*others, (b"cache-control", b"no-store")])
    status: int = sent[0]["status"]
    return Reply(
        status, body, fields, code="OK" if status < 400 else "PAGE_REFUSED", content_type=content_type, pieces=pieces
    )
