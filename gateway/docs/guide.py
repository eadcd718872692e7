"""The guide of one operation: parameters, price, cache, paging, errors, a request and a real example (spec 2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from gateway.calls.pricing import price_of
from gateway.calls.shaping import shape, share_out
from gateway.docs.catalog import how_to_use, never_computed
from gateway.docs.errors import error_records
from gateway.docs.operations import FORM_FIELD, ApiOperation, Reference
from gateway.docs.samples import sample_of, sample_of_answer
from gateway.http.routing import SOURCE
from upstreams.catalog import Listing
from upstreams.model.cursors import CursorSigner
from upstreams.model.endpoint import Endpoint
from upstreams.model.params import Param
from upstreams.sandbox.rehearse import first_source, rehearse

_EXAMPLE_NOW_AT: Final = 1_767_225_600.0
_RELATED_MAX: Final = 5


class Guides:
    """Builds guides. The endpoint's own reader creates the example from the sandbox's response."""

    def __init__(self, reference: Reference, *, base_url: str, signer: CursorSigner) -> None:
        self._reference = reference
        self._base_url = base_url
        self._signer = signer

    def of(self, operation: ApiOperation) -> dict[str, Any]:
        """Return the guide of one operation."""
        listing, base = operation.listing, self._base_url
        return {
            "kind": "endpoint_guide",
            "id": operation.id,
            "path": operation.path,
            "method": operation.method,
            "platform": operation.platform,
            "resource": operation.resource,
            "summary": operation.summary,
            "description": " ".join((description_of(operation), *_always_null(listing))),
            "credits": _credits(operation),
            "params": _params(operation),
            "pagination": _pagination(operation),
            "cache": _cache(listing),
            "response": self._response(operation),
            "request": self._request(operation),
            "errors": error_records(operation),
            "availability": availability_of(operation),
            "upstream": _upstream(listing),
            "links": {
                "docs": f"{base}{operation.page}",
                "platform_docs": listing.site.platform.docs_url if listing else f"{base}/docs/{operation.platform}",
                "llms": f"{base}/llms.txt",
                "catalog": f"{base}/v1/utility/endpoints",
            },
            "related": [
                {"id": one.id, "path": one.path, "summary": one.summary, "how_to_use": how_to_use(one)}
                for one in self.related(operation)
            ],
        }

    def _response(self, operation: ApiOperation) -> dict[str, Any]:
        name, doc = operation.archetype, operation.route.doc
        return {
            "archetype": name or None,
            "schema_url": f"{self._base_url}/schemas/{name}.json" if name else None,
            "example": self.example(operation),
            "example_source": "sandbox" if operation.listing else "schema" if name else None,
            "status": 200 if doc is None else doc.status,
            "content_types": content_types(operation),
        }

    def example(self, operation: ApiOperation) -> dict[str, Any] | None:
        """Return an example of the operation's part of the envelope; None if the response is not JSON."""
        if operation.listing is not None:
            return self._true_example(operation.listing)
        doc = operation.route.doc
        if doc is None or doc.answer is None:
            return None
        data = sample_of_answer(doc)
        if doc.is_unwrapped:
            return dict(data)
        return {"data": data, "pagination": _SAMPLE_PAGE} if operation.paginated else {"data": data}

    def _true_example(self, listing: Listing) -> dict[str, Any]:
        others = {slug: site.platform for slug, site in listing.site.others.items()}
        result = rehearse(listing.site.platform, listing.endpoint, _EXAMPLE_NOW_AT, others, listing.site.credentials)
        shaped = shape(listing.endpoint.archetype, result, lambda state: self._signer.seal(b"example", state))
        share_out(shaped.data.get("legs", ()), price_of(listing.endpoint).credits)
        if shaped.pagination is None:
            return {"data": shaped.data}
        items = shaped.data["items"]
        return {"data": {**shaped.data, "items": items[:1]}, "pagination": shaped.pagination}

    def _request(self, operation: ApiOperation) -> dict[str, Any]:
        url, body = request_url(operation, self._base_url), {} if operation.is_form else example_body(operation)
        words = ["curl"]
        if operation.method != "GET":
            words += ["-X", operation.method]
        if not (operation.route.doc and operation.route.doc.is_public):
            words += ["-H", "'x-api-key: YOUR_KEY'"]
        if body:
            words += ["-H", "'content-type: application/json'", "-d", _quoted(orjson.dumps(body).decode())]
        if operation.is_form:
            words += ["-F", FORM_FIELD]
        return {"url": url, "curl": " ".join([*words, f"'{url}'"]), "body": body}

    def related(self, operation: ApiOperation) -> list[ApiOperation]:
        """Return operations of the same platform, starting with those that return the same kind of record."""
        same = [one for one in self._reference.offered if one.platform == operation.platform and one != operation]
        if operation.listing is not None:
            key = operation.listing.endpoint.archetype.key
            same.sort(key=lambda other: other.listing is None or other.listing.endpoint.archetype.key != key)
        else:
            same.sort(key=lambda other: other.id.partition("/")[0] != operation.id.partition("/")[0])
        return same[:_RELATED_MAX]


