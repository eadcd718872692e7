"""The API as an OpenAPI 3.1 document, built from the reference. Shared parts are in its components.

The document of all platforms is brief, so that it stays under 800 KB with 500 endpoints. It leaves out what a caller
can do without: the meaning of response fields, for example. The document of one platform has everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import orjson

from gateway.docs.account.jobs import JobData
from gateway.docs.account.webhooks.account import EventBatch
from gateway.docs.account.webhooks.deliveries import FullDelivery, RowsDelivery
from gateway.docs.errors import reasons_of
from gateway.docs.guide import content_types, description_of
from gateway.docs.openapi.answers import EXAMPLES, SHARED_HEADERS, Answers
from gateway.docs.openapi.errors import error_responses, errors_in, headers_of
from gateway.docs.openapi.inputs import HEADERS, REFRESH_REF, Inputs
from gateway.docs.operations import ApiOperation, Reference
from gateway.docs.samples import Schema
from upstreams.model.archetypes import ARCHETYPES

_DESCRIPTION: Final = (
    "One API over many public platforms, billed in credits. Send the key in `x-api-key` or as a bearer token. Every "
    "`GET` also accepts `HEAD`, and an empty parameter (except `consumer`) is treated as absent. Responses are JSON in "
    "one envelope; errors have a stable `type`. `x-headers` lists the headers of all successful responses to requests "
    "with a key. `/llms.txt` links to the pages."
)
_BRIEF: Final = (
    " Data endpoints also accept the header in `x-parameters`. `?platform=` returns the document of one platform, "
    "which adds this header to each operation, and also describes the fields of responses, the canonical values of "
    "parameters and the reasons of errors."
)
_SECURITY: Final[list[dict[str, list[str]]]] = [{"ApiKey": []}, {"Bearer": []}]
_SCHEMES: Final = {
    "ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "Bearer": {"type": "http", "scheme": "bearer"},
}
_SIGNED: Final = (
    ("x-sluice-signature", "`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` with the webhook's secret."),
    ("webhook-id", "The id of the run, for detecting duplicates (Standard Webhooks)."),
    ("webhook-timestamp", "Unix seconds (Standard Webhooks)."),
    ("webhook-signature", "The signature of Standard Webhooks."),
)
_REFERENCE = re.compile(rb'"#/components/(\w+)/([^"]+)"')


class OpenApi:
    """Builds the document, complete or for one platform."""

    def __init__(self, reference: Reference, base_url: str) -> None:
        self._reference = reference
        self._base_url = base_url

    def document(self, platform: str | None = None) -> bytes:
        """Return the document as JSON."""
        every = self._reference.offered
        chosen = [one for one in every if platform in (None, one.platform)]
        is_brief = platform is None
        inputs, answers = Inputs(every, is_brief=is_brief), Answers(is_brief=is_brief)
        paths: dict[str, dict[str, Any]] = {}
        for operation in chosen:
            item = _item(operation, inputs, answers, is_brief=is_brief)
            paths.setdefault(operation.path, {})[operation.method.lower()] = item
            if doc := operation.route.doc:
                item["responses"][str(doc.status)] |= _links(operation, chosen)
        hooks = _webhooks(answers) if platform in (None, "account") else {}
        responses = {**answers.responses, **error_responses(self._base_url)}
        components = {
            "schemas": _opened({**answers.schemas(ARCHETYPES.values()), **inputs.schemas}),
            "responses": responses,
            "parameters": inputs.parameters,
            "headers": HEADERS,
            "examples": EXAMPLES,
            "securitySchemes": _SCHEMES,
        }
        info = {
            "title": "Sluice",
            "version": version("sluice"),
            "description": f"{_DESCRIPTION}{_BRIEF if is_brief else ''}",
            "x-headers": headers_of(SHARED_HEADERS),
            **({"x-parameters": [REFRESH_REF]} if is_brief else {}),
        }
        used = _used({"info": info, "paths": paths, "webhooks": hooks}, components)
        return orjson.dumps(
            {
                "openapi": "3.1.0",
                "info": info,
                "servers": [{"url": self._base_url}],
                "security": _SECURITY,
                "tags": [{"name": name, "description": self._title(name)} for name in _platforms(chosen)],
                "paths": paths,
                **({"webhooks": hooks} if hooks else {}),
                "components": {**used, "securitySchemes": _SCHEMES},
            }
        )

    def _title(self, platform: str) -> str:
        site = self._reference.catalog.sites.get(platform)
        return site.platform.title if site else f"Routes for the {platform}." if platform == "account" else "The node."


def _platforms(operations: Iterable[ApiOperation]) -> list[str]:
    return list(dict.fromkeys(operation.platform for operation in operations))


def _item(operation: ApiOperation, inputs: Inputs, answers: Answers, *, is_brief: bool) -> dict[str, Any]:
    """Return the document's entry for one operation."""
    doc, listing, price = operation.route.doc, operation.listing, operation.price
    description = listing.endpoint.description if is_brief and listing is not None else description_of(operation)
    item: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        **({"description": description} if description not in ("", operation.summary) else {}),
        "tags": [operation.platform],
        "parameters": inputs.of(operation),
        "responses": {**answers.of(operation, content_types(operation)), **errors_in(operation)},
        "x-credit-cost": price.credits,
        "x-credit-tier": operation.tier,
        "x-credit-label": price.label,
    }
    if not is_brief and (reasons := reasons_of(operation)):
        item["x-error-reasons"] = _by_code(reasons)
    if operation.one_of:
        item["x-one-of"] = [list(group) for group in operation.one_of]
    if body := inputs.body(operation):
        item["requestBody"] = body
    if doc is not None and doc.is_public:
        item["security"] = []
    return item


