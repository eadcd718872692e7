"""The page of one operation as Markdown, built from its guide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from gateway.docs.catalog import how_to_use
from gateway.docs.guide import Guides
from gateway.docs.operations import ApiOperation
from gateway.docs.pages.example_calls import calls_markdown, fence
from gateway.docs.pages.tables import records_path

_EXAMPLE_CHARACTERS: Final = 6_000
_PAGE: Final = re.compile(r"(?<![\w(/`])/docs/[\w/-]*\w")
_SAMPLE_FIELDS, _SAMPLE_CHARACTERS = 5, 40


def endpoint_markdown(operation: ApiOperation, guides: Guides) -> str:
    """Return the page of the operation."""
    guide = guides.of(operation)
    parts = [
        f"# {operation.title}",
        _PAGE.sub(r"[\g<0>](\g<0>)", guide["description"]),
        f"`{operation.method} {operation.path}`",
        _facts(operation, guide),
        *_unavailable(guide),
        *_parameters(guide),
        *_code(operation, guide),
        *_answer(operation, guide),
        *_price(guide),
        *_errors(guide),
        *_related(guides.related(operation)),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(operation: ApiOperation, guide: Mapping[str, Any]) -> str:
    """Return the key facts as a list."""
    facts = [f"**Price:** {guide['credits']['label']}"]
    if guide["cache"]:
        facts.append(f"**Cached for:** {_in_minutes(guide['cache']['ttl_seconds'])}")
    if operation.archetype and operation.listing:
        name = operation.archetype
        facts.append(f"**Returns:** [{name}]({records_path(name)})")
    if operation.paginated:
        facts.append("**Pages:** by [cursor](/docs/pagination)")
    if operation.once:
        facts.append("**Safe retries:** with an [Idempotency-Key](/docs/idempotency)")
    facts.append(f"**Guide as JSON:** `{how_to_use(operation)}`")
    return "\n".join(f"- {fact}" for fact in facts)


def _in_minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def _unavailable(guide: Mapping[str, Any]) -> Iterator[str]:
    available = guide["availability"]
    if not available["available"]:
        missing = ", ".join(f"`{name}`" for name in available["missing_credentials"])
        lacks = f"it lacks {missing}. " if missing else ""
        yield f"> **Not available on this node:** {lacks}{available['next_step']}"


def _parameters(guide: Mapping[str, Any]) -> Iterator[str]:
    params = guide["params"]
    groups = params["one_of"]
    rows = [*_rows(params["required"], "required")]
    for group in groups:
        names = " or ".join(f"`{one['name']}`" for one in group["options"])
        rows += _rows(group["options"], f"one of {names}")
    rows += _rows(params["optional"], "optional")
    if rows:
        yield "## Parameters"
        yield _table(("Name", "Type", "Needed", "Meaning"), rows)


def _rows(params: Iterable[Mapping[str, Any]], needed: str) -> Iterator[Sequence[str]]:
    for param in params:
        place = "" if param["in"] == "query" else f" ({param['in']})"
        yield f"`{param['name']}`", f"{param['type']}{place}", needed, _meaning(param)


def _meaning(param: Mapping[str, Any]) -> str:
    """Return a parameter's description, with choices, bounds, default and an example."""
    parts = [param["description"]]
    if choices := param.get("choices"):
        parts.append(f"One of {', '.join(f'`{one}`' for one in choices)}.")
    least, most = param.get("minimum"), param.get("maximum")
    if least is not None and most is not None:
        bounds = f"{least:,} to {most:,}."
        parts += [] if bounds in param["description"] else [bounds]
    elif least is not None:
        parts.append(f"At least {least:,}.")
    elif most is not None:
        parts.append(f"At most {most:,}.")
    if "default" in param:
        parts.append(f"Default `{_spelled(param['default'])}`.")
    parts += _spellings(param)
    if "default" not in param or _spelled(param["default"]) != str(param["example"]):
        parts.append(f"Example `{param['example']}`.")
    return " ".join(parts)


def _spellings(param: Mapping[str, Any]) -> Iterator[str]:
    """Describe the canonical form of a value, and other accepted forms."""
    if canonical := param.get("canonical"):
        if canonical["example"] != param["example"]:
            yield f"Normalized to `{canonical['example']}`."
        if canonical["takes_addresses"] and param["type"] != "url":
            yield "A URL is also accepted."
        if not canonical["case_sensitive"]:
            yield "Not case-sensitive."


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(operation: ApiOperation, guide: Mapping[str, Any]) -> Iterator[str]:
    if not operation.path.endswith("/ws"):
        yield "## Try it"
        yield calls_markdown(operation, guide)


def sample_markdown(operation: ApiOperation, guide: Mapping[str, Any]) -> str:
    """Return the example call and a shortened response for the landing page."""
    cost = guide["credits"]["cost"]
    answer = {
        "success": True,
        "data": _beginning(guide["response"]["example"]["data"]),
        "credits_used": cost,
        "credits_remaining": 1_000 - cost,
        "cached": False,
    }
    text = orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    return f"{calls_markdown(operation, guide)}\n\nPart of the response:\n\n{fence('json', text)}"


def _beginning(value: object) -> object:
    """Keep the first non-empty fields of each object and the first item of each list."""
    if isinstance(value, list):
        return [_beginning(item) for item in value[:1]]
    if isinstance(value, dict):
        filled = [(name, inner) for name, inner in value.items() if inner not in (None, [], {}) and _is_short(inner)]
        return {name: _beginning(inner) for name, inner in filled[:_SAMPLE_FIELDS]}
    return value


def _is_short(value: object) -> bool:
    return not isinstance(value, str) or len(value) <= _SAMPLE_CHARACTERS


def _answer(operation: ApiOperation, guide: Mapping[str, Any]) -> Iterator[str]:
    response = guide["response"]
    yield "## Response"
    forms = ", ".join(f"`{form}`" for form in response["content_types"])
    if forms:
        yield f"Status {response['status']}, as {forms}."
    elif operation.path.endswith("/ws"):
        yield "Status 101: the connection becomes a WebSocket."
    else:
        yield f"Status {response['status']}, without a body."
    if response["example"] is not None:
        text = orjson.dumps(response["example"], option=orjson.OPT_INDENT_2).decode()
        if len(text) > _EXAMPLE_CHARACTERS:
            text = text[:_EXAMPLE_CHARACTERS].rpartition("\n")[0] + "\n..."
        yield fence("json", text)
        yield "The response also has `success`, `credits_used`, `credits_remaining`, `request_id` and `cached`."


def _price(guide: Mapping[str, Any]) -> Iterator[str]:
    price = guide["credits"]
    if price["cost"]:
        yield "## Price"
        rules = "".join(f"\n- {rule}" for rule in price["billing_rules"])
        yield f"{price['label']}. {price['pricing_notes']}\n{rules}"


def _errors(guide: Mapping[str, Any]) -> Iterator[str]:
    yield "## Errors"
    rows = [
        (
            f"[`{error['type']}`](/docs/errors#{error['type']})",
            str(error["status"]),
            "retryable" if error["retryable"] else "final",
            ", ".join(f"[`{one['reason']}`](/docs/errors/{one['reason']})" for one in error["reasons"]),
        )
        for error in guide["errors"]
    ]
    yield _table(("Code", "Status", "Retry", "Reasons"), rows)


def _related(operations: Sequence[ApiOperation]) -> Iterator[str]:
    if operations:
        yield "## Related"
        yield "\n".join(f"- [`{one.method} {one.path}`]({one.page}): {one.summary}" for one in operations)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)])
