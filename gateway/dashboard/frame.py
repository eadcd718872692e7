"""The frame of every page: its template, menu and notices, the session's cookie, and ways on."""

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
"""Where in its scope a page leaves the pieces of a long download."""
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
    "revoked": "The key is revoked: its next call is refused.",
    "limit": "The limit counts from the key's next call.",
    "reset": "The key's usage is counted from 0 again.",
    "password": "The password is changed. All other sessions were signed out.",
    "factor_off": "The second factor is off.",
    "signed_out": "You are signed out.",
    "session_ended": "The session is signed out.",
    "sessions_ended": "All other sessions are signed out.",
    "monitor_paused": "The Monitor is paused.",
    "monitor_active": "The Monitor is active.",
    "monitor_deleted": "The Monitor is deleted.",
    "monitor_saved": "The Monitor is saved.",
    "alerts_saved": "The alerts are saved, and judged from the next run on.",
    "run_begun": "A run has begun. Reload this page in a moment to see how it ends.",
    "redelivered": "The delivery is queued again.",
    "job_paused": "The job is paused.",
    "job_running": "The job goes on.",
    "job_cancelled": "The job is cancelled; what it held goes back.",
    "webhook_saved": "The webhook is saved, and takes events.",
    "webhook_tested": "A test is queued. Reload this page in a moment to see what your receiver answered.",
    "webhook_deleted": "The webhook is deleted: nothing is delivered to it any more.",
    "run_paused": "The run is paused; what it held goes back.",
    "run_running": "The run goes on.",
    "run_changed": "The run may cost as much from now on.",
    "run_cancelled": "The run is cancelled; its rows stay, and what it held goes back.",
    "schedule_paused": "The schedule is paused.",
    "schedule_active": "The schedule is active.",
    "schedule_saved": "The schedule is saved.",
    "schedule_deleted": "The schedule is deleted; its runs stay.",
    "cohort_deleted": "The cohort is deleted, and its key destroyed: nobody opens what it sealed.",
    "query_cancelled": "The query is cancelled; what it held goes back.",
    "resumed": "The webhook takes deliveries again.",
}
"""The notices of deeds, by the names that an address may carry: none says anything in words of its own."""

_PARTS_OF_A_PAGE: Final = {"monitors": 4, "webhooks": 4, "discover": 5, "cohorts": 4}
"""How many parts the path of an object's own page has, where it has one."""


class ObjectMissing(Exception):
    """There is no such object, or it is another account's: both are told alike."""


class Frame:
    """Renders templates."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._templates = load_templates()

    def binding(self) -> str:
        """The secret of the cookie that the forms of this request belong to; empty where it has none."""
        if g.signed_in is not None:
            return str(g.token)
        return str(request.cookies.get(g.door.cookie(FORM), ""))

    async def shown(self, template: str, title: str, *, status: int = 200, **values: Any) -> Response:
        """A page."""
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
        """A page that says one thing."""
        return await self.shown("told.html", title, status=status, text=text)

    @staticmethod
    def to_page(path: str, **query: str) -> Response:
        """The way on to a page of ours, read anew."""
        sent = {name: value for name, value in query.items() if value}
        return Response("", 303, {"location": f"{path}?{urlencode(sent)}" if sent else path})

    def begin_session(self, response: Response, token: str) -> Response:
        """The answer with the session's cookie; the one that bound forms before is gone."""
        self._set_cookie(response, SESSION, token)
        self._end_cookie(response, FORM)
        return response

    def end_session(self, response: Response) -> Response:
        """The answer that ends the session's cookie."""
        self._end_cookie(response, SESSION)
        return response

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        name, is_secure = g.door.cookie(name), g.door.is_secure
        response.set_cookie(name, value, path="/", secure=is_secure, httponly=True, samesite="Lax")

    def _end_cookie(self, response: Response, name: str) -> None:
        response.delete_cookie(g.door.cookie(name), path="/", secure=g.door.is_secure, httponly=True, samesite="Lax")

    def fresh(self) -> Response | None:
        """None where the password was shown lately; else the way to the page that asks for it, and then back here."""
        if signed_in().is_fresh(self._services.now()):
            return None
        back = here() if request.method == "GET" else _page_of(request.path)
        return self.to_page(f"{PREFIX}/confirm", next=back)

    def visitor(self) -> Visitor:
        """The address and the browser of a request, its proxies' words believed where they are trusted."""
        address = self._services.proxies.client(g.incoming.client, g.incoming.headers) or ""
        return Visitor(address, request.headers.get("user-agent", ""))


def signed_in() -> SignedIn:
    """The session of a page that only users open."""
    found = g.signed_in
    assert isinstance(found, SignedIn), "the app lets nobody else in"
    return found


def account_id() -> str:
    """The account whose pages these are."""
    return signed_in().user.account_id


def here() -> str:
    """The path of this page with its query."""
    query = request.query_string.decode("ascii", "replace")
    return f"{request.path}?{query}" if query else request.path


def _page_of(path: str) -> str:
    """The page that the form of a deed stands on: that of its object, else the list that its objects are of."""
    parts = path.split("/")
    return "/".join(parts[: _PARTS_OF_A_PAGE.get(parts[2], 3)])
