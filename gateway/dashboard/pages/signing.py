"""Sign-in and sign-out: password, code, confirmation before sensitive actions, and one-time link."""

from __future__ import annotations

from typing import Final

from quart import Response, g, request
from quart_trio import QuartTrio

from billing.users.errors import (
    CodeRefused,
    InviteUnusable,
    PasswordRefused,
    SessionOver,
    SignInRefused,
    TooManyAttempts,
)
from gateway.dashboard.address import PREFIX
from gateway.dashboard.doors import redirect_path
from gateway.dashboard.forms import fields, secret_field
from gateway.dashboard.frame import Frame, signed_in
from gateway.dashboard.services import Services
from gateway.http.codes import sentence

OPEN_PAGES: Final = frozenset({"sign_in", "welcome", "code", "sign_out"})
"""The pages that need no session, by the names of their functions."""


class SigningPages:
    """Pages that start and end sessions."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._sessions = services.sessions
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        both = ["GET", "POST"]
        app.add_url_rule(f"{PREFIX}/sign-in", "sign_in", self.sign_in, methods=both)
        app.add_url_rule(f"{PREFIX}/code", "code", self.code, methods=both)
        app.add_url_rule(f"{PREFIX}/confirm", "confirm", self.confirm, methods=both)
        app.add_url_rule(f"{PREFIX}/welcome", "welcome", self.welcome, methods=both)
        app.add_url_rule(f"{PREFIX}/sign-out", "sign_out", self.sign_out, methods=["POST"])

    async def sign_in(self) -> Response:
        """Ask for an e-mail address and a password. A wrong password and an unknown address return the same error."""
        following = redirect_path(request.args.get("next", ""))
        if request.method == "GET":
            return await self._frame.shown("sign_in.html", "Sign in", email="", following=following)
        sent, password = await fields(), await secret_field("password")
        following = redirect_path(sent.get("next", ""))
        try:
            token, stage = await self._sessions.sign_in(
                sent.get("email", ""), password, self._frame.visitor(), instead_of=g.token
            )
        except (SignInRefused, TooManyAttempts) as exc:
            status = 429 if isinstance(exc, TooManyAttempts) else 400
            self._services.log.event("info", "sign_in_refused", client=self._frame.visitor().address, status=status)
            email = sent.get("email", "")[:254]
            return await self._frame.shown(
                "sign_in.html", "Sign in", status=status, email=email, following=following, error=str(exc)
            )
        if stage == "code":
            return self._frame.begin_session(self._frame.to_page(f"{PREFIX}/code", next=following), token)
        return self._frame.begin_session(self._frame.to_page(following), token)

    async def code(self) -> Response:
        """Ask for the code in a session that has passed the password check."""
        waiting = g.signed_in
        if waiting is None:
            return self._frame.to_page(f"{PREFIX}/sign-in")
        sent = await fields() if request.method == "POST" else {}
        following = redirect_path(sent.get("next", "") or request.args.get("next", ""))
        if waiting.session.stage == "full":
            return self._frame.to_page(following)
        if request.method == "GET":
            return await self._frame.shown("code.html", "Enter your code", following=following)
        try:
            await self._services.second_factor.check(waiting.user, sent.get("code", ""))
            token = await self._sessions.renew(g.token, waiting.user)
        except (CodeRefused, TooManyAttempts) as exc:
            status = 429 if isinstance(exc, TooManyAttempts) else 400
            return await self._frame.shown(
                "code.html", "Enter your code", status=status, following=following, errors={"code": str(exc)}
            )
        except SessionOver:
            return self._frame.to_page(f"{PREFIX}/sign-in")
        return self._frame.begin_session(self._frame.to_page(following), token)

    async def confirm(self) -> Response:
        """Ask for the password again, and for the code if a second factor is on. The session then counts as fresh."""
        sent = await fields() if request.method == "POST" else {}
        following = redirect_path(sent.get("next", "") or request.args.get("next", ""))
        if request.method == "GET":
            return await self._frame.shown("confirm.html", "Confirm your identity", following=following)
        current = signed_in()
        try:
            await self._sessions.prove(current, await secret_field("password"), self._frame.visitor())
            if current.user.has_totp:
                await self._services.second_factor.check(current.user, sent.get("code", ""))
            token = await self._sessions.renew(g.token, current.user)
        except (SignInRefused, CodeRefused, TooManyAttempts) as exc:
            name = "code" if isinstance(exc, CodeRefused) else "password"
            problem = "is wrong" if isinstance(exc, SignInRefused) else str(exc)
            status = 429 if isinstance(exc, TooManyAttempts) else 400
            return await self._frame.shown(
                "confirm.html", "Confirm your identity", status=status, following=following, errors={name: problem}
            )
        except SessionOver:
            return self._frame.to_page(f"{PREFIX}/sign-in")
        return self._frame.begin_session(self._frame.to_page(following), token)

    async def welcome(self) -> Response:
        """Let the user of a one-time link choose a password, and sign in with it."""
        token = request.args.get("token", "")
        try:
            user = await self._services.users.invited(token)
            if request.method == "GET":
                return await self._frame.shown("welcome.html", "Welcome", link_token=token, email=user.email)
            password, repeated = await secret_field("password"), await secret_field("repeated")
            if password != repeated:
                return await self._welcome_failed(token, user.email, "repeated", "does not match the password above")
            await self._services.users.accept(token, password)
            session, _ = await self._sessions.sign_in(user.email, password, self._frame.visitor(), instead_of=g.token)
        except InviteUnusable as exc:
            return await self._frame.message(404, "This link is not valid", sentence(exc))
        except PasswordRefused as exc:
            return await self._welcome_failed(token, user.email, "password", str(exc))
        except (SignInRefused, TooManyAttempts):
            return self._frame.to_page(f"{PREFIX}/sign-in")
        return self._frame.begin_session(self._frame.to_page(PREFIX), session)

    async def _welcome_failed(self, token: str, email: str, name: str, problem: str) -> Response:
        return await self._frame.shown(
            "welcome.html", "Welcome", status=400, link_token=token, email=email, errors={name: problem}
        )

    async def sign_out(self) -> Response:
        """Sign out this session."""
        if g.token:
            await self._sessions.end(g.token)
        return self._frame.end_session(self._frame.to_page(f"{PREFIX}/sign-in", done="signed_out"))
