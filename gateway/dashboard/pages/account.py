"""The user's own page: password, second factor, sessions."""

from __future__ import annotations

from typing import Any, Final

import trio
from quart import Response
from quart_trio import QuartTrio

from billing.errors import SealBroken
from billing.users.errors import CodeRefused, PasswordRefused, TooManyAttempts
from billing.users.second_factor import enrolment_url
from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import fields, secret_field
from gateway.dashboard.frame import Frame, ObjectMissing, signed_in
from gateway.dashboard.pictures import qr_svg
from gateway.dashboard.services import Services

ACCOUNT: Final = f"{PREFIX}/account"


class AccountPages:
    """The user's account, and the actions on it. All except signing out require a recently entered password."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._factor = services.second_factor
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(ACCOUNT, "account", self.page)
        for path, deed in (
            ("password", self.password),
            ("factor", self.begin_factor),
            ("factor/on", self.turn_on),
            ("factor/off", self.turn_off),
            ("codes", self.codes),
            ("sessions/others", self.end_others),
            ("sessions/<session_id>", self.end_session),
        ):
            app.add_url_rule(f"{ACCOUNT}/{path}", f"account_{deed.__name__}", deed, methods=["POST"])

    async def page(self) -> Response:
        """Show the user's account."""
        return await self._shown()

    async def password(self) -> Response:
        """Change the password and sign out every other session."""
        if (ask := self._frame.fresh()) is not None:
            return ask
        password = await secret_field("password")
        if password != await secret_field("repeated"):
            return await self._shown(status=400, errors={"repeated": "does not match the password above"})
        try:
            await self._services.sessions.change_password(signed_in(), password)
        except (PasswordRefused, TooManyAttempts) as exc:
            return await self._shown(status=400, errors={"password": str(exc)})
        return self._frame.to_page(ACCOUNT, done="password")

    async def begin_factor(self) -> Response:
        """Show a new secret, and request the first code that the app generates from it."""
        return self._frame.fresh() or await self._show_enrollment(self._factor.begin(signed_in().user))

    async def turn_on(self) -> Response:
        """Turn on the second factor, and show the recovery codes once."""
        if (ask := self._frame.fresh()) is not None:
            return ask
        sent = await fields()
        sealed = sent.get("sealed", "")
        try:
            codes = await self._factor.turn_on(signed_in().user, sealed, sent.get("code", "").replace(" ", ""))
        except SealBroken as exc:
            raise ObjectMissing from exc
        except CodeRefused:
            return await self._show_enrollment(sealed, "is not correct. Enter the code that the app shows now")
        return await self._frame.shown("codes.html", "Recovery codes", codes=codes)

    async def turn_off(self) -> Response:
        """Turn off the second factor."""
        if (ask := self._frame.fresh()) is not None:
            return ask
        await self._factor.turn_off(signed_in().user)
        return self._frame.to_page(ACCOUNT, done="factor_off")

    async def codes(self) -> Response:
        """Replace the recovery codes."""
        if (ask := self._frame.fresh()) is not None:
            return ask
        codes = await self._factor.renew_codes(signed_in().user)
        return await self._frame.shown("codes.html", "Recovery codes", codes=codes)

    async def end_session(self, session_id: str) -> Response:
        """Sign out one session."""
        if not await self._services.sessions.end_one(signed_in().user.id, session_id):
            raise ObjectMissing
        return self._frame.to_page(ACCOUNT, done="session_ended")

    async def end_others(self) -> Response:
        """Sign out every other session."""
        await self._services.sessions.end_others(signed_in())
        return self._frame.to_page(ACCOUNT, done="sessions_ended")

    async def _show_enrollment(self, sealed: str, problem: str = "") -> Response:
        user = signed_in().user
        secret = self._factor.secret(user, sealed)
        groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
        url = enrolment_url(user, secret)
        return await self._frame.shown(
            "factor.html",
            "Second factor",
            status=400 if problem else 200,
            sealed=sealed,
            secret=groups,
            url=url,
            code=await trio.to_thread.run_sync(qr_svg, "The secret as a QR code", url),
            errors={"code": problem} if problem else {},
        )

    async def _shown(self, *, status: int = 200, **more: Any) -> Response:
        user = signed_in().user
        return await self._frame.shown(
            "account.html",
            "Account",
            status=status,
            sessions=await self._services.sessions.list(user.id),
            codes_left=await self._factor.codes_left(user) if user.has_totp else 0,
            is_fresh=signed_in().is_fresh(self._services.now()),
            **more,
        )