def _by_code(keys: Iterable[str]) -> dict[str, list[str]]:
    """Group errors, written as `CODE` or `CODE/reason`, as the error responses do."""
    found: dict[str, list[str]] = {}
    for code, _, reason in (key.partition("/") for key in keys):
        found.setdefault(code, []).extend([reason] if reason else [])
    return found


def _links(operation: ApiOperation, others: Iterable[ApiOperation]) -> Schema:
    """Return links to operations of the same platform whose path parameters this response provides."""
    assert operation.route.doc is not None, "only described routes provide values for paths"
    given = {name: f"$response.body#{pointer}" for name, pointer in operation.route.doc.gives.items()}
    known = {**{param.name: f"$request.path.{param.name}" for param in operation.in_path}, **given}
    links = {}
    for other in others:
        names = {param.name for param in other.in_path}
        if names <= known.keys() and names & given.keys() and other.platform == operation.platform:
            parameters = {name: known[name] for name in known if name in names}
            links[other.name] = {"operationId": other.name, "parameters": parameters}
    return {"links": links} if links else {}


def _opened(value: Any) -> Any:
    """Mark objects without declared fields as open. Otherwise some generators treat them as empty."""
    if isinstance(value, list):
        return [_opened(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _opened(one) for name, one in value.items()}
    kinds = value.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]) and "properties" not in value:
        inner.setdefault("additionalProperties", True)
    return inner


def _used(top: Any, components: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the components that the document refers to, directly or through other components."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [orjson.dumps(top)]
    while waiting:
        for kind, name in _REFERENCE.findall(waiting.pop()):
            group = found.setdefault(kind.decode(), {})
            if name.decode() not in group:
                group[name.decode()] = components[kind.decode()][name.decode()]
                waiting.append(orjson.dumps(group[name.decode()]))
    return {kind: dict(sorted(group.items())) for kind, group in sorted(found.items())}


def _webhooks(answers: Answers) -> Schema:
    """Describe the deliveries to the webhooks of monitors, jobs and accounts."""
    forms = [answers.take(FullDelivery), answers.take(RowsDelivery)]
    parameters = [
        {"name": name, "in": "header", "description": text, "required": True, "schema": {"type": "string"}}
        for name, text in _SIGNED
    ]
    how_delivered = "delivered to its webhook and retried until the receiver returns 2xx."
    run = _received("receive_monitor_run", f"A monitor's run, {how_delivered}", {"anyOf": forms}, parameters)
    batch = f"Events of the account's feed, {how_delivered}"
    job = f"A finished web job, {how_delivered}"
    return {
        "monitorRun": run,
        "jobEnd": _received("receive_job_end", job, answers.take(JobData), parameters),
        "eventBatch": _received("receive_event_batch", batch, answers.take(EventBatch), parameters),
    }


def _received(operation: str, summary: str, body: Schema, parameters: Sequence[Schema]) -> Schema:
    return {
        "post": {
            "operationId": operation,
            "summary": summary,
            "security": [],
            "parameters": parameters,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {
                "2XX": {"description": "Accepted."},
                "410": {"description": "The webhook is paused immediately."},
            },
        }
    }
