"""Credit packs: packs on sale, payment, and the account's purchases (decisions 22)."""

from __future__ import annotations

from typing import Final

from quart import Response, request
from quart_trio import QuartTrio

from billing.errors import PackUnknown
from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import fields, position_of, position_text
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.services import Services
from gateway.http.errors import Refused

BILLING: Final = f"{PREFIX}/billing"
PAGE: Final = 25


class BillingPages:
    """The page of credit packs, and the page with the link to the payment."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(BILLING, "billing", self.page)
        app.add_url_rule(f"{BILLING}/buy", "buy_pack", self.buy, methods=["POST"])

    async def page(self) -> Response:
        """Show the packs, and the purchases, newest first."""
        return await self._shown()

    async def buy(self) -> Response:
        """Show a link to the Stripe page that sells the pack.

        It is a link because the content security policy forbids forms that lead to other sites.
        """
        checkout, packs = self._services.checkout, self._services.packs
        try:
            pack = packs.get((await fields()).get("pack", ""))
        except PackUnknown as exc:
            raise ObjectMissing from exc
        if checkout is None or not pack.price_cents:
            return await self._shown(status=400, error="This pack cannot be bought by card here.")
        back = f"{self._services.base_url}{BILLING}"
        try:
            begun = await checkout.begin(account_id(), pack.name, success_url=f"{back}?paid=1", cancel_url=back)
        except Refused as exc:
            return await self._shown(status=exc.code.status, error=exc.message)
        return await self._frame.shown("pay.html", "Pay for a pack", pack=pack, session=begun.session)

    async def _shown(self, *, status: int = 200, error: str = "") -> Response:
        services = self._services
        before = position_of(request.args.get("before", ""))
        found = await services.packs.list(account_id(), before=before, limit=PAGE + 1)
        last = found[PAGE - 1] if len(found) > PAGE else None
        return await self._frame.shown(
            "billing.html",
            "Billing",
            status=status,
            error=error,
            account=await services.accounts.get(account_id()),
            packs=list(services.packs.on_sale.values()),
            takes_cards=services.checkout is not None,
            purchases=found[:PAGE],
            older="" if last is None else position_text(last.created_at, last.id),
            is_first=before is None,
            is_paid=request.args.get("paid") == "1",
        )