_SAMPLE_PAGE: Final = {"next_cursor": None, "has_more": False, "page_size": 1}


def request_url(operation: ApiOperation, base_url: str) -> str:
    """Return the URL of the operation's example request."""
    path = operation.path
    for param in operation.in_path:
        path = path.replace(f"{{{param.name}}}", param.example)
    first_of_groups = {group[0] for group in operation.one_of}
    sent = {one.name: one.example for one in operation.query if one.required or one.name in first_of_groups}
    return f"{base_url}{path}?{urlencode(sent)}".rstrip("?")


def example_body(operation: ApiOperation) -> dict[str, Any]:
    """Return the fields of the example request's body."""
    chosen = [one for one in operation.body if one.required or "examples" in one.schema]
    return {one.name: sample_of(one.schema, {}) for one in chosen}


def content_types(operation: ApiOperation) -> list[str]:
    """Return the media types of the operation's responses."""
    doc = operation.route.doc
    if doc is not None:
        return doc.form.split()
    assert operation.listing is not None, "only data endpoints have no description"
    endpoint = operation.listing.endpoint
    streams = ["text/event-stream"] if endpoint.streams else []
    return ["application/json", *(["text/csv", "application/x-ndjson"] if endpoint.archetype.many else []), *streams]


def _upstream(listing: Listing | None) -> dict[str, Any] | None:
    """Return the platform's links and the day of its last check; None if it only combines other platforms."""
    if listing is None or listing.site.platform.category == "combined":
        return None
    platform = listing.site.platform
    return {
        "title": platform.title,
        "category": platform.category,
        "docs_url": platform.docs_url,
        "terms_url": platform.terms_url or None,
        "checked_on": platform.checked_on,
        "maintainer": platform.maintainer or None,
    }


def availability_of(operation: ApiOperation) -> dict[str, Any]:
    """Return whether the operation is available, and which credentials are missing if it is not."""
    missing, site = list(operation.lacks), operation.site
    if not missing or site is None:
        return {"available": True, "missing_credentials": [], "next_step": None}
    if SOURCE in missing:
        how = f"{site.platform.title} has no source for this endpoint. Use another platform."
        return {"available": False, "missing_credentials": [], "next_step": how}
    platform = site.platform
    if any(name in platform.partners for name in missing):
        how = "This endpoint needs a partner source, which the operator has not configured."
        return {"available": False, "missing_credentials": [], "next_step": how}
    keys = ", ".join(f"{name.replace('|', '_env or ')}_env" for name in missing if name != "contact")
    how = f"The operator names environment variables in [upstreams.{platform.slug}] of config.toml: {keys}."
    if platform.open_web:
        how = "The operator sets a search engine in [web.search] of config.toml: its URL, or the variable with its key."
    if "contact" in missing:
        how = f"The operator sets operator_contact in [upstreams] of config.toml.{f' {how}' if keys else ''}"
    return {"available": False, "missing_credentials": missing, "next_step": how}


def description_of(operation: ApiOperation) -> str:
    """Return the operation's own description, and the order of its sources if it has several."""
    listing, doc = operation.listing, operation.route.doc
    if listing is None:
        assert doc is not None, "only data endpoints have no description"
        return " ".join((doc.description or doc.summary, *doc.notes))
    description = listing.endpoint.description or listing.endpoint.summary
    if not listing.endpoint.fallbacks or not listing.available:
        return description
    sources = _sources_of(listing)
    if len(sources) < 2:
        return description
    return f"{description} Its sources, each tried if the previous ones fail: {', '.join(sources)}."


def _sources_of(listing: Listing) -> list[str]:
    """Return the sources of an endpoint in the order of calls, without sources that lack credentials."""
    site, endpoint = listing.site, listing.endpoint
    usable = site.fallbacks[endpoint.resource]
    if endpoint.resource in site.starts:  # its own source lacks a credential, so its mirrors are not called either
        return [one.source for _, one in usable if one.read is not None]
    return [first_source(site.platform, endpoint, site.credentials), *(one.source for _, one in usable)]


def _always_null(listing: Listing | None) -> Iterator[str]:
    """Yield a sentence that names the computed fields that are always null, if there are any."""
    if nulls := never_computed(listing):
        names, verb = " and ".join(f"`computed.{one}`" for one in nulls), "are" if len(nulls) > 1 else "is"
        yield f"{names} {verb} always null, because the platform does not provide the input data."


