"""Checks the file of a stand-in: what it lacks, and what a person should review."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import orjson

from tests.platforms.credentials import known_of
from tests.platforms.made_calls import Json, MadeCall
from tests.platforms.playing import Exchange
from tests.platforms.templates import DEPTH_MAX, is_id
from upstreams.model.endpoint import Platform
from upstreams.sandbox.filling import KINDS, PAGE_KINDS, is_filled_name
from upstreams.sandbox.made import paging_of, routes_of
from upstreams.sandbox.site import SandboxRequest, by_host, match

_SHOWN = 5
_KIND = re.compile(r"\$(?:\{\$)?([a-z_]+)")


def lacking(platform: Platform, exchanges: Sequence[Exchange], made: Sequence[MadeCall]) -> Iterator[str]:
    """Yield what no case has, and which members of the answers no reader reads."""
    resources = {exchange.resource for exchange in exchanges}
    for resource in sorted({endpoint.resource for endpoint in platform.endpoints} - resources):
        yield f"warning: no case of {resource}: its calls are missing"
    for call, of_call, _ in made:
        seen = {re.sub(r"\?", "", path) for path in _paths(call.get("body"))}
        seen.update(name for one in of_call if one.pages for name in one.pages.paging.also)
        looked_for = {path for one in of_call for path in one.sought}
        if absent := sorted(looked_for - seen):
            yield f"{call['call']}: read, and in no case: {', '.join(absent)}"
        if empty := [path for path in _paths(call.get("body")) if path.endswith("[]?") and not _is_deep(path)]:
            yield f"{call['call']}: empty in every case: {', '.join(path.removesuffix('[]?') for path in empty)}"
        if unread := list(dict.fromkeys(path for one in of_call for path in one.unread)):
            more = f" and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else ""
            yield f"{call['call']}: in a case, and not read: {', '.join(unread[:_SHOWN])}{more}"


def _is_deep(path: str) -> bool:
    steps = path.removesuffix("[]?").replace("[]", "").split(".")
    return steps.count(steps[-1]) > DEPTH_MAX


def _paths(template: Any, path: str = "") -> Iterator[str]:
    if isinstance(template, dict):
        for name, inner in template.items():
            own = f"{path}.{name}" if path else name
            yield own
            yield from _paths(inner, own)
    elif isinstance(template, list):
        if not template:
            yield f"{path}[]?"
        for inner in template:
            yield from _paths(inner, f"{path}[]")


def faults_in(platform: Platform, made: Json, exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield a line for each request without an answer, unknown placeholder, recorded example and credential."""
    yield from _unanswered(platform, made, exchanges)
    for call in made["calls"]:
        yield from (f"warning: {call['call']}: {line}" for line in _unknown_placeholders(call))
        yield from (f"warning: {call['call']}: {line}" for line in _examples(platform, call.get("body")))
    written = orjson.dumps(made).decode()
    for name, value in known_of(platform).items():
        if value in written:
            yield f"warning: the credential `{name}` is in the file"


def _unanswered(platform: Platform, made: Json, exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield the requests that no call answers, among them those at another time and with the caller's other choices."""
    routes = by_host(routes_of(platform.slug, made))
    for exchange in exchanges:
        for request in (exchange.request, *exchange.variants):
            if match(routes, request) is None:
                yield f"warning: no call answers {_target(request)}, which {exchange.resource} makes"


def _target(request: SandboxRequest) -> str:
    query = f"?{urlencode(request.query)}" if request.query else ""
    return f"{request.method} {request.host}{request.path}{query}"


def _unknown_placeholders(call: Json) -> Iterator[str]:
    kinds = KINDS | PAGE_KINDS | paging_of(call).serve({}, 1).members.keys() | {"all"}
    for text in _filled([call.get(name) for name in ("body", "text", "row", "headers", "missing")]):
        for kind in _KIND.findall(text.replace("$$", "")):
            if kind not in kinds:
                known = max((one for one in kinds if kind.startswith(one)), key=len, default="")
                hint = f"; write `${{${known}}}{kind.removeprefix(known)}`" if known else ""
                yield f"unknown placeholder `${kind}` in `{text}`{hint}"


def _filled(template: Any) -> Iterator[str]:
    """Yield the texts in which placeholders are replaced: all values, and the names that may contain them."""
    if isinstance(template, dict):
        for name, inner in template.items():
            if is_filled_name(name):
                yield name
            yield from _filled(inner)
    elif isinstance(template, list):
        for inner in template:
            yield from _filled(inner)
    elif isinstance(template, str):
        yield template


def _examples(platform: Platform, body: Any, name: str = "") -> Iterator[str]:
    """Yield the ids in a body that equal the example of a parameter, since a recorded answer may have it too."""
    if isinstance(body, dict):
        for own, inner in body.items():
            yield from _examples(platform, inner, own.removesuffix("?"))
    elif isinstance(body, list):
        for inner in body:
            yield from _examples(platform, inner, name)
    elif isinstance(body, str | int) and not isinstance(body, bool) and is_id(name):
        params = (param for endpoint in platform.endpoints for param in endpoint.params)
        for param in {one.name for one in params if one.example == str(body) and str(body) not in one.choices}:
            yield f"`{name}` is `{body}`, the example of the parameter `{param}`; a recorded value may remain"
