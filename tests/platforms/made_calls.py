"""Generates the calls in a stand-in's file from the exchanges of the platform's cases."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.platforms.playing import Exchange
from tests.platforms.templates import ALL, template_of, with_request
from tests.platforms.traced import ABSENT
from upstreams.model.calls import Pages
from upstreams.model.errors import NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.fields.values import instant
from upstreams.model.paging import ByLastId, ByTime, Paging

Json = dict[str, Any]


class MadeCall(NamedTuple):
    """A call for a stand-in's file, the exchanges that it stands for, and what a person should know about it."""

    call: Json
    exchanges: list[Exchange]
    notes: Sequence[str] = ()
    """Lines that begin with `dropped:` or `warning:`."""


def calls_of(
    pattern: str, found: list[Exchange], literals: frozenset[str], before: Sequence[Json]
) -> Iterator[MadeCall]:
    """Return the calls to one path. There is one for each value that distinguishes endpoints with this path.

    `before` are the calls to this path in the previous file. If the call of a list also serves records, it stays.
    """
    serves_both = any("rows" in call and None not in call.get("when", {}).values() for call in before)
    conditions = conditions_of(found, separates=not serves_both)
    groups: dict[str, list[Exchange]] = {}
    for exchange in found:
        groups.setdefault(str(conditions[exchange.resource]), []).append(exchange)
    for group in groups.values():
        when = conditions[group[0].resource]
        head: Json = {"call": pattern, **({"when": when} if when else {})}
        yield _call(head, group, literals)


def _call(head: Json, group: list[Exchange], literals: frozenset[str]) -> MadeCall:
    good = [one for one in group if one.refusal is None]
    refused, notes = _refused([one for one in group if one.refusal is not None], literals)
    if good and isinstance(good[0].body, str):
        others = [one for one in good if not isinstance(one.body, str)]
        notes += [f"dropped: the JSON answer of {one.resource}, because another answer is a text" for one in others]
        return MadeCall({**head, **_text(good), **refused}, group, notes)
    if mixed := _records_beside_lists(good):
        lists = [one for one in good if one not in mixed]
        notes.append(
            f"warning: {_resources(mixed)} reads one record and {_resources(lists)} a list, and no value in their "
            f"requests distinguishes them. Write both calls with `by_hand`. dropped: the record of {_resources(mixed)}"
        )
        return MadeCall({**head, "by_hand": True, **_answered(lists, literals, notes), **refused}, group, notes)
    if unpaged := [one for one in good if one.is_unpaged]:
        notes.append(f"warning: {_resources(unpaged)} has no paging object. Set `by_hand` and write `rows`, `paging`")
    if not good:
        notes.append("warning: no case has a successful answer, so the body is empty")
    return MadeCall({**head, **_answered(good, literals, notes), **refused}, group, notes)


def _resources(found: Iterable[Exchange]) -> str:
    return ", ".join(sorted({one.resource for one in found}))


def _records_beside_lists(good: Sequence[Exchange]) -> list[Exchange]:
    """Return the answers of endpoints that find no list where others in the same call find their rows."""
    paths = {rows_at(one.pages) for one in good if one.pages is not None}
    singles = [one for one in good if one.pages is None and not isinstance(one.body, str)]
    with_list = {one.resource for one in singles if all(_has_list(one.body, steps) for steps in paths)}
    return [one for one in singles if paths and one.resource not in with_list]


def _has_list(body: Any, steps: Sequence[str]) -> bool:
    for step in steps:
        body = body.get(step) if isinstance(body, dict) else None
    return isinstance(body, list)


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


def conditions_of(found: list[Exchange], *, separates: bool) -> dict[str, dict[str, str | None]]:
    """Return the values of a request that select each endpoint, if several endpoints have the same path.

    They are the fixed values in which the endpoints differ. If a list and a single record have none, the list is
    selected by the absence of the value that identifies the record, such as `{"id": null}`: with `separates` always,
    otherwise only if one template cannot serve both.
    """
    grouped: dict[str, list[Exchange]] = {}
    for one in found:
        grouped.setdefault(one.resource, []).append(one)
    fixed = {resource: _fixed(own) for resource, own in grouped.items()}
    sent = {resource: _sent(own) for resource, own in grouped.items()}
    conditions = {resource: _unlike(resource, fixed, sent) for resource in grouped}
    if not separates and not _records_beside_lists([one for one in found if one.refusal is None]):
        return conditions
    for resource, own in grouped.items():
        for other, theirs in grouped.items():
            if conditions[resource] == conditions[other] and _is_list(own) and not _is_list(theirs):
                always = set.intersection(*(set(one.request.sent) for one in theirs))
                named = always - sent[resource] - _controls(own)
                conditions[resource] = {**conditions[resource], **dict.fromkeys(sorted(named))}
    return conditions


def _sent(found: Iterable[Exchange]) -> set[str]:
    """Return the names of all values that these requests may have."""
    return {name for one in found for name in one.request.sent.keys() | one.varying}


