"""The frame of every page: template, menu, notices, session cookie and redirects."""

from __future__ import annotations

import secrets
from typing import Any, Final
from urllib.parse import urlencode

import trio
from quart import Response, g, request

from billing.users.sessions import SignedIn, Visitor
from gateway.dashboard.address import PREFIX
from gateway.dashboard.doors import FORM, SESSION, form_token
from gateway.dashboard.services import Services
from gateway.dashboard.templating import load_templates

PIECES: Final = "sluice.pieces"
"""The key in the ASGI scope under which a page stores the pieces of a long download."""
MENU: Final = (
    ("", "Overview"),
    ("/keys", "Keys"),
    ("/playground", "Playground"),
    ("/monitors", "Monitors"),
    ("/jobs", "Jobs"),
    ("/discover", "Discover"),
    ("/cohorts", "Cohorts"),
    ("/usage", "Usage"),
    ("/transactions", "Transactions"),
    ("/billing", "Billing"),
    ("/events", "Events"),
    ("/webhooks", "Webhooks"),
    ("/account", "Account"),
)
NOTICES: Final = {
    "revoked": "The key was revoked. Its next call will be refused.",
    "limit": "The new limit applies from the key's next call.",
    "reset": "The key's usage was reset to 0.",
    "password": "The password was changed. All other sessions were signed out.",
    "factor_off": "The second factor is off.",
    "signed_out": "You are signed out.",
    "session_ended": "The session was signed out.",
    "sessions_ended": "All other sessions were signed out.",
    "monitor_paused": "The Monitor is paused.",
    "monitor_active": "The Monitor is active.",
    "monitor_deleted": "The Monitor was deleted.",
    "monitor_saved": "The Monitor was saved.",
    "alerts_saved": "The alerts were saved. They apply from the next run.",
    "run_begun": "A run has started. Reload this page in a moment to see the result.",
    "redelivered": "The delivery is queued again.",
    "job_paused": "The job is paused.",
    "job_running": "The job was resumed.",
    "job_cancelled": "The job was cancelled. Its unused credits were refunded.",
    "webhook_saved": "The webhook was saved and receives events.",
    "webhook_tested": "A test is queued. Reload this page in a moment to see your receiver's response.",
    "webhook_deleted": "The webhook was deleted. It receives no more deliveries.",
    "run_paused": "The run is paused. Its unused credits were refunded.",
    "run_running": "The run was resumed.",
    "run_changed": "The maximum cost of the run was raised.",
    "run_cancelled": "The run was cancelled. Its rows stay, and its unused credits were refunded.",
    "schedule_paused": "The schedule is paused.",
    "schedule_active": "The schedule is active.",
    "schedule_saved": "The schedule was saved.",
    "schedule_deleted": "The schedule was deleted. Its runs stay.",
    "cohort_deleted": "The cohort was deleted and its key destroyed. Its data can no longer be decrypted.",
    "query_cancelled": "The query was cancelled. Its unused credits were refunded.",
    "resumed": "The webhook receives deliveries again.",
}
"""The notices after an action, by the name in the URL. A URL can select a notice, but cannot supply its text."""

_PARTS_OF_A_PAGE: Final = {"monitors": 4, "webhooks": 4, "discover": 5, "cohorts": 4}
"""The number of path segments in the URL of an object's own page, for the kinds that have such a page."""


class ObjectMissing(Exception):
    """The object does not exist, or belongs to another account. Both cases return the same error."""


class Frame:
    """Renders templates."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._templates = load_templates()

    def binding(self) -> str:
        """Return the cookie secret that this request's forms are bound to, or an empty string without a cookie."""
        if g.signed_in is not None:
            return str(g.token)
        return str(request.cookies.get(g.door.cookie(FORM), ""))

    async def shown(self, template: str, title: str, *, status: int = 200, **values: Any) -> Response:
        """Render a page."""
        binding = self.binding()
        new_binding = "" if binding else secrets.token_urlsafe(32)
        common = {
            "title": title,
            "path": request.path,
            "twin": None,
            "menu": [(f"{PREFIX}{place}", name) for place, name in MENU],
            "signed_in": g.signed_in,
            "form_token": form_token(binding or new_binding),
            "notice": NOTICES.get(request.args.get("done", ""), ""),
            "error": "",
            "errors": {},
            **values,
        }
        text = await trio.to_thread.run_sync(lambda: self._templates.get_template(template).render(common))
        response = Response(text, status, content_type="text/html; charset=utf-8")
        if new_binding:
            self._set_cookie(response, FORM, new_binding)
        return response

    async def message(self, status: int, title: str, text: str) -> Response:
        """Render a page with one message."""
        return await self.shown("message.html", title, status=status, text=text)

    @staticmethod
    def to_page(path: str, **query: str) -> Response:
        """Redirect to a page of the dashboard with a GET, so that reloading it does not repeat the action."""
        sent = {name: value for name, value in query.items() if value}
        return Response("", 303, {"location": f"{path}?{urlencode(sent)}" if sent else path})

    def begin_session(self, response: Response, token: str) -> Response:
        """Set the session's cookie in the response, and remove the cookie that bound forms before the sign-in."""
        self._set_cookie(response, SESSION, token)
        self._end_cookie(response, FORM)
        return response

    def end_session(self, response: Response) -> Response:
        """Remove the session's cookie in the response."""
        self._end_cookie(response, SESSION)
        return response

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        name, is_secure = g.door.cookie(name), g.door.is_secure
        response.set_cookie(name, value, path="/", secure=is_secure, httponly=True, samesite="Lax")

    def _end_cookie(self, response: Response, name: str) -> None:
        response.delete_cookie(g.door.cookie(name), path="/", secure=g.door.is_secure, httponly=True, samesite="Lax")

    def fresh(self) -> Response | None:
        """Return None if the user entered the password recently, otherwise a redirect to enter it again."""
        if signed_in().is_fresh(self._services.now()):
            return None
        back = here() if request.method == "GET" else _page_of(request.path)
        return self.to_page(f"{PREFIX}/confirm", next=back)

    def visitor(self) -> Visitor:
        """Return the client's address and browser. The address may come from headers of trusted proxies."""
        address = self._services.proxies.client(g.incoming.client, g.incoming.headers) or ""
        return Visitor(address, request.headers.get("user-agent", ""))


def signed_in() -> SignedIn:
    """Return the session of a page that requires sign-in."""
    found = g.signed_in
    assert isinstance(found, SignedIn), "the app admits only signed-in users"
    return found


def account_id() -> str:
    """Return the account that owns the pages."""
    return signed_in().user.account_id


def here() -> str:
    """Return the path of this page with its query."""
    query = request.query_string.decode("ascii", "replace")
    return f"{request.path}?{query}" if query else request.path


def _page_of(path: str) -> str:
    """Return the page that contains an action's form: the object's own page, or the list of objects of its kind."""
    parts = path.split("/")
    return "/".join(parts[: _PARTS_OF_A_PAGE.get(parts[2], 3)])
