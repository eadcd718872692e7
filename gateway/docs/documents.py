"""The pages that the API's own links lead to: errors, event types, the archetypes' schemas, and `llms.txt`.

All are made from what the program itself goes by: the error table, the registry of events, the records' declarations.
"""

from __future__ import annotations

from html import escape

import orjson

from gateway.docs import event_types as types_page
from gateway.docs.schemas import schema_of
from gateway.http.codes import CODES
from gateway.http.conditional import tagged
from gateway.http.request import Reply, Request
from upstreams.model.archetypes import ARCHETYPES

_HTML = b"text/html; charset=utf-8"
_MARKDOWN = b"text/markdown; charset=utf-8"


_CACHING = b"public, max-age=300"


def tagged_document(request: Request, base_url: str) -> Reply | None:
    """The document that is asked for, unless the client has it; None: there is none."""
    page = document(request.path, base_url)
    return None if page is None else tagged(request, page, page.body, caching=_CACHING)


def document(path: str, base_url: str) -> Reply | None:
    """The document at a path, or None."""
    if path in _PAGES:
        write, content_type = _PAGES[path]
        return _text(write(), content_type)
    if path == "/llms.txt":
        return _text(_llms(base_url), b"text/plain; charset=utf-8")
    if path.startswith("/schemas/") and path.endswith(".json"):
        return _schema(path.removeprefix("/schemas/").removesuffix(".json"), base_url)
    return None


def _text(text: str, content_type: bytes) -> Reply:
    return Reply(200, text.encode(), content_type=content_type)


def _errors_markdown() -> str:
    rows = [
        f"| `{code.name}` | {code.status} | {'yes' if code.retryable else 'no'} | {code.charge} | {code.condition} |"
        for code in CODES.values()
    ]
    head = ["# Errors", "", "| Code | Status | Retryable | Charge | Condition |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _errors_html() -> str:
    sections = "".join(
        f'<h2 id="{code.name}">{code.name} <small>{code.status}</small></h2><p>{escape(code.condition)} '
        f"{'Worth a retry.' if code.retryable else 'Not worth a retry.'} Charge: {code.charge}.</p>"
        for code in CODES.values()
    )
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>Sluice: errors</title><h1>Errors</h1>{sections}"


_PAGES = {
    "/docs/errors": (_errors_html, _HTML),
    "/docs/errors.md": (_errors_markdown, _MARKDOWN),
    "/docs/events": (types_page.html, _HTML),
    "/docs/events.md": (types_page.markdown, _MARKDOWN),
}


def _llms(base_url: str) -> str:
    return (
        "# Sluice\n\nOne API over many public platforms. Send the key in the x-api-key header.\n\n"
        f"- [Catalog]({base_url}/v1/utility/endpoints)\n- [Errors]({base_url}/docs/errors.md)\n"
        f"- [Event types]({base_url}/docs/events.md)\n"
    )


def _schema(name: str, base_url: str) -> Reply | None:
    archetype = ARCHETYPES.get(name)
    return None if archetype is None else Reply(200, orjson.dumps(schema_of(archetype, base_url)))