def _credits(operation: ApiOperation) -> dict[str, Any]:
    price = operation.price
    return {
        "cost": price.credits,
        "label": price.label,
        "tier": operation.tier,
        "pricing_notes": price.note,
        "billing_rules": _billing_rules(operation),
    }


def _billing_rules(operation: ApiOperation) -> list[str]:
    """Return the billing rules of an operation, from its declaration; empty if it is free."""
    if operation.tier == "free":
        return []
    listing, doc = operation.listing, operation.route.doc
    own = doc.billing_rules if listing is None and doc is not None else ()
    return [
        *own,
        *(() if listing is None else _rules_of(listing.endpoint)),
        "Failed calls are refunded automatically.",
        "Requests are validated before anything is charged.",
    ]


def _rules_of(endpoint: Endpoint) -> Iterator[str]:
    archetype = endpoint.archetype
    yield "Cache hits cost 0 credits."
    if archetype.many:
        yield "An empty list costs 0 credits: the price is refunded automatically."
    elif archetype.findings:
        yield "A response without findings costs 0 credits: the price is refunded automatically."
    if not archetype.many:
        yield "A 404 for something that does not exist is refunded automatically."
    if endpoint.collect is not None:
        yield "Each page with new items is billed; credits reserved for other pages are refunded."
    if archetype.has_legs:
        yield (
            "If fewer than half of the parts succeed, half of the price is refunded, rounded up. If no part succeeds, "
            "or all parts come from the cache, the call costs 0 credits."
        )


def _cache(listing: Listing | None) -> dict[str, Any] | None:
    if listing is None:
        return None
    note = "Cache hits are free. Send Cache-Control: no-cache for a billed refresh."
    return {"ttl_seconds": listing.endpoint.cache_ttl_s, "note": note}


def _params(operation: ApiOperation) -> dict[str, Any]:
    grouped = {name for group in operation.one_of for name in group}
    by_name = {param.name: param for param in operation.query}
    query = [param for param in operation.query if param.name not in grouped]
    fields = [(field.required, _field(field.name, field.schema)) for field in operation.body]
    return {
        "required": [
            *(param_record(param, "path") for param in operation.in_path),
            *(param_record(param) for param in query if param.required),
            *(field for required, field in fields if required),
        ],
        "one_of": [
            {"options": [param_record(by_name[name]) for name in group], "rule": "exactly one"}
            for group in operation.one_of
        ],
        "optional": [
            *(param_record(param) for param in query if not param.required),
            *(field for required, field in fields if not required),
        ],
    }


def param_record(param: Param, place: str = "query") -> dict[str, Any]:
    """Return one parameter as guides show it, with its choices and bounds if it has any."""
    shown: dict[str, Any] = {
        "name": param.name,
        "type": param.type,
        "description": param.description,
        "example": param.example,
        "requires": None,
        "in": place,
    }
    extra = {"default": param.default, "minimum": param.minimum, "maximum": param.maximum}
    shown.update({name: value for name, value in extra.items() if value is not None})
    if param.choices:
        shown["choices"] = list(param.choices)
    elif param.type in ("string", "url"):
        shown["max_length"] = param.length_max
    if canonical := canonical_form(param):
        shown["canonical"] = canonical
    return shown


def canonical_form(param: Param) -> dict[str, Any] | None:
    """Describe the canonical form of a value that has several spellings; None if there is only one spelling."""
    if param.choices or not (param.forms or param.fold or param.strip or param.pattern):
        return None
    return {
        "example": param.canonical(param.example),
        "pattern": param.pattern or None,
        "case_sensitive": not param.fold,
        "takes_addresses": bool(param.forms),
    }


def _field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field of a body. Its example is JSON text, because every example is text."""
    kind = schema.get("type", "object or string")
    kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    return {
        "name": name,
        "type": " or ".join(kinds),
        "description": schema.get("description", f"The {name}."),
        "example": orjson.dumps(sample_of(schema, {})).decode(),
        "requires": None,
        "in": "body",
        "schema": {key: value for key, value in schema.items() if key not in ("description", "examples")},
    }


def _pagination(operation: ApiOperation) -> dict[str, Any] | None:
    if not operation.paginated:
        return None
    return {
        "style": "cursor",
        "param": "cursor",
        "limit": _limit(operation),
        "limit_max": next((param.maximum for param in operation.query if param.name == "limit"), None),
        "note": "Send pagination.next_cursor back unchanged until has_more is false.",
    }


def _limit(operation: ApiOperation) -> str | None:
    """Return the meaning of `limit`; None for an operation without that parameter (spec 4.3, rule 7)."""
    if operation.listing is not None and operation.listing.endpoint.collect is not None:
        return "collect-until-N"
    return "page size" if any(param.name == "limit" for param in operation.query) else None


def _quoted(text: str) -> str:
    """Quote a text for a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
