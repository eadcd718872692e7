"""The example request of an operation as curl, Python and JavaScript."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import orjson

from gateway.docs.operations import FORM_FIELD, ApiOperation
from gateway.docs.pages.code_blocks import CodeBlock

_PYTHON_NAMES: Final = re.compile(r'("(?:\\.|[^"\\])*")|\b(?:true|false|null)\b')
_JS_FORM: Final = """import { openAsBlob } from "node:fs";

const form = new FormData();
form.append("file", await openAsBlob("page.html"), "page.html");
"""


def calls_markdown(operation: ApiOperation, guide: Mapping[str, Any]) -> str:
    """Return the example request as fenced code in curl, Python and JavaScript."""
    return "\n\n".join(fence(block.language, block.text) for block in call_blocks(operation, guide["request"]))


def call_blocks(operation: ApiOperation, request: Mapping[str, Any]) -> tuple[CodeBlock, ...]:
    """Return one call, given its `url` and `body`, as curl, Python and JavaScript."""
    return (
        CodeBlock("sh", _curl(operation, request)),
        CodeBlock("python", _python(operation, request)),
        CodeBlock("js", _javascript(operation, request)),
    )


def _curl(operation: ApiOperation, request: Mapping[str, Any]) -> str:
    method = "" if operation.method == "GET" else f" -X {operation.method}"
    options = [] if _is_public(operation) else ['-H "x-api-key: $KEY"']
    if request["body"]:
        body = _pretty(request["body"]).replace("'", "'\\''")
        options += ["-H 'content-type: application/json'", f"-d '{body}'"]
    if operation.is_form:
        options.append(f"-F {FORM_FIELD}")
    first, *others = [*options, f"'{request['url']}'"]
    return " \\\n  ".join([f"curl{method} {first}", *others])


def _pretty(body: object) -> str:
    return orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()


def _python(operation: ApiOperation, request: Mapping[str, Any]) -> str:
    url, params = _split(request["url"])
    lines = [f'    "{url}",']
    if params:
        lines.append(f"    params={_literal(params)},")
    if request["body"]:
        lines.append(f"    json={_PYTHON_NAMES.sub(_as_python, _pretty(request['body']))},".replace("\n", "\n    "))
    if operation.is_form:
        lines.append('    files={"file": open("page.html", "rb")},')
    if not _is_public(operation):
        lines.append('    headers={"x-api-key": os.environ["KEY"]},')
    call = f"answer = httpx.{operation.method.lower()}(\n" + "\n".join(lines) + "\n)"
    imports = "import httpx" if _is_public(operation) else "import os\n\nimport httpx"
    return f"{imports}\n\n{call}\n{_shown(operation, 'print(answer.json(){})', 'print(answer.status_code)')}"


def _as_python(found: re.Match[str]) -> str:
    """Translate JSON's `true`, `false` and `null` to Python, and keep strings unchanged."""
    return found[1] or {"true": "True", "false": "False", "null": "None"}[found[0]]


def _javascript(operation: ApiOperation, request: Mapping[str, Any]) -> str:
    url, params = _split(request["url"])
    options: list[str] = []
    if operation.method != "GET":
        options.append(f'  method: "{operation.method}",')
    headers = [] if _is_public(operation) else ['"x-api-key": process.env.KEY']
    before = f"const query = new URLSearchParams({_literal(params)});\n" if params else ""
    if request["body"]:
        headers.append('"content-type": "application/json"')
        options.append(f"  body: JSON.stringify({_pretty(request['body'])}),".replace("\n", "\n  "))
    if operation.is_form:
        options.append("  body: form,")
        before = _JS_FORM + before
    if headers:
        options.append(f"  headers: {{ {', '.join(headers)} }},")
    address = f"`{url}?${{query}}`" if params else f'"{url}"'
    behind = ", {\n" + "\n".join(options) + "\n}" if options else ""
    shown = _shown(operation, "console.log((await answer.json()){})", "console.log(answer.status)")
    return f"{before}const answer = await fetch({address}{behind});\n{shown};"


def _literal(params: Mapping[str, str]) -> str:
    """Return a mapping literal that is valid in both Python and JavaScript."""
    pairs = (f"{orjson.dumps(name).decode()}: {orjson.dumps(value).decode()}" for name, value in params.items())
    return f"{{{', '.join(pairs)}}}"


def _shown(operation: ApiOperation, of_json: str, otherwise: str) -> str:
    """Return the line that prints the response."""
    doc = operation.route.doc
    if doc is None:
        return of_json.format(".data" if "await" in of_json else '["data"]')
    has_json = doc.form == "application/json" or doc.form.startswith("application/json ")
    return of_json.format("") if has_json and doc.status not in (101, 204) else otherwise


def _split(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}", dict(parse_qsl(parts.query))


def _is_public(operation: ApiOperation) -> bool:
    return operation.route.doc is not None and operation.route.doc.is_public


def fence(language: str, text: str) -> str:
    """Return a text as a fenced code block."""
    return f"```{language}\n{text}\n```"
