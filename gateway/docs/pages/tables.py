"""Pages built from the program's own tables: errors with reasons, records, and the endpoints of a platform."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.docs.errors import REASONS
from gateway.docs.operations import ApiOperation
from gateway.docs.schemas import Schema, schema_of
from gateway.http.codes import CODES, Code
from upstreams.composites import composite_slugs
from upstreams.fetching.site import Site
from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.endpoint import Platform

_ERRORS_HEAD: Final = """# Errors

Every error has one envelope. Branch on `error.type`: its values never change their meaning under `/v1`. `error.details`
has a `reason` or a `did_you_mean`, and usually `param` and `next_step`.

```json
{
  "success": false,
  "error": {
    "type": "INVALID_REQUEST",
    "message": "Unknown parameter `hndle`. Did you mean `handle`?",
    "status": 400,
    "doc_url": ".../docs/errors#INVALID_REQUEST",
    "details": {
      "did_you_mean": "handle",
      "param": "hndle",
      "next_step": "Fix the parameter and retry.",
      "remove_params": ["hndle"]
    }
  },
  "credits_used": 0,
  "credits_remaining": 999,
  "request_id": "req_..."
}
```

Retry the errors marked as retryable: after `Retry-After` seconds if the header is present, otherwise with exponential
backoff and full jitter, at most five times. `credits_used` is the net charge: 0 if nothing was deducted or the refund
is committed. A 503 without `Retry-After` means that the endpoint was withdrawn permanently.

| Code | Status | Retryable | Charge | When |
|---|---|---|---|---|
"""


def errors_markdown() -> str:
    """Return the errors page: a table of all codes, then a section with the reasons of each code."""
    rows = "".join(
        f"| `{code.name}` | {code.status} | {_yes_or_no(code)} | {code.charge} | {code.condition} |\n"
        for code in CODES.values()
    )
    return f"{_ERRORS_HEAD}{rows}\n" + "\n".join(map(_section, CODES.values()))


def _section(code: Code) -> str:
    """Return the section of one code: the heading that `doc_url` links to, and its reasons."""
    worth = "Retryable." if code.retryable else "Not retryable."
    text = f"## {code.name}\n\nStatus {code.status}. {code.condition} {worth} Charge: {code.charge}.\n"
    reasons = [reason for reason in REASONS.values() if reason.code == code.name]
    if not reasons:
        return text
    rows = "".join(f"| [`{one.name}`](/docs/errors/{one.name}) | {one.meaning} |\n" for one in reasons)
    return f"{text}\n| `details.reason` | Meaning |\n|---|---|\n{rows}"


def _yes_or_no(code: Code) -> str:
    return "yes" if code.retryable else "no"


_RECORDS_HEAD: Final = """# Records

Each kind of thing has one record type, with the same fields on every platform. Data that
a platform does not provide is `null`; zero means zero. `ext` contains data that only one platform provides.

Each endpoint's page names the shape of its `data`. A list has its rows in `items`, and a `total` if the platform
provides one. If a row is incomplete, `_warnings` says why.

Endpoints that read several platforms have [shapes of their own](/docs/composite-records).
"""
_COMPOSITES_HEAD: Final = """# Records of composites

Endpoints that read several platforms have the following shapes. They contain the [records](/docs/records) of platforms,
and say in `legs` what each platform answered.
"""
_SHAPES_HEAD: Final = "\n## Shapes\n\n| Shape | In `data` |\n|---|---|\n"
_LOCAL = re.compile(r"\(#([\w-]+)\)")
_KINDS: Final = {"uri": "URL", "date-time": "instant"}


def records_markdown() -> str:
    """Return the records page: the shapes of platforms' responses, then each record with its fields."""
    shapes, records = _shapes(has_legs=False)
    return _RECORDS_HEAD + shapes + _sections(records)


def composite_records_markdown() -> str:
    """Return the same page for composites. It links to records of platforms instead of describing them again."""
    shapes, records = _shapes(has_legs=True)
    known = _shapes(has_legs=False)[1]
    text = shapes + _sections({name: one for name, one in records.items() if name not in known})
    elsewhere = {_anchored(name) for name in known}
    return _COMPOSITES_HEAD + _LOCAL.sub(
        lambda link: f"(/docs/records#{link[1]})" if link[1] in elsewhere else link[0], text
    )


def records_path(archetype: str) -> str:
    """Return the path of the page that describes an archetype."""
    return "/docs/composite-records" if ARCHETYPES[archetype].has_legs else "/docs/records"