def _unlike(resource: str, fixed: Mapping[str, Json], sent: Mapping[str, set[str]]) -> dict[str, str | None]:
    """Return the values in which one endpoint always differs from another. A value that it never sends is None."""
    own = fixed[resource]
    names = {
        name
        for other, theirs in fixed.items()
        for name in own.keys() | theirs.keys()
        if own.get(name) != theirs.get(name)
        and (name in own or name not in sent[resource])
        and (name in theirs or name not in sent[other])
    }
    return {name: own.get(name) for name in sorted(names)}


def _is_list(found: Iterable[Exchange]) -> bool:
    return any(one.pages is not None for one in found)


def _controls(found: Iterable[Exchange]) -> set[str]:
    """Return the members of requests that select a page."""
    pagings = [one.pages.paging for one in found if one.pages is not None]
    return {getattr(paging, name, "") for paging in pagings for name in ("name", "other", "size")}


def _fixed(found: list[Exchange]) -> dict[str, str]:
    """Return the values that all of these requests share.

    Values from a parameter are not fixed, and neither are values that depend on the time, on a credential, or on a
    choice of the caller.
    """
    given = {str(value) for one in found for value in one.params.values()}
    varying = {name for one in found for name in one.varying}
    first = {**found[0].request.query, **_json_values(found[0])}
    return {
        name: value
        for name, value in first.items()
        if value not in given
        and name not in varying
        and not value.isdecimal()
        and all({**one.request.query, **_json_values(one)}.get(name) == value for one in found)
    }


def _json_values(exchange: Exchange) -> dict[str, str]:
    json = exchange.request.json
    return {name: value for name, value in json.items() if isinstance(value, str)} if isinstance(json, dict) else {}


def _answered(good: list[Exchange], literals: frozenset[str], notes: list[str]) -> Json:
    """Return the template of the successful answers, and the paging of the list that they contain."""
    if not good:
        return {}
    pages = next((one.pages for one in good if one.pages is not None), None)
    paging = pages.paging if pages is not None else None
    bodies = [with_request(one.body, _values(one, _controls(good))) for one in good]
    body = template_of(bodies, "", literals, notes)
    if pages is None or paging is None:
        return {"body": body}
    if any(one.pages is not None and _named(one.pages.paging) != _named(paging) for one in good):
        notes.append(f"dropped: the paging of some of {_resources(good)}, because one call has one paging object")
    wanted = dict.fromkeys(rows_at(one.pages) for one in good if one.pages is not None)
    lists = [steps for steps in wanted if isinstance(_required(body, steps), list)]
    if len(lists) < len(wanted):
        notes.append(f"warning: {_resources(good)} builds its rows from other members. Write the call with `by_hand`")
        return {"body": body}
    for steps in lists:
        if steps and (listed := _at(body, steps)) and listed[0] == ALL:
            del listed[0]
    for name in paging.also:  # the paging object adds these members
        _drop(body, name.split("."))
    if isinstance(paging, ByLastId) and (rows := _at(body, rows_at(pages))):
        _number_rows(rows, good, paging)
    return {"rows": ",".join(map(".".join, lists)), "paging": _named(paging), "body": body}


def _required(body: Any, steps: Sequence[str]) -> Any:
    """Return the template at a path, and make the members on the path part of every answer."""
    for step in steps:
        if not isinstance(body, dict):
            return None
        if f"{step}?" in body:
            body[step] = body.pop(f"{step}?")
        body = body.get(step)
    return body


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


def _values(exchange: Exchange, control: set[str]) -> dict[str, str]:
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
                known = next((own for own in rows[0] if own.removesuffix("?") == name), name)
                is_time = str(value) != wanted or isinstance(paging, ByTime)
                kinds = ("$tick", "$tick_iso") if is_time else ("$place", "$serial")
                rows[0][known] = kinds[isinstance(value, str)]
                return


_TRIGGERS: Mapping[type[UpstreamError], str] = {
    NotFound: "missing", UpstreamThrottled: "throttled", UpstreamFailed: "broken"
}  # fmt: skip


def _refused(refused: list[Exchange], literals: frozenset[str]) -> tuple[Json, list[str]]:
    """Return the answer for each trigger word, and notes on refusals without one.

    An answer contains the texts that the platform's code looks for.
    """
    found: Json = {}
    notes: list[str] = []
    for one in refused:
        word = next((word for kind, word in _TRIGGERS.items() if isinstance(one.refusal, kind)), "")
        told = {"status": one.status, "body": _words_of(one.body, literals)}
        if word == "throttled":
            told["headers"] = {"retry-after": "30"}
        if not word or found.setdefault(word, told) != told:
            why = f"`{word}` has another one" if word else "no trigger word selects it"
            notes.append(f"dropped: the {one.status} of {one.resource} ({type(one.refusal).__name__}), because {why}")
    return found, notes


def _words_of(body: Any, literals: frozenset[str]) -> Any:
    if isinstance(body, dict):
        return {name: _words_of(inner, literals) for name, inner in body.items() if inner is not ABSENT}
    if isinstance(body, list):
        return [_words_of(inner, literals) for inner in body]
    if isinstance(body, str):
        known = [one for one in literals if len(one) > 3 and one.lower() in body.lower()]
        return max(known, key=len, default="")
    return body
