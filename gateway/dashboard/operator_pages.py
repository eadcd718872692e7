"""The operator's pages on the admin address: accounts, users and platforms, with the same operations as the CLI.

A sign-in with the admin token lasts an hour. Actions on the pages work like commands, including on a supervisor.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode

import orjson
import trio

from gateway.admin.app import Operate, PageAnswer
from gateway.observability.metrics import WAIT_S_MAX

if TYPE_CHECKING:
    from jinja2 import Environment

HOME: Final = "/admin"
PAGES: Final = "/admin/pages"
COOKIE: Final = "sluice-operator"
SESSION_S: Final = 3_600.0
SESSIONS_MAX: Final = 64
LIST: Final = 50
SLOWEST: Final = 10
COST_DAYS: Final = 30
_HERE: Final = Path(__file__).parent
_DOCS: Final = _HERE.parent / "docs" / "pages"
_STYLES: Final = (_DOCS / "style.css", _HERE / "style.css")
_FONT: Final = _DOCS / "inter-v20.woff2"
_GUARDED: Final = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
FORM_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "account.create": ("name", "credits"),
    "account.plan": ("account", "plan"),
    "account.suspend": ("account",),
    "account.resume": ("account",),
    "account.unmark": ("account",),
    "credits.grant": ("account", "amount"),
    "key.revoke": ("key",),
    "user.invite": ("account", "email"),
    "user.reset": ("user",),
    "user.signout": ("user",),
    "user.delete": ("user",),
    "platform.isolate": ("platform",),
    "platform.reset": ("platform",),
    "supplier.reset": ("supplier",),
}
"""The operations that the pages can run, with their arguments."""
_NUMBERS: Final = frozenset({"credits", "amount"})
_REPEATABLE: Final = ("user.", "platform.", "supplier.")


class _OperationFailed(Exception):
    """An operation failed. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a request that the pages use."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    session: str


