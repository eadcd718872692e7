"""The playground: a form, built from the declaration, that calls any operation and can estimate its price first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
import trio
from markupsafe import Markup
from quart import Response, request
from quart_trio import QuartTrio

from billing.errors import SealBroken
from billing.keys.records import KeyRecord
from gateway.dashboard.address import PREFIX
from gateway.dashboard.calls import (
    QUERY,
    callable_operations,
    can_be_priced,
    fields_of_call,
    find_operation,
    request_of,
)
from gateway.dashboard.folding import Folded
from gateway.dashboard.forms import FieldRefused, fields
from gateway.dashboard.frame import Frame, ObjectMissing, account_id
from gateway.dashboard.pages.keys import is_active
from gateway.dashboard.services import ApiAnswer, ApiCall, Services
from gateway.docs.catalog import by_category
from gateway.docs.operations import ApiOperation
from gateway.docs.pages.code_blocks import tabs
from gateway.docs.pages.example_calls import call_blocks

PLAYGROUND: Final = f"{PREFIX}/playground"
FOUND_MAX: Final = 60
_SHOWN: Final = (
    "x-request-id",
    "x-credits-used",
    "x-credits-remaining",
    "x-cache",
    "x-sluice-overhead-ms",
    "retry-after",
)


class CallablePlatform(NamedTuple):
    """A platform, or a group of the account's or the node's routes, with its number of operations."""

    slug: str
    title: str
    calls: int


class PlaygroundPages:
    """The search for an operation, and the form that calls it."""

    def __init__(self, services: Services, frame: Frame) -> None:
        self._services = services
        self._frame = frame

    def add_to(self, app: QuartTrio) -> None:
        """Register the routes."""
        app.add_url_rule(PLAYGROUND, "playground", self.page)
        app.add_url_rule(PLAYGROUND, "call", self.call, methods=["POST"])

    async def page(self) -> Response:
        """List the platforms or the operations that match a search, or show the form of one operation."""
        if id_ := request.args.get("id", ""):
            return await self._form(self._found(id_, request.args.get("method", "")), request.args)
        words, platform = request.args.get("q", "").strip()[:100], request.args.get("platform", "")
        operations = callable_operations(self._services.reference)
        found = [one for one in operations if platform in ("", one.platform) and _matches(one, words.lower().split())]
        return await self._frame.shown(
            "playground.html",
            "Playground",
            words=words,
            platform=platform,
            groups=self._groups(operations),
            found=found[:FOUND_MAX],
            more=max(0, len(found) - FOUND_MAX),
        )

    def _groups(self, operations: Iterable[ApiOperation]) -> list[tuple[str, list[CallablePlatform]]]:
        """Return the platforms of operations by category, and then the groups of the account and the node."""
        counts = Counter(one.platform for one in operations)
        sites = self._services.reference.catalog.sites
        categories = by_category(site.platform for slug, site in sites.items() if slug in counts)
        own = [CallablePlatform(slug, slug.capitalize(), counts[slug]) for slug in counts if slug not in sites]
        return [
            *(
                (group.title, [CallablePlatform(one.slug, one.title, counts[one.slug]) for one in group.platforms])
                for group in categories
            ),
            ("Account and node", own),
        ]

    async def call(self) -> Response:
        """Show the price of a call, or its response."""
        sent = await fields()
        operation = self._found(sent.get("id", ""), sent.get("method", ""))
        is_dry = sent.get("deed") == "price" and can_be_priced(operation)
        try:
            drawn = request_of(operation, sent, is_dry=is_dry)
            key = await self._key(sent.get("key", ""))
        except FieldRefused as exc:
            return await self._form(operation, sent, status=400, errors={exc.name: exc.problem})
        answer = await self._services.call_api(ApiCall(drawn.method, drawn.target, key, drawn.encoded))
        if answer.status == 400 and (name := _refused_field(operation, answer)):
            return await self._form(operation, sent, status=400, errors=name)
        if is_dry and answer.status == 200:
            return await self._form(operation, sent, price=_data(answer))
        folded = Folded()
        body = await trio.to_thread.run_sync(folded.html, answer.body)
        shown = {
            "status": answer.status,
            "headers": [(name, answer.headers[name]) for name in _SHOWN if name in answer.headers],
            "body": body,
            "is_cut": folded.is_cut,
            "bytes": len(answer.body),
        }
        return await self._form(operation, sent, answer=shown)

    def _found(self, id_: str, method: str) -> ApiOperation:
        operation = find_operation(self._services.reference, id_, method)
        if operation is None:
            raise ObjectMissing
        return operation

    async def _keys(self) -> list[KeyRecord]:
        now = self._services.now()
        return [key for key in await self._services.keys.list(account_id()) if is_active(key, now)]

    async def _key(self, key_id: str) -> str:
        """Return the text of the key to charge. Raises FieldRefused."""
        if key_id not in {key.id for key in await self._keys()}:
            raise FieldRefused("key", "must be one of your active keys. Create a key if you have none")
        try:
            return await self._services.keys.reveal(key_id)
        except SealBroken as exc:
            raise FieldRefused("key", "was encrypted with another master secret; choose another key") from exc

    async def _form(
        self, operation: ApiOperation, sent: Mapping[str, str], *, status: int = 200, **more: Any
    ) -> Response:
        return await self._frame.shown(
            "call.html",
            operation.title,
            status=status,
            operation=operation,
            fields=fields_of_call(operation, sent),
            keys=await self._keys(),
            chosen=sent.get("key", ""),
            can_be_priced=can_be_priced(operation),
            code=self._code(operation, sent),
            monitor_url=_monitor_url(operation, sent),
            **{"answer": None, "price": None, **more},
        )

    def _code(self, operation: ApiOperation, sent: Mapping[str, str]) -> Markup:
        """Return the call in three languages, with examples for the missing parts of its path."""
        examples = {f"{QUERY}{param.name}": param.example for param in operation.in_path}
        given = {field.name: field.value for field in fields_of_call(operation, sent) if field.value}
        try:
            drawn = request_of(operation, {**examples, **given})
        except FieldRefused:
            return Markup("")
        address = f"{self._services.base_url}{drawn.target}".replace("'", "%27")
        blocks = call_blocks(operation, {"url": address, "body": drawn.body})
        return Markup(tabs(blocks, 1))  # noqa: S704 - the function escapes its input


def _matches(operation: ApiOperation, words: list[str]) -> bool:
    text = f"{operation.method} {operation.path} {operation.summary}".lower()
    return all(word in text for word in words)


def _data(answer: ApiAnswer) -> dict[str, Any]:
    found = orjson.loads(answer.body).get("data")
    return found if isinstance(found, dict) else {}


def _refused_field(operation: ApiOperation, answer: ApiAnswer) -> dict[str, str]:
    """Return the form field that the API rejected, with its message; empty if the API named no field of the form."""
    try:
        error = orjson.loads(answer.body)["error"]
        param, message = str(error["details"]["param"]), str(error["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    names = {field.label: field.name for field in fields_of_call(operation, {})}
    name = names.get(param.partition("[")[0].partition(".")[0])
    return {} if name is None else {name: message.removeprefix(param).strip()}


def _monitor_url(operation: ApiOperation, sent: Mapping[str, str]) -> str:
    """Return the page that creates a Monitor from the call; empty if no recipe exists for the operation."""
    if operation.listing is None or operation.method != "GET":
        return ""
    values = {name: value for name, value in sent.items() if name.startswith(QUERY) and value}
    return f"{PREFIX}/monitors/new?{urlencode({'recipe': operation.id, **values})}"
