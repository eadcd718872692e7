"""Writes the made stand-in of a platform from its cases: `python -m tests.platforms.stand_in SLUG`.

Read the file before it is committed, and mend by hand what a kind does not say. When the tool runs again, what
stands in the file stays: members that are read now are added, and those that nothing reads any more are taken away.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from tests.platforms.case import Case
from tests.platforms.playing import Exchange, play
from tests.platforms.templates import ALL, literals_of, template_of, with_request
from tests.platforms.traced import ABSENT
from upstreams.model.calls import Pages
from upstreams.model.endpoint import Platform
from upstreams.model.paging import ByLastId, ByTime, Paging
from upstreams.model.values import instant

FOLDER = Path(__file__).resolve().parents[2] / "upstreams" / "sandbox" / "made"
_KEPT = ("when", "of", "each", "headers", "missing", "throttled", "broken")
Json = dict[str, Any]


def main(slug: str) -> None:
    """Write the file, and say what it lacks."""
    platform: Platform = import_module(f"upstreams.platforms.{slug}").PLATFORM
    cases: tuple[Case, ...] = import_module(f"tests.platforms.{slug}.cases").CASES
    file = FOLDER / f"{slug}.json"
    before = orjson.loads(file.read_bytes()) if file.exists() else {}
    exchanges = [exchange for case in cases for exchange in play(platform, case)]
    made = made_of(platform, exchanges, before)
    FOLDER.mkdir(exist_ok=True)
    file.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n")
    print(f"{file}: {len(made['calls'])} calls")
    for line in _lacking(platform, exchanges, made):
        print(line)


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
    """The template file; what was written by hand into the one before stays."""
    calls: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        calls.setdefault(exchange.pattern, []).append(exchange)
    literals = literals_of(f"upstreams.platforms.{platform.slug}")
    made = [call for pattern, found in calls.items() for call in _calls(pattern, found, literals)]
    known = {_identity(call): call for call in before.get("calls", ())}
    merged = [_merged(call, known.pop(_identity(call), {})) for call in made]
    by_hand = [call for call in known.values() if "text" in call or call.get("by_hand")]
    head = {name: value for name, value in before.items() if name != "calls"}
    aliases = _aliases(platform)
    return {**({"aliases": aliases} if aliases else {}), "failures": {}, **head, "calls": [*merged, *by_hand]}


def _identity(call: Json) -> tuple[str, str]:
    return call["call"], str(sorted(call.get("when", {}).items()))


def _merged(made: Json, before: Json) -> Json:
    """The call as it is made now, with what was written into it by hand."""
    if "text" in before or before.get("by_hand"):
        return before
    return {**made, **{name: before[name] for name in _KEPT if name in before}, **_kept_body(made, before)}


def _kept_body(made: Json, before: Json) -> Json:
    return {"body": _kept(made["body"], before["body"])} if "body" in made and "body" in before else {}


def _kept(made: Any, before: Any) -> Any:
    """The template before, with the members that are new and without those that are gone."""
    if isinstance(made, dict) and isinstance(before, dict):
        known = {name.removesuffix("?"): name for name in before}
        return {
            known.get(plain := name.removesuffix("?"), name): _kept(inner, before[known[plain]])
            if plain in known
            else inner
            for name, inner in made.items()
        }
    if isinstance(made, list) and isinstance(before, list):
        mark, own = before[: before[:1] == [ALL]], [one for one in made if one != ALL]
        known = before[len(mark) :]
        return [*mark, _kept(own[0], known[0]), *known[1:]] if own and known else made or before
    return before


def _aliases(platform: Platform) -> dict[str, str]:
    """The hosts of mirrors, which answer as the first source does."""
    hosts = {name: base.split("/")[2] for name, base in platform.sources.items()}
    first = next(iter(hosts.values()))
    mirrors = (one for endpoint in platform.endpoints for one in endpoint.fallbacks if one.read is None)
    return {hosts[one.source]: first for one in mirrors if hosts[one.source] != first}


def _calls(pattern: str, found: list[Exchange], literals: frozenset[str]) -> Iterator[Json]:
    """The calls of one path: one, or one for each value of the request by which its endpoints differ."""
    groups: dict[str, list[Exchange]] = {}
    for exchange in found:
        groups.setdefault(str(_when(exchange, found)), []).append(exchange)
    for group in groups.values():
        good = [one for one in group if one.status < 400]
        refused = [one for one in group if one.status >= 400]
        call: Json = {"call": pattern}
        if when := _when(group[0], found):
            call["when"] = when
        if good and isinstance(good[0].body, str):
            yield {**call, **_text(good)}
            continue
        yield {**call, **_answered(good, literals), **_refused(refused, literals)}


_ITEM = """<item>
<guid isPermaLink="false">$id</guid>
<title>$text</title>
<link>$url</link>
<description>$html</description>
<pubDate>$http_date</pubDate>
<dc:creator>$name</dc:creator>
<category>$word</category>
<enclosure url="https://cdn.example.com/$id.mp3" length="$number" type="audio/mpeg"/>
<itunes:duration>$clock</itunes:duration>
<itunes:explicit>no</itunes:explicit>
<itunes:episode>$count</itunes:episode>
<itunes:image href="$image"/>
</item>"""
_FEED = """<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd">
<channel>
<title>$text</title>
<link>$url</link>
<description>$text</description>
<language>en</language>
<itunes:author>$name</itunes:author>
<itunes:image href="$image"/>
<itunes:category text="$word"/>
$rows
</channel>
</rss>"""


def _text(good: list[Exchange]) -> Json:
    """A body that is no JSON, to be written by hand; of a feed there is one to begin with."""
    pages = next((one.pages for one in good if one.pages is not None), None)
    paged = {"rows": "", "paging": _named(pages.paging)} if pages else {}
    if good[0].is_feed:
        return {**paged, "type": "application/rss+xml", "text": _FEED.split("\n"), "row": _ITEM.split("\n")}
    return {**paged, "type": "text/html; charset=utf-8", "text": ["write the page by hand", "$rows"], "row": ["a row"]}


def _when(exchange: Exchange, found: list[Exchange]) -> dict[str, str | None]:
    """The values of a request that only its endpoint's calls have, where several endpoints share a path."""
    if len({one.resource for one in found}) == 1:
        return {}
    fixed = {resource: _fixed([one for one in found if one.resource == resource]) for resource in _resources(found)}
    own = fixed.pop(exchange.resource)
    names = {name for other in fixed.values() for name in own.keys() | other.keys() if own.get(name) != other.get(name)}
    return {name: own.get(name) for name in sorted(names)}