@dataclass(slots=True)
class OperatorPages:
    """Serves paths under `/admin` that are not operations."""

    token: str = field(repr=False)
    operate: Operate
    _sessions: dict[str, float] = field(default_factory=dict)
    _templates: Environment | None = None

    @staticmethod
    def covers(path: str) -> bool:
        """Return whether a path belongs to a page."""
        return path in (HOME, f"{HOME}/", PAGES) or path.startswith(f"{PAGES}/")

    async def answer(
        self, method: str, path: str, query: str, headers: Mapping[bytes, bytes], body: bytes
    ) -> PageAnswer:
        """Return a page, or the result of a submitted form."""
        if path == f"{PAGES}/style.css":
            styles = [await trio.Path(file).read_bytes() for file in _STYLES]
            style = b"".join(styles).replace(f'url("/{_FONT.name}")'.encode(), f'url("{PAGES}/{_FONT.name}")'.encode())
            return _page(200, style, content_type=b"text/css; charset=utf-8")
        if path == f"{PAGES}/{_FONT.name}":
            return _page(200, await trio.Path(_FONT).read_bytes(), content_type=b"font/woff2")
        incoming = PageRequest(
            method, path, _fields(query), _fields(body.decode("utf-8", "replace")), _session_of(headers)
        )
        if not self._is_known(incoming.session):
            return await self._sign_in(incoming)
        from gateway.dashboard.doors import has_token  # noqa: PLC0415 - loaded with the first page

        if method == "POST" and not has_token(incoming.session, incoming.form.get("form_token", "")):
            return await self._refused(incoming, 403, "This form has expired. Open the page again.")
        try:
            return await self._run_form(incoming) if method == "POST" else await self._read(incoming)
        except _OperationFailed as exc:
            return await self._refused(incoming, 400, str(exc))

    async def _sign_in(self, incoming: PageRequest) -> PageAnswer:
        """Show the sign-in form, or start a session if the submitted token is correct."""
        presented = incoming.form.get("token", "").strip()
        if incoming.method != "POST" or not presented:
            return await self._shown("operator_sign_in.html", incoming, error="")
        if not hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), self.token.encode()):
            return await self._shown(
                "operator_sign_in.html", incoming, status=401, error="This is not the admin token."
            )
        session = secrets.token_urlsafe(32)
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = trio.current_time() + SESSION_S
        cookie = f"{COOKIE}={session}; Path={HOME}; HttpOnly; SameSite=Strict; Max-Age={SESSION_S:.0f}".encode()
        return _redirect(HOME, (b"set-cookie", cookie))

    def _is_known(self, session: str) -> bool:
        until = self._sessions.get(session)
        return until is not None and trio.current_time() < until

    async def _read(self, incoming: PageRequest) -> PageAnswer:
        if incoming.path == f"{PAGES}/account":
            return await self._account(incoming)
        if incoming.path == f"{PAGES}/platforms":
            return await self._platforms(incoming)
        if incoming.path not in (HOME, f"{HOME}/"):
            return await self._refused(incoming, 404, "Page not found.")
        after = incoming.query.get("after", "")
        accounts = await self._do("account.list", {"limit": LIST, **({"after": after} if after else {})})
        return await self._shown(
            "operator_accounts.html",
            incoming,
            accounts=accounts,
            more=accounts[-1]["id"] if len(accounts) == LIST else "",
        )

    async def _platforms(self, incoming: PageRequest) -> PageAnswer:
        platforms = await self._do("platform.list", {})
        waited = [one for one in platforms if one["waits"]["requests"]]
        slowest = sorted(waited, key=lambda one: one["waits"]["p95_s"] or math.inf, reverse=True)[:SLOWEST]
        suppliers = await self._do("supplier.list", {})
        return await self._shown(
            "operator_platforms.html",
            incoming,
            platforms=platforms,
            slowest=slowest,
            wait_max_s=WAIT_S_MAX,
            suppliers=suppliers,
            costs=await self._do("supplier.costs", {"days": COST_DAYS}) if suppliers else [],
            alerts=await self._do("supplier.alerts", {}) if suppliers else [],
        )

    async def _account(self, incoming: PageRequest, link: Mapping[str, Any] | None = None) -> PageAnswer:
        id_ = incoming.query.get("id", "") or incoming.form.get("account", "")
        account = await self._do("account.show", {"account": id_})
        is_gone = account["state"] in ("deleting", "deleted")
        return await self._shown(
            "operator_account.html",
            incoming,
            account=account,
            users=[] if is_gone else await self._do("user.list", {"account": id_}),
            keys=await self._do("key.list", {"account": id_, "limit": 100}),
            lines=await self._do("account.transactions", {"account": id_, "limit": 20}),
            link=link or {},
        )

    async def _run_form(self, incoming: PageRequest) -> PageAnswer:
        """Run an operation and return to the page of its form. A new one-time link is shown immediately."""
        name = incoming.form.get("operation", "")
        if name == "sign-out":
            self._sessions.pop(incoming.session, None)
            return _redirect(HOME)
        if name not in FORM_OPERATIONS:
            raise _OperationFailed("this operation is not available on the pages")
        result = await self._do(name, _arguments(name, incoming.form))
        if name in ("user.invite", "user.reset"):
            return await self._account(incoming, link=result)
        back = incoming.form.get("back", "")
        return _redirect(
            f"{PAGES}/account?{urlencode({'id': result['id']})}" if name == "account.create" else _back(back)
        )

    async def _do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run an operation and return its result. Raises _OperationFailed."""
        answer = await self.operate(name, orjson.dumps(arguments))
        result = orjson.loads(answer.body)
        if answer.status != 200:
            raise _OperationFailed(str(result.get("error", "the operation failed")))
        return result

    async def _refused(self, incoming: PageRequest, status: int, text: str) -> PageAnswer:
        return await self._shown("operator_message.html", incoming, status=status, text=text)

    async def _shown(self, template: str, incoming: PageRequest, *, status: int = 200, **values: Any) -> PageAnswer:
        if self._templates is None:
            self._templates = await trio.to_thread.run_sync(_load_templates)
        from gateway.dashboard.doors import form_token  # noqa: PLC0415 - see above

        environment, is_known = self._templates, self._is_known(incoming.session)
        common = {
            "is_known": is_known,
            "form_token": form_token(incoming.session) if is_known else "",
            "nonce": secrets.token_hex(16),
            "path": incoming.path,
            **values,
        }
        text = await trio.to_thread.run_sync(lambda: environment.get_template(template).render(common))
        return _page(status, text.encode())


def _load_templates() -> Environment:
    from gateway.dashboard.templating import load_templates  # noqa: PLC0415 - Jinja is loaded with the first page

    return load_templates()


def _arguments(name: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Read an operation's arguments from the form fields that are not empty. Raises _OperationFailed."""
    arguments: dict[str, Any] = {}
    for field_name in FORM_OPERATIONS[name]:
        text = form.get(field_name, "").strip()
        if text and field_name in _NUMBERS:
            if not text.isascii() or not text.isdigit() or len(text) > 15:
                raise _OperationFailed(f"{field_name} must be a whole number")
            arguments[field_name] = int(text)
        elif text:
            arguments[field_name] = text
    nonce = form.get("nonce", "")
    if not name.startswith(_REPEATABLE) and len(nonce) == 32 and nonce.isalnum():
        arguments["operation_id"] = f"page_{nonce}"
    return arguments


def _back(path: str) -> str:
    """Return the page that contained the form, or the first page if the path is not a page."""
    return path if path.startswith((f"{PAGES}/account?id=", f"{PAGES}/platforms")) and path.isprintable() else HOME


def _fields(text: str) -> dict[str, str]:
    try:
        return {name: values[0] for name, values in parse_qs(text, max_num_fields=50).items()}
    except ValueError:
        return {}


def _session_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the value of the session cookie; empty if there is none."""
    cookies = (pair.strip().partition("=") for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"))
    return next((value for name, _, value in cookies if name == COOKIE), "")


def _page(status: int, body: bytes, *, content_type: bytes = b"text/html; charset=utf-8") -> PageAnswer:
    return PageAnswer(status, [*_GUARDED, (b"content-type", content_type)], body)


def _redirect(path: str, *more: tuple[bytes, bytes]) -> PageAnswer:
    return PageAnswer(303, [*_GUARDED, (b"location", path.encode("ascii", "replace")), *more], b"")
