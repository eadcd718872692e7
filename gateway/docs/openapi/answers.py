"""The responses of the OpenAPI document: an envelope around the data of each archetype, and errors by their status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from events.log.kinds import data_schemas
from gateway.docs.account.streams import LegSettled, PageRead
from gateway.docs.openapi.errors import BALANCE, ERROR_SCHEMAS, REQUEST_ID, headers_of
from gateway.docs.operations import ApiOperation
from gateway.docs.samples import Schema
from gateway.docs.schemas import openapi_schemas
from upstreams.model.archetypes import ARCHETYPES, Archetype
from upstreams.model.endpoint import Endpoint

REF: Final = "#/components/schemas/{name}"
_ENVELOPE: Final[Schema] = {
    "type": "object",
    "description": "The fields of every successful response.",
    "properties": {
        "success": {"const": True},
        "platform": {"type": "string"},
        "endpoint": {"type": "string", "description": "The path that was called."},
        "credits_used": {"type": "integer", "minimum": 0},
        "credits_remaining": BALANCE,
        "request_id": REQUEST_ID,
        "cached": {"type": "boolean"},
        "idempotent_replay": {"type": "boolean"},
        "replayed": {"type": "boolean"},
    },
    "required": ["success", "platform", "endpoint", "credits_used", "credits_remaining", "request_id", "cached"],
}
_PAGINATION: Final[Schema] = {
    "type": "object",
    "properties": {
        "next_cursor": {"type": ["string", "null"], "description": "Send it back as `cursor`."},
        "has_more": {"type": "boolean"},
        "page_size": {"type": "integer"},
    },
    "required": ["next_cursor", "has_more", "page_size"],
}
_SHARED: Final = {"Envelope": _ENVELOPE, "Pagination": _PAGINATION, **ERROR_SCHEMAS}
EXAMPLES: Final[dict[str, Schema]] = {
    "DryRun": {
        "summary": "With `dry_run`: the price, and whether the response is cached.",
        "value": {
            "success": True,
            "platform": "github",
            "endpoint": "/v1/github/profile",
            "data": {"estimated_credits": 1, "would_hit_cache": False},
            "credits_used": 0,
            "credits_remaining": 1000,
            "request_id": "req_01a1fd6f28fd7bba92988ba98f5dc154",
            "cached": False,
        },
    }
}
SHARED_HEADERS: Final = (
    "X-Request-Id",
    "X-Credits-Used",
    "X-Credits-Remaining",
    "X-Sluice-Overhead-Ms",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "RateLimit-Policy",
    "RateLimit",
)
"""Headers of all successful responses to requests with a key. The document lists them once, because they would make up
a tenth of it otherwise.
"""
_EVENT: Final = "EventItem"
_EVENT_BASE: Final = "EventBase"
_PLACE = re.compile(r" \(spec [^)]*\)")


class Answers:
    """Builds the responses of operations, and collects the components that they refer to."""

    def __init__(self, *, is_brief: bool) -> None:
        """With `is_brief`, the fields of responses have types, but no descriptions and examples."""
        self._is_brief = is_brief
        self.responses: dict[str, Schema] = {}
        self._types: dict[str, Any] = {}
        self._envelopes: dict[str, Schema] = {}

    def of(self, operation: ApiOperation, forms: Sequence[str]) -> dict[str, Schema]:
        """Return the operation's successful responses by status."""
        doc = operation.route.doc
        if doc is None:
            name = operation.archetype + ("Stream" if "text/event-stream" in forms else "")
            if name not in self.responses:
                self.responses[name] = self._data_response(operation, forms)
            return {"200": {"$ref": f"#/components/responses/{name}"}}
        found = {str(doc.status): self._described(operation, forms)}
        if doc.dry_run is None:
            return found
        if doc.settles:
            return self._settling(operation, forms, doc.dry_run)
        media = {"schema": self._enveloped(doc.dry_run.__name__, doc.dry_run)}
        if doc.status == 200:  # every batch returns the same kind of price
            made = found["200"]["content"]["application/json"]
            made["schema"] = {"anyOf": [made["schema"], media["schema"]]}
            name = operation.archetype
            self.responses[name] = {**found["200"], "description": f"{name}, in the envelope."}
            return {"200": {"$ref": f"#/components/responses/{name}"}}
        dry = {"description": "With `dry_run`: nothing was created.", "content": {"application/json": media}}
        return {"200": dry, **found}

    def _settling(self, operation: ApiOperation, forms: Sequence[str], dry_run: type) -> dict[str, Schema]:
        """Return the responses, by status, of a route that starts a job and waits for it."""
        settled, begun = self._described(operation, forms), self._described(operation, ("application/json",))
        made = settled["content"]["application/json"]
        made["schema"] = {"anyOf": [made["schema"], self._enveloped(dry_run.__name__, dry_run)]}
        settled["description"] = "Finished; or with `dry_run`: nothing was created."
        return {"200": settled, "202": begun}

    def take(self, type_: Any) -> Schema:
        """Return a reference to the schema of a type."""
        self._types[type_.__name__] = type_
        return {"$ref": REF.format(name=type_.__name__)}

    def schemas(self, archetypes: Iterable[Archetype]) -> dict[str, Schema]:
        """Return the schemas that responses may refer to."""
        _, own = msgspec.json.schema_components(list(self._types.values()), ref_template=REF)
        typed = _events_typed({name: _shortened(schema, name) for name, schema in own.items()})
        assert self._envelopes.keys().isdisjoint(typed), "schema names are unique"
        found = {**openapi_schemas(archetypes), **typed}
        return {**_SHARED, **(_brief(found) if self._is_brief else found), **self._envelopes}

    def _data_response(self, operation: ApiOperation, forms: Sequence[str]) -> Schema:
        extra = ("X-Cache", "X-Next-Cursor") if operation.paginated else ("X-Cache",)
        media = {form: self._media(operation, form) for form in forms}
        media["application/json"]["examples"] = {"dry_run": {"$ref": "#/components/examples/DryRun"}}
        return {
            "description": f"{operation.archetype}, in the envelope.",
            "headers": headers_of(extra),
            "content": media,
        }

    def _described(self, operation: ApiOperation, forms: Sequence[str]) -> Schema:
        doc = operation.route.doc
        assert doc is not None, "a data endpoint uses a shared response"
        response: Schema = {"description": _status_description(doc.status)}
        if doc.is_public:
            response["headers"] = headers_of(("ETag",))
        if doc.status == 101:
            response["x-websocket"] = {
                "sends": [self.take(one) for one in doc.sends],
                "takes": [self.take(one) for one in doc.takes],
            }
        elif doc.status != 204:
            response["content"] = {form: self._media(operation, form) for form in forms}
        return response

    def _media(self, operation: ApiOperation, form: str) -> Schema:
        if form == "text/event-stream":
            return {"schema": {"type": "string"}, "x-events": self._streamed(operation)}
        if form != "application/json":
            return {"schema": {"type": "string"}}
        return {
            "schema": self._answered(operation)
            if operation.archetype
            else {"type": "object", "additionalProperties": True}
        }

    def _streamed(self, operation: ApiOperation) -> Schema:
        """Return the data schemas of server-sent events, by event name."""
        doc = operation.route.doc
        if operation.listing is not None:
            return {**self._progress(operation.listing.endpoint), **self._ends(operation)}
        assert doc is not None, "only data endpoints have no description"
        steps = {name: self.take(type_) for name, type_ in doc.streams.items()}
        return steps if doc.price is None else {**steps, **self._ends(operation)}

    def _progress(self, endpoint: Endpoint) -> Schema:
        """Return the schemas of a data endpoint's progress events: pages of a list, or legs of a composite."""
        pages = {"page": self.take(PageRead)} if endpoint.archetype.many else {}
        return {**pages, "leg": self.take(LegSettled)} if endpoint.archetype.has_legs else pages

    def _ends(self, operation: ApiOperation) -> Schema:
        """Return the schemas of the last event of a billed stream: the whole response, or the error."""
        return {"result": self._answered(operation), "error": {"$ref": REF.format(name="Error")}}

    def _answered(self, operation: ApiOperation) -> Schema:
        doc, name = operation.route.doc, operation.archetype
        if doc is not None:
            return self._enveloped(name, doc.answer, is_unwrapped=doc.is_unwrapped, paginated=operation.paginated)
        return self._enveloped(name, None, paginated=operation.paginated)

    def _enveloped(self, name: str, type_: Any, *, is_unwrapped: bool = False, paginated: bool = False) -> Schema:
        """Wrap an archetype or an account type in the envelope, register the result, and return a reference to it."""
        reference = {"$ref": REF.format(name=name)} if type_ is None else self.take(type_)
        own: Schema = reference
        if not is_unwrapped:
            own = {"type": "object", "properties": {"data": reference}, "required": ["data"]}
            if paginated or name.endswith("sData"):
                own["properties"]["pagination"] = {"$ref": REF.format(name="Pagination")}
        plain = name.removesuffix("Data")
        answer = f"{name if type_ is not None and plain in ARCHETYPES else plain}Answer"
        self._envelopes[answer] = {"allOf": [{"$ref": REF.format(name="Envelope")}, own]}
        return {"$ref": REF.format(name=answer)}


