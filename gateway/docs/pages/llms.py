"""`/llms.txt`, an index of all pages for language models, and `/llms-full.txt`, the API documentation in one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gateway.docs.guide import description_of, param_record
from gateway.docs.operations import ApiOperation
from gateway.docs.pages.library import DocPage, Library
from upstreams.model.endpoint import Platform

_HEAD: Final = """# Sluice

> One HTTP API over many public platforms, billed in credits. `GET {base}/v1/{{platform}}/{{resource}}` with the key in
> the `x-api-key` header returns JSON in one envelope: `success`, `data`, `pagination` for lists, `credits_used`.

To make a call, open the page of a platform below, choose an endpoint, and send its parameters as a query. To read the
next page of a list, send `cursor` set to `pagination.next_cursor`. `dry_run=1` prices a call without making it. Errors
say what to fix.
"""


def llms(library: Library) -> str:
    """Return the index: one line for each platform and each guide."""
    parts = [_HEAD.format(base=library.base_url), "## Platforms\n"]
    parts += (_platform(library, one) for group in library.categories for one in group.platforms)
    parts += ["\n## Guides\n", *_links(library, library.of_group("use"))]
    parts += ["\n## Account\n", *_links(library, library.of_group("account"))]
    parts += ["\n## Node\n", *_links(library, library.of_group("node"))]
    base = library.base_url
    parts += [
        f"- [OpenAPI 3.1]({base}/v1/openapi.json): every operation; `?platform=` selects one platform.",
        f"- [Everything in one file]({base}/llms-full.txt): all pages listed above.",
        "\n## Optional\n",
        *_links(library, library.of_group("run")),
    ]
    return "\n".join(parts) + "\n"


def _platform(library: Library, platform: Platform) -> str:
    names = ", ".join(map(library.name_of, library.endpoints_of(platform.slug)))
    return f"- [{platform.title}]({library.base_url}/docs/{platform.slug}.md): {names}."


def _links(library: Library, pages: Iterable[DocPage]) -> Iterator[str]:
    for page in pages:
        yield f"- [{page.title}]({library.base_url}{page.path}.md): {page.summary}"


def llms_full(library: Library) -> str:
    """Return the full guides of the API, and each operation with its parameters and price."""
    parts = [_HEAD.format(base=library.base_url)]
    parts += (_lowered(library.markdown(page.path)) for page in library.of_group("use"))
    parts += ["## Operations\n", *map(_operation, library.reference.offered)]
    return "\n".join(parts) + "\n"


def _lowered(text: str) -> str:
    """Lower each heading of a document by one level, except in code."""
    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not in_code else line)
    return "\n".join(lines)


def _operation(operation: ApiOperation) -> str:
    lines = [
        f"### {operation.method} {operation.path}\n",
        f"{description_of(operation)} Price: {operation.price.label}. Returns: {operation.archetype or 'no JSON'}.\n",
    ]
    due = {param.name for param in operation.in_path} | {param.name for param in operation.query if param.required}
    for param in (*operation.in_path, *operation.query):
        record = param_record(param)
        choices = f" One of {', '.join(record['choices'])}." if "choices" in record else ""
        default = f" Default {record['default']}." if "default" in record else ""
        needed = ", required" if param.name in due else ""
        lines.append(f"- `{param.name}` ({param.type}{needed}): {param.description}{choices}{default}")
    lines += (f"- body `{field.name}`: {field.schema.get('description', '')}" for field in operation.body)
    lines += (f"- exactly one of {', '.join(group)}" for group in operation.one_of)
    return "\n".join(lines) + "\n"