def _resources(found: list[Exchange]) -> list[str]:
    return list(dict.fromkeys(one.resource for one in found))


def _fixed(found: list[Exchange]) -> dict[str, str]:
    """The values that are the same in each of these requests and come from no parameter."""
    given = {str(value) for one in found for value in one.params.values()}
    first = {**found[0].request.query, **_json_values(found[0])}
    return {
        name: value
        for name, value in first.items()
        if value not in given
        and not value.isdecimal()
        and all({**one.request.query, **_json_values(one)}.get(name) == value for one in found)
    }


def _json_values(exchange: Exchange) -> dict[str, str]:
    json = exchange.request.json
    return {name: value for name, value in json.items() if isinstance(value, str)} if isinstance(json, dict) else {}


def _answered(good: list[Exchange], literals: frozenset[str]) -> Json:
    """The template of good answers, and how their list is paged."""
    if not good:
        return {}
    pages = next((one.pages for one in good if one.pages is not None), None)
    paging = pages.paging if pages is not None else None
    control = {getattr(paging, name, None) for name in ("name", "other", "size")}
    bodies = [with_request(one.body, _values(one, control)) for one in good]
    body = template_of(bodies, "", literals)
    if pages is None or paging is None:
        return {"body": body}
    steps = rows_at(pages)
    if steps and (listed := _at(body, steps)) and listed[0] == ALL:
        del listed[0]
    for name in paging.also:  # the paging object tells them
        _drop(body, name.split("."))
    if isinstance(paging, ByLastId) and (rows := _at(body, steps)):
        _number_rows(rows, good, paging)
    return {"rows": ".".join(steps), "paging": _named(paging), "body": body}


def _named(paging: Paging) -> Json:
    """The paging object as the template has it: that of the model which a platform's own stands on."""
    model = next(one for one in type(paging).__mro__ if one.__module__.startswith("upstreams.model.paging"))
    told = {one.name: (getattr(paging, one.name), one.default) for one in dataclasses.fields(model) if one.init}
    return {
        model.__name__: {
            name: value for name, (value, usual) in told.items() if value != usual and name != "size_default"
        }
    }


def rows_at(pages: Pages) -> tuple[str, ...]:
    """The path of the rows in a body."""
    return pages._rows._at


def _values(exchange: Exchange, control: set[str | None]) -> dict[str, str]:
    """The names of the request's values by their text."""
    pieces = re.split(r"\{(\w+)\}", exchange.pattern)
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = (f"(?P<{name}>[^/]+)" for name in pieces[1::2])
    request = exchange.request
    match = re.fullmatch("".join(pieces), f"{request.method} {request.host}{unquote(request.path)}")
    named = {**request.values, **(match.groupdict() if match else {})}
    return {value: name for name, value in named.items() if name not in control | {"host", "path"} and value}


def _at(body: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        body = next((inner for name, inner in body.items() if name.removesuffix("?") == step), None)
    return body


def _drop(body: Any, steps: list[str]) -> None:
    holder = _at(body, steps[:-1]) if isinstance(body, dict) else None
    for name in [name for name in holder or () if name.removesuffix("?") == steps[-1]]:
        del holder[name]


def _number_rows(rows: list[Any], good: list[Exchange], paging: ByLastId) -> None:
    """Let the member that the next page begins at tell the row's place."""
    for one in good:
        wanted = one.last_row.get(paging.of)
        told = _at(one.body, rows_at(one.pages)) if one.pages is not None else []
        for name, value in (told[-1] if told else {}).items():
            if wanted is not None and (str(value) == wanted or instant(value) == wanted):
                known = next(own for own in rows[0] if own.removesuffix("?") == name)
                is_time = str(value) != wanted or isinstance(paging, ByTime)
                kinds = ("$tick", "$tick_iso") if is_time else ("$place", "$serial")
                rows[0][known] = kinds[isinstance(value, str)]
                return


def _refused(refused: list[Exchange], literals: frozenset[str]) -> Json:
    """The answer to a request for nothing; of its texts those stay that the platform's code looks for."""
    if not refused:
        return {}
    one = refused[0]
    return {"missing": {"status": one.status, "body": _words_of(one.body, literals)}}


def _words_of(body: Any, literals: frozenset[str]) -> Any:
    if isinstance(body, dict):
        return {name: _words_of(inner, literals) for name, inner in body.items() if inner is not ABSENT}
    if isinstance(body, list):
        return [_words_of(inner, literals) for inner in body]
    if isinstance(body, str):
        known = [one for one in literals if len(one) > 3 and one.lower() in body.lower()]
        return max(known, key=len, default="")
    return body


if __name__ == "__main__":
    main(sys.argv[1])
