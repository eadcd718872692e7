"""Creating a Monitor from the catalog or from a playground call, with an optional estimate of its cost."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from quart import Response, request

from gateway.dashboard.address import PREFIX
from gateway.dashboard.calls import QUERY, callable_operations, fields_of_call, find_operation
from gateway.dashboard.forms import fields, form_record
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.pages.alert_rules import RULES, beside_row, sent_rules
from gateway.dashboard.services import Services
from gateway.docs.operations import ApiOperation
from gateway.http.codes import sentence
from scheduler.errors import MonitorInvalid, MonitorLimitReached
from scheduler.monitors.changes import Saved, View
from scheduler.monitors.metrics.paths import numbers_in
from scheduler.monitors.metrics.shapes import shape_of
from scheduler.monitors.model.draft import CreateBody

RULE_ROWS: Final = 3
"""Rows for alert rules in the form. A Monitor's own page accepts more."""
SUGGESTED: Final = 3
FOUND_MAX: Final = 60
_NOT_RECIPES: Final = ("cursor", "max_credits", "fields", "format", "fresh", "max_age")


class MonitorMaking:
    """The form of a new Monitor, and its submission."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._frame = frame

    async def page(self) -> Response:
        """List the recipes that match a search, or show the form for one recipe."""
        if recipe := request.args.get("recipe", ""):
            operation = self._recipe(recipe)
            sent = {**dict(request.args), "metrics": ", ".join(_numbers(operation)[:SUGGESTED])}
            return await self._form(operation, sent)
        words = request.args.get("q", "").strip()[:100]
        found = [one for one in self._recipes() if all(word in _text(one) for word in words.lower().split())]
        return await self._frame.shown(
            "recipes.html", "New Monitor", words=words, found=found[:FOUND_MAX], more=max(0, len(found) - FOUND_MAX)
        )

    async def create(self) -> Response:
        """Estimate the cost, or create the Monitor, once per form."""
        sent = await fields()
        operation = self._recipe(sent.get("recipe", ""))
        monitors = self._services.monitors
        try:
            draft = monitors.draft(_body(operation, sent))
            if sent.get("deed") == "price":
                return await self._form(operation, sent, price=await monitors.preview(draft, account_id()))
            id_, secret = await self._make(partial(monitors.create, draft, account_id(), None), sent)
        except MonitorInvalid as exc:
            return await self._form(operation, sent, status=400, errors=_field_errors(exc, sent))
        except MonitorLimitReached as exc:
            return await self._form(operation, sent, status=400, error=sentence(exc, "pause one first"))
        if secret is None:
            return self._frame.to_page(f"{PREFIX}/monitors/{id_}")
        return await self._frame.shown("monitor_created.html", "Monitor created", monitor_id=id_, secret=secret)

    async def _make(self, create: Any, sent: dict[str, str]) -> tuple[str, str | None]:
        """Create the Monitor. Return its id and, unless the form was submitted before, its webhook's secret."""
        secrets_made: list[str | None] = []

        def view(made: View | Saved) -> dict[str, str]:
            """Return the Monitor's id. The transaction stores it, and the page uses it."""
            if isinstance(made, View):
                return {"id": made.monitor.id}
            secrets_made.append(made.secret)
            return {"id": made.view.monitor.id}

        result = await self._services.operations.once("monitor.create", form_record(sent), create, view)
        return result["id"], secrets_made[-1] if secrets_made else None

    def _recipes(self) -> list[ApiOperation]:
        operations = callable_operations(self._services.reference)
        return [one for one in operations if one.listing is not None and one.method == "GET"]

    def _recipe(self, id_: str) -> ApiOperation:
        operation = find_operation(self._services.reference, id_, "GET")
        if operation is None or operation.listing is None:
            raise ObjectMissing
        return operation

    async def _form(
        self, operation: ApiOperation, sent: Mapping[str, str], *, status: int = 200, **more: Any
    ) -> Response:
        params = [one for one in fields_of_call(operation, sent) if one.label not in _NOT_RECIPES]
        return await self._frame.shown(
            "new_monitor.html",
            "New Monitor",
            status=status,
            operation=operation,
            fields=params,
            sent=sent,
            numbers=_numbers(operation),
            rules=range(RULE_ROWS),
            nonce=secrets.token_hex(16),
            **{"price": None, **more},
        )


def _text(operation: ApiOperation) -> str:
    return f"{operation.id} {operation.summary}".lower()


def _numbers(operation: ApiOperation) -> list[str]:
    """Return the paths to numbers in an operation's responses."""
    assert operation.listing is not None, "only recipes reach this function"
    endpoint = operation.listing.endpoint
    return list(numbers_in(shape_of(endpoint.archetype, endpoint.unfilled)))


def _body(operation: ApiOperation, sent: Mapping[str, str]) -> CreateBody:
    """Return the Monitor described by the fields, in the format of the API."""
    params = {name.removeprefix(QUERY): text for name, text in sent.items() if name.startswith(QUERY) and text}
    metrics = [one.strip() for one in sent.get("metrics", "").split(",") if one.strip()]
    rules = [one.rule for one in sent_rules(sent)]
    return CreateBody(
        recipe=operation.id,
        cadence={"cron": sent.get("cron", "")} if sent.get("cadence") == "cron" else sent.get("cadence") or None,
        params=params,
        webhook_url=sent.get("webhook_url") or None,
        alert_rules=rules or None,
        suppress_webhook_unless_alert=True if sent.get("suppress") else None,
        track={"metrics": metrics} if metrics else None,
        name=sent.get("name") or None,
        run_now=True if sent.get("run_now") else None,
    )


def _field_errors(exc: MonitorInvalid, sent: Mapping[str, str]) -> dict[str, str]:
    """Return the error under the name of the field that caused it."""
    param = exc.param.partition("[")[0]
    if param == RULES:
        return {**beside_row(exc, sent_rules(sent)), "other": f"{exc}. {exc.next_step}"}
    names = {"track.metrics": "metrics", "track": "metrics", "cadence.cron": "cron"}
    if param.startswith("params.") or param not in _FIELDS:
        name = names.get(param, f"{QUERY}{param.removeprefix('params.')}")
    else:
        name = names.get(param, param)
    return {name: f"{exc.problem}. {exc.next_step}", "other": f"{exc}. {exc.next_step}"}


_FIELDS: Final = frozenset(CreateBody.__struct_fields__) | {"track.metrics", "cadence.cron"}