def _status_description(status: int) -> str:
    """Return the description of a status, which appears next to the operation's summary."""
    said = {204: "Done. The response has no body.", 101: "The connection is now a WebSocket."}
    return said.get(status, "Success.")


def _events_typed(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Add one schema for each shape of event, and replace `EventItem` with the choice among them."""
    if _EVENT not in schemas:
        return schemas
    by_type, shapes = data_schemas(REF)
    types: dict[str, list[str]] = {}
    for type_, reference in by_type.items():
        types.setdefault(reference["$ref"].rpartition("/")[2], []).append(type_)
    kinds = {f"{shape}Event": _event_of(shape, names) for shape, names in types.items()}
    described = {name: _without_places(one) for name, one in shapes.items()}
    any_kind = {
        "description": schemas[_EVENT]["description"],
        "oneOf": [{"$ref": REF.format(name=name)} for name in kinds],
        "discriminator": {
            "propertyName": "type",
            "mapping": {type_: REF.format(name=f"{shape}Event") for shape, names in types.items() for type_ in names},
        },
    }
    return {**schemas, _EVENT: any_kind, _EVENT_BASE: _event_base(schemas[_EVENT]), **kinds, **described}


def _event_base(item: Schema) -> Schema:
    """Return the schema of the fields that all events share."""
    properties = {name: one for name, one in item["properties"].items() if name not in ("type", "data")}
    description = "The fields of every event, next to `type` and `data`."
    return {**item, "description": description, "properties": properties, "required": list(properties)}


def _event_of(shape: str, types: list[str]) -> Schema:
    """Return the schema of an event with this shape of `data`."""
    named = {"type": "string", "enum": types, "description": "The event type.", "examples": types[:1]}
    own = {"type": named, "data": {"$ref": REF.format(name=shape)}}
    return {
        "title": f"{shape}Event",
        "description": f"An event of {', '.join(types)}.",
        "allOf": [
            {"$ref": REF.format(name=_EVENT_BASE)},
            {"type": "object", "properties": own, "required": list(own)},
        ],
    }


def _without_places(schema: Mapping[str, Any]) -> Schema:
    """Remove references to the specification from a schema's description."""
    return {**schema, "description": _PLACE.sub("", " ".join(schema["description"].split()))}


def _shortened(schema: Any, name: str = "") -> Any:
    """Shorten a schema: drop titles that repeat the name, and write a choice with null as a list of types."""
    if isinstance(schema, list):
        return [_shortened(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    terse = {key: _shortened(value) for key, value in schema.items() if not (key == "title" and value == name)}
    match terse.get("anyOf"):
        case [{"type": str(kind), **rest}, {"type": "null"}] if not {"enum", "const"} & rest.keys():
            del terse["anyOf"]
            return {**terse, **rest, "type": [kind, "null"]}
    return terse


def _brief(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Keep the schemas' own descriptions, and remove the descriptions and examples of their fields."""
    return {
        name: {**_types(schema), **({"description": schema["description"]} if "description" in schema else {})}
        for name, schema in schemas.items()
    }


def _types(schema: Schema) -> Schema:
    kept = {key: value for key, value in schema.items() if key not in ("description", "examples")}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _types(kept[key])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in kept:
            kept[key] = [_types(one) for one in kept[key]]
    if "properties" in kept:
        kept["properties"] = {name: _types(one) for name, one in kept["properties"].items()}
    return kept
