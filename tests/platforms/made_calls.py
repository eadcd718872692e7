"""Generates the calls in a stand-in's file from the exchanges of the platform's cases."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from tests.platforms.playing import Exchange
from tests.platforms.templates import ALL, template_of, with_request
from tests.platforms.traced import ABSENT
from upstreams.model.calls import Pages
from upstreams.model.fields.values import instant
from upstreams.model.paging import ByLastId, ByTime, Paging

Json = dict[str, Any]


def calls_of(pattern: str, found: list[Exchange], literals: frozenset[str]) -> Iterator[Json]:
    """Return the calls to one path. There is one for each value that distinguishes endpoints with this path."""
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
    """Return a body that is not JSON, which must be completed by hand. For a feed, it is a default feed."""
    pages = next((one.pages for one in good if one.pages is not None), None)
    paged = {"rows": "", "paging": _named(pages.paging)} if pages else {}
    if good[0].is_feed:
        return {**paged, "type": "application/rss+xml", "text": _FEED.split("\n"), "row": _ITEM.split("\n")}
    return {**paged, "type": "text/html; charset=utf-8", "text": ["write the page by hand", "$rows"], "row": ["a row"]}


def _when(exchange: Exchange, found: list[Exchange]) -> dict[str, str | None]:
    """Return the values that occur only in this endpoint's requests, if several endpoints have the same path."""
    if len({one.resource for one in found}) == 1:
        return {}
    fixed = {resource: _fixed([one for one in found if one.resource == resource]) for resource in _resources(found)}
    own = fixed.pop(exchange.resource)
    names = {name for other in fixed.values() for name in own.keys() | other.keys() if own.get(name) != other.get(name)}
    return {name: own.get(name) for name in sorted(names)}


def _resources(found: list[Exchange]) -> list[str]:
    return list(dict.fromkeys(one.resource for one in found))


def _fixed(found: list[Exchange]) -> dict[str, str]:
    """Return the values that all of these requests share and that do not come from a parameter."""
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
    """Return the template of the successful answers, and the paging of the list that they contain."""
    if not good:
        return {}
    pages = next((one.pages for one in good if one.pages is not None), None)
    paging = pages.paging if pages is not None else None
    control = {getattr(paging, name, None) for name in ("name", "other", "size")}
    bodies = [with_request(one.body, _values(one, control)) for one in good]
    body = template_of(bodies, "", literals)
    if pages is None or paging is None:
        return {"body": body}
    lists = dict.fromkeys(rows_at(one.pages) for one in good if one.pages is not None)
    for steps in lists:
        if steps and (listed := _at(body, steps)) and listed[0] == ALL:
            del listed[0]
    for name in paging.also:  # the paging object adds these members
        _drop(body, name.split("."))
    if isinstance(paging, ByLastId) and (rows := _at(body, rows_at(pages))):
        _number_rows(rows, good, paging)
    return {"rows": ",".join(map(".".join, lists)), "paging": _named(paging), "body": body}


def _named(paging: Paging) -> Json:
    """Return the paging object to write into the template.

    For a platform's own class, it is the model's class behind it.
    """
    model = next(one for one in type(paging).__mro__ if one.__module__.startswith("upstreams.model.paging"))
    told = {one.name: (getattr(paging, one.name), one.default) for one in dataclasses.fields(model) if one.init}
    return {
        model.__name__: {
            name: value for name, (value, usual) in told.items() if value != usual and name != "size_default"
        }
    }


def rows_at(pages: Pages) -> tuple[str, ...]:
    """Return the path of the rows in a body."""
    return pages._rows._at


def _values(exchange: Exchange, control: set[str | None]) -> dict[str, str]:
    """Return the names of the values in a request, by their text."""
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
    """Replace the member that leads to the next page by a value that depends on the row's position."""
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
    """Return the answer to a request for a missing item. It contains the texts that the platform's code looks for."""
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
