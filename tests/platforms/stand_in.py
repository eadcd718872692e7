"""Generates a platform's stand-in from the platform's cases: `python -m tests.platforms.stand_in SLUG`.

Review the file before you commit it, and complete by hand what a placeholder cannot express. When it runs again, the
generator keeps the file's content, adds members that readers have started to read, and removes those that they no
longer read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from tests.platforms.case import Case
from tests.platforms.made_calls import calls_of
from tests.platforms.playing import Exchange, play
from tests.platforms.templates import ALL, literals_of
from upstreams.model.endpoint import Platform
from upstreams.sandbox.site import expression

FOLDER = Path(__file__).resolve().parents[2] / "upstreams" / "sandbox" / "made"
_KEPT = ("when", "of", "each", "parts", "headers", "missing", "throttled", "broken")
Json = dict[str, Any]


def main(slug: str) -> None:
    """Write the file, and print what it still lacks."""
    for line in generate(*load(slug), FOLDER / f"{slug}.json"):
        print(line)


def load(slug: str) -> tuple[Platform, tuple[Case, ...]]:
    """Return a platform and its cases."""
    return import_module(f"upstreams.platforms.{slug}").PLATFORM, import_module(f"tests.platforms.{slug}.cases").CASES


def generate(platform: Platform, cases: Sequence[Case], file: Path) -> Iterator[str]:
    """Write the file of a platform's stand-in, and yield what it still lacks."""
    before = orjson.loads(file.read_bytes()) if file.exists() else {}
    exchanges = [exchange for case in cases for exchange in play(platform, case)]
    made = made_of(platform, exchanges, before)
    file.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n")
    yield f"{file}: {len(made['calls'])} calls"
    yield from _lacking(platform, exchanges, made)


def _lacking(platform: Platform, exchanges: list[Exchange], made: Json) -> Iterator[str]:
    resources = {exchange.resource for exchange in exchanges}
    for resource in sorted({endpoint.resource for endpoint in platform.endpoints} - resources):
        yield f"no case of {resource}: its calls are missing"
    for call in made["calls"]:
        seen = {re.sub(r"\?", "", path) for path in _paths(call.get("body"))}
        of_call = [one for one in exchanges if one.pattern == call["call"]]
        seen.update(name for one in of_call if one.pages for name in one.pages.paging.also)
        looked_for = {path for one in of_call for path in one.sought}
        if lacking := sorted(looked_for - seen):
            yield f"{call['call']}: read, and in no case: {', '.join(lacking)}"
        if empty := [path for path in _paths(call.get("body")) if path.endswith("[]?")]:
            yield f"{call['call']}: empty in every case: {', '.join(path.removesuffix('[]?') for path in empty)}"


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


def made_of(platform: Platform, exchanges: list[Exchange], before: Json) -> Json:
    """Return the template file, with the manual edits of the previous one."""
    calls: dict[str, list[Exchange]] = {}
    documents = {call["call"]: _route(call) for call in before.get("calls", ()) if "text" in call}
    for exchange in exchanges:
        wider = (call for call, place in documents.items() if place.fullmatch(exchange.place))
        calls.setdefault(next(wider, exchange.pattern), []).append(exchange)
    literals = literals_of(f"upstreams.platforms.{platform.slug}")
    made = [call for pattern, found in calls.items() for call in calls_of(pattern, found, literals)]
    known = {_identity(call): call for call in before.get("calls", ())}
    merged = [_merged(call, known.pop(_identity(call), {})) for call in made]
    by_hand = [call for call in known.values() if "text" in call or call.get("by_hand")]
    head = {name: value for name, value in before.items() if name != "calls"}
    aliases = _aliases(platform)
    return {**({"aliases": aliases} if aliases else {}), "failures": {}, **head, "calls": [*merged, *by_hand]}


def _route(call: Json) -> re.Pattern[str]:
    """Return the hosts and paths that a call accepts. A handwritten call may accept more than its cases use."""
    method, _, place = call["call"].partition(" ")
    host, _, path = place.partition("/")
    return re.compile(f"{method} {re.escape(host)}{expression(f'/{path}').pattern}")


def _identity(call: Json) -> tuple[str, str]:
    return call["call"], str(sorted(call.get("when", {}).items()))


def _merged(made: Json, before: Json) -> Json:
    """Return the generated call, with the manual edits of the previous one."""
    if "text" in before or before.get("by_hand"):
        return before
    return {**made, **{name: before[name] for name in _KEPT if name in before}, **_kept_body(made, before)}


def _kept_body(made: Json, before: Json) -> Json:
    return {"body": _kept(made["body"], before["body"])} if "body" in made and "body" in before else {}


def _kept(made: Any, before: Any) -> Any:
    """Return the previous template, with new members added and unused ones removed."""
    if isinstance(made, dict) and isinstance(before, dict):
        added = {name.removesuffix("?"): name for name in made}
        kept = {
            name: _kept(made[own], before[name]) for name in before if (own := added.pop(name.removesuffix("?"), ""))
        }
        return {**kept, **{name: made[name] for name in added.values()}}
    if isinstance(made, list) and isinstance(before, list):
        mark, own = before[: before[:1] == [ALL]], [one for one in made if one != ALL]
        known = before[len(mark) :]
        return [*mark, _kept(own[0], known[0]), *known[1:]] if own and known else made or before
    return before


def _aliases(platform: Platform) -> dict[str, str]:
    """Return the hosts of mirrors, which give the same answers as the first source."""
    hosts = {name: base.split("/")[2] for name, base in platform.sources.items()}
    first = next(iter(hosts.values()))
    mirrors = (one for endpoint in platform.endpoints for one in endpoint.fallbacks if one.read is None)
    return {hosts[one.source]: first for one in mirrors if hosts[one.source] != first}


if __name__ == "__main__":
    main(sys.argv[1])
