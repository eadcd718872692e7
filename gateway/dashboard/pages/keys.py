"""API keys: create (shown once), reveal after a recent sign-in, limit, reset and revoke (spec 2.5, 5.2)."""

from __future__ import annotations

import secrets
from typing import Any, Final

from quart import Response, request
from quart_trio import QuartTrio

from billing.errors import BillingError, KeyUnknown, SealBroken
from billing.keys.keys import ACTIVE_KEYS_MAX
from billing.keys.records import KeyRecord
from events.instants import iso
from gateway.admin.operations import OperationRefused
from gateway.dashboard.address import PREFIX
from gateway.dashboard.forms import FieldRefused, credits_of, fields, instant_of, once_id
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.services import Services

KEYS: Final = f"{PREFIX}/keys"
_NAME_MAX: Final = 200


class KeyPages:
    """The list of an account's keys, and the actions on each key."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._keys = services.keys
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(KEYS, "keys", self.page)
        app.add_url_rule(KEYS, "create_key", self.create, methods=["POST"])
        for deed in (self.reveal, self.limit, self.reset, self.revoke):
            app.add_url_rule(f"{KEYS}/<key_id>/{deed.__name__}", f"{deed.__name__}_key", deed, methods=["POST"])

    async def page(self) -> Response:
        """List the keys, newest first, and with `?new=1` show the form for another."""
        return await self._shown(form_open=request.args.get("new") == "1")

    async def create(self) -> Response:
        """Create a key, once per form, and show the whole key."""
        sent = await fields()
        try:
            arguments = self._read(sent)
            made = await self._services.operations.run("key.create", arguments)
        except FieldRefused as exc:
            return await self._shown(status=400, form_open=True, values=sent, errors={exc.name: exc.problem})
        except OperationRefused as exc:
            return await self._shown(status=400, form_open=True, values=sent, error=f"{exc}.")
        return await self._shown(shown={"id": made["id"], "key": made["key"], "is_new": True})

    def _read(self, sent: dict[str, str]) -> dict[str, Any]:
        """Read the arguments of the operation. Raises FieldRefused."""
        name, expires_at = sent.get("name", ""), instant_of("expires", sent.get("expires", ""))
        if len(name) > _NAME_MAX or not name.isprintable():
            raise FieldRefused("name", f"must be one line of at most {_NAME_MAX} characters")
        if expires_at is not None and expires_at <= self._services.now():
            raise FieldRefused("expires", "must be in the future")
        limit = credits_of("credit_limit", sent.get("credit_limit", ""))
        arguments: dict[str, Any] = {"account": account_id(), "name": name}
        if limit is not None:
            arguments["credit_limit"] = limit
        if expires_at is not None:
            arguments["expires_at"] = iso(expires_at)
        if (operation_id := once_id(sent)) is not None:
            arguments["operation_id"] = operation_id
        return arguments

    async def reveal(self, key_id: str) -> Response:
        """Show a whole key again to a user who signed in recently."""
        await self._owned(key_id)
        if (ask := self._frame.fresh()) is not None:
            return ask
        try:
            key = await self._keys.reveal(key_id)
        except SealBroken:
            text = "This key was encrypted with another master secret. Revoke it and create a new one."
            return await self._shown(status=400, error=text)
        return await self._shown(shown={"id": key_id, "key": key, "is_new": False})

    async def limit(self, key_id: str) -> Response:
        """Set or remove a key's limit."""
        await self._owned(key_id)
        sent = await fields()
        try:
            limit = credits_of("credit_limit", sent.get("credit_limit", ""))
            await self._keys.update(key_id, credit_limit=limit)
        except (FieldRefused, BillingError) as exc:
            return await self._shown(status=400, errors={f"limit-{key_id}": str(exc)}, values={key_id: sent})
        return self._frame.to_page(KEYS, done="limit")

    async def reset(self, key_id: str) -> Response:
        """Reset a key's usage to 0."""
        await self._owned(key_id)
        await self._keys.update(key_id, reset_usage=True)
        return self._frame.to_page(KEYS, done="reset")

    async def revoke(self, key_id: str) -> Response:
        """Ask for confirmation, then revoke the key permanently."""
        record = await self._owned(key_id)
        if (await fields()).get("sure") != "yes":
            return await self._frame.shown("revoke.html", "Revoke this key?", key=record)
        await self._keys.revoke(key_id)
        return self._frame.to_page(KEYS, done="revoked")

    async def _owned(self, key_id: str) -> KeyRecord:
        """Return a key of the account. Raises ObjectMissing."""
        try:
            record = await self._keys.get(key_id)
        except KeyUnknown as exc:
            raise ObjectMissing from exc
        if record.account_id != account_id():
            raise ObjectMissing
        return record

    async def _shown(self, *, status: int = 200, **more: Any) -> Response:
        now = self._services.now()
        keys = sorted(await self._keys.list(account_id()), key=lambda key: (key.created_at, key.id), reverse=True)
        active = [key for key in keys if is_active(key, now)]
        return await self._frame.shown(
            "keys.html",
            "Keys",
            status=status,
            active=active,
            ended=[key for key in keys if key not in active][:50],
            most=ACTIVE_KEYS_MAX,
            nonce=secrets.token_hex(16),
            **{"shown": None, "form_open": False, "values": {}, **more},
        )


def is_active(key: KeyRecord, now: float) -> bool:
    """Return whether a key is still usable."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)