def _shapes(*, has_legs: bool) -> tuple[str, dict[str, Schema]]:
    """Return the table of the archetypes with or without legs, and the schemas of their records by name."""
    records: dict[str, Schema] = {}
    rows = []
    for name, archetype in ARCHETYPES.items():
        if archetype.has_legs is not has_legs:
            continue
        schema = schema_of(archetype, "")
        records |= schema["$defs"]
        row = schema["properties"]["items"]["items"] if archetype.many else schema
        of = "`items` of " if archetype.many else ""
        rows.append(f"| [`{name}`](/schemas/{name}.json) | {of}{_contents(row['properties'])} |\n")
    return _SHAPES_HEAD + "".join(rows), records


def _sections(records: Mapping[str, Schema]) -> str:
    """Return a section for each record, in alphabetical order."""
    return "".join(f"\n## {_titled(name)}\n\n{_record(one)}" for name, one in sorted(records.items()))


def _contents(properties: Mapping[str, Schema]) -> str:
    return ", ".join(_linked_name(name, schema) for name, schema in properties.items() if name != "_warnings")


def _linked_name(name: str, schema: Schema) -> str:
    """Return the name of a field, as a link if the field contains records."""
    held = schema.get("items", schema)
    record = next((one for one in held.get("anyOf", [held]) if "$ref" in one), None)
    return f"[`{name}`](#{_anchor(record)})" if record else f"`{name}`"


def _record(schema: Schema) -> str:
    rows = "".join(f"| `{path}` | {kind} | {meaning} |\n" for path, kind, meaning in _fields(schema))
    return f"{schema['description']}\n\n| Name | Type | Meaning |\n|---|---|---|\n{rows}"


def _fields(schema: Schema, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the path, type and meaning of each field. The members of an object follow the object."""
    for name, field in schema["properties"].items():
        yield f"{prefix}{name}", _kind(field), field["description"]
        yield from _fields(field, f"{prefix}{name}.") if "properties" in field else ()


def _kind(field: Schema) -> str:
    choices = field.get("anyOf", [field])
    return " or ".join(kind for one in choices for kind in _kinds(one))


def _kinds(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield f"[{_titled(schema['$ref'].rpartition('/')[2]).lower()}](#{_anchor(schema)})"
        return
    types: list[str] = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    named = {"string": _KINDS.get(schema.get("format", ""), "string")}
    named["array"] = f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    yield from (named.get(one, one) for one in types)


def _titled(name: str) -> str:
    """Return the name of a record in words."""
    return name.replace("_", " ").strip().capitalize()


def _anchor(reference: Schema) -> str:
    return _anchored(reference["$ref"].rpartition("/")[2])


def _anchored(name: str) -> str:
    return _titled(name).lower().replace(" ", "-")


def platform_markdown(site: Site, operations: Sequence[ApiOperation]) -> str:
    """Return the page of a platform: its sources and its endpoints."""
    platform = site.platform
    sources = ", ".join(
        name if name in platform.partners else f"{name} ({_where(base)})" for name, base in platform.sources.items()
    )
    rows = "".join(
        f"| [`{_called(one)}`]({one.page}) | {one.summary}{_lacking(one)} | {one.price.label} | {_shape(one)} |\n"
        for one in operations
    )
    table = f"| Endpoint | Returns | Price | Shape |\n|---|---|---|---|\n{rows}"
    read = [f"Read from {sources}."] if sources else []
    if platform.slug in composite_slugs() and platform.slug != "web":
        read = ["Combines responses from other platforms: each part is a separate call.", *read]
    about = " ".join((*read, *_links(platform)))
    return f"# {platform.title}\n\n{about}\n\nPaths start with `/v1/{platform.slug}/`.\n\n## Endpoints\n\n{table}"


def _links(platform: Platform) -> Iterator[str]:
    """Yield a sentence for each link of a platform, and for the other facts that its declaration states."""
    if platform.docs_url:
        yield f"See [{platform.docs_url.partition('://')[2]}]({platform.docs_url})."
    if platform.terms_url:
        yield f"Its [terms of use]({platform.terms_url}) apply."
    if platform.checked_on:
        yield f"Last compared with the platform on {platform.checked_on}."
    if platform.maintainer:
        yield f"Maintained by {platform.maintainer}."


def _where(base: str) -> str:
    """Return the base URL of a source. If each call names its own host, the URL is followed by a remark."""
    return f"`{base}`, on the host named in each call" if "{host}" in base else f"`{base}`"


def _called(operation: ApiOperation) -> str:
    return operation.resource if operation.method == "GET" else f"{operation.method} {operation.resource}"


def _shape(operation: ApiOperation) -> str:
    """Return the name of the response shape, with a link to its records if it is an archetype."""
    name = operation.archetype
    return f"[{name}]({records_path(name)})" if name in ARCHETYPES else name


def _lacking(operation: ApiOperation) -> str:
    return "" if operation.available else " *Not available on this node.*"
