"""Answers by a made stand-in: a template file a platform, which a tool writes from what its readers touch.

`made/<slug>.json` holds `calls`, each with `call`, its method, host and path (`{name}` is one segment or a part of the
host, `{name*}` the rest of a path), and `body`, a template (see `filling`). The further members are optional:

- `when`: values of the request that belong to this call, where others share its path; null for one that is not sent.
- `rows`: the path of the list in the body that is paged, "" where the body is that list; of several lists that are
  paged together the paths, with commas between. `of`, how many there are in all; and `paging`, the endpoint's own
  paging object: `{"ByPage": {"name": "page", "size": "per_page"}}`.
- `each`: a value of the request that holds several ids; the list has one row for each, which is `${each}` in it. Those
  with `missing` or that are 404 are left out. `parts` is a pattern of such an id, whose groups are values too:
  `at://{did}/{kind}/{key}`.
- `text`: the lines of a body that is no JSON, `$rows` among them in the place of the rows, each of the lines `row`, and
  what the paging object tells by the name of its member, `$next` of `ByToken("before", "next")`; its content type is
  `type`.
- `headers` of the answer, also a template.
- `missing`, `throttled`, `broken`: the answer where a value of the request holds that word or is 404, 429 or 500, with
  `status`, `body` and `headers`; or "empty". Those of the whole platform are in `failures`.

`aliases` of the file leads from further hosts to the one that its calls name. Where the calls take any host and share
paths with another platform's, it leads from those hosts that are this platform's: `{"video.example": "{instance}"}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import orjson

from upstreams.model import paging
from upstreams.model.paging import ByTime, Once, Paging, StandInPage
from upstreams.model.values import instant
from upstreams.sandbox.filling import Filling, number_of, place_of_tick
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, expression, route

_ROWS = 45
"""Rows of every list: three pages of the default size."""
_FAILURES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "missing": ("404", {"status": 404, "body": {}}),
    "throttled": ("429", {"status": 429, "headers": {"retry-after": "30"}, "body": {}}),
    "broken": ("500", {"status": 500, "body": {}}),
}
"""By the word that asks for it: the number that does too, and the answer of a platform that has none of its own."""
_EMPTY = "empty"
_PARTS = re.compile("[|;,]")
"""Stands between several values of one member."""

Template = Mapping[str, Any]


def made_routes() -> Iterator[SandboxRoute]:
    """The routes of every made stand-in."""
    for file in sorted(files(__package__).joinpath("made").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".json"):
            yield from routes_of(file.name.removesuffix(".json"), orjson.loads(file.read_bytes()))


def routes_of(slug: str, made: Template) -> Iterator[SandboxRoute]:
    """The routes of one template file."""
    hosts: dict[str, list[str]] = {}
    for alias, host in made.get("aliases", {}).items():
        hosts.setdefault(host, []).append(alias)
    for template in made["calls"]:
        method, _, place = template["call"].partition(" ")
        host, _, path = place.partition("/")
        when = template.get("when", {})
        rest, rows = _parted(template)
        call = _Call(f"{slug}/{place}", rest, made.get("failures", {}), paging_of(template), rows)
        takes = partial(_takes, method, when)
        own = replace(route(host, f"/{path}", call.answer, takes=takes), conditions=len(when))
        yield own
        for one in hosts.get(host, ()):
            answer = partial(_answer_at, one, host, call)
            yield replace(own, host=one, answer=answer)


def _answer_at(alias: str, host: str, call: _Call, request: SandboxRequest) -> SandboxReply:
    """The answer at a further host, which stands in the place of the calls' own where that is a parameter."""
    named = {host[1:-1]: alias} if host.startswith("{") else {}
    return call.answer(replace(request, found={**named, **request.found}))


def paging_of(template: Template) -> Paging:
    """The paging object of a call; a list without one has a single page."""
    for name, members in template.get("paging", {}).items():
        found: Paging = getattr(paging, name)(**members)
        return found
    return Once(size="", size_max=_ROWS)


def _parted(template: Template) -> tuple[Template, list[list[Any]]]:
    """The call without the rows of its body, and these, list by list."""
    if "rows" not in template or "body" not in template:
        return template, []
    if not template["rows"]:
        return {**template, "body": []}, [template["body"]]
    body = deepcopy(template["body"])
    rows = [_at(body, above).pop(last) for *above, last in _paths(template)]
    return {**template, "body": body}, rows


def _takes(method: str, when: Mapping[str, str | None], request: SandboxRequest) -> bool:
    if request.method != method:
        return False
    values = request.values if when else {}
    return all(values.get(name) == value for name, value in when.items())


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a platform, and the answers to it."""

    seed: str
    template: Template
    failures: Template
    pages: Paging
    row_templates: list[list[Any]]

    def answer(self, request: SandboxRequest) -> SandboxReply:
        values = request.values
        paged = {getattr(self.pages, name, "") for name in ("name", "other", "size")}
        subject = {name: values[name] for name in sorted(values.keys() - paged - (_NO_SUBJECT - request.found.keys()))}
        filling = Filling(values, f"{self.seed}/{'/'.join(subject.values())}", request.steps)
        failure = self._failure(self._deciding(name, subject[name]) for name in subject if name not in self._fixed)
        if failure is not None and failure != _EMPTY:
            return _reply(failure, filling)
        served = self.pages.serve(self._requested(values), 0 if failure else self.template.get("of", _ROWS))
        reply = _document(self.template, filling, served) if "text" in self.template else self._body(filling, served)
        if not served.link:
            return replace(reply, headers={**reply.headers, **served.headers})
        query = urlencode({**request.query, **served.link})
        return replace(reply, headers={"link": f'<https://{request.host}{request.path}?{query}>; rel="next"'})

    @property
    def _fixed(self) -> Mapping[str, Any]:
        """The values that only say which call it is."""
        found: Mapping[str, Any] = self.template.get("when", {})
        return found

    def _deciding(self, name: str, value: str) -> str:
        """The part of a value that may ask for a failure of the whole call: of several ids those that are there."""
        ids = _ids_in(value) if name == self.template.get("each") else []
        return ",".join(_there(ids)) or value

    def _failure(self, subject: Iterable[str]) -> Any:
        """The answer that a word of the request asks for."""
        told = tuple(subject)
        for word, (number, usual) in _FAILURES.items():
            if any(word in value or number in _PARTS.split(value) for value in told):
                return self.template.get(word, self.failures.get(word, usual))
        return None

    def _requested(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """The request's values; the instant that names a row is its place."""
        if not isinstance(self.pages, ByTime) or self.pages.name not in values:
            return values
        asked = values[self.pages.name]
        moment = instant(int(asked) if asked.isdecimal() else asked)
        return {**values, self.pages.name: str(place_of_tick(moment))} if moment else values

    def _body(self, filling: Filling, served: StandInPage) -> SandboxReply:
        """The filled template, with its rows where it has some."""
        reply = _reply(self.template, filling)
        if "rows" not in self.template:
            return reply
        lists = [self._rows(filling, served, templates) for templates in self.row_templates]
        if not self.template["rows"]:
            return replace(reply, body=lists[0])
        for name, value in {
            **dict(zip(self.template["rows"].split(","), lists, strict=True)),
            **served.members,
        }.items():
            *above, last = name.split(".")
            _at(reply.body, above)[last] = value
        return reply

    def _rows(self, filling: Filling, served: StandInPage, templates: list[Any]) -> list[Any]:
        several = self.template.get("each")
        if several is None:
            rows = filling.rows(templates, range(served.start, served.stop))
            return rows[::-1] if getattr(self.pages, "newest_last", False) else rows
        ids = _there(_ids_in(filling.values.get(several, "")))[: served.stop]
        return [self._of_id(filling, one).rows(templates, range(1))[0] for one in ids]

    def _of_id(self, filling: Filling, one: str) -> Filling:
        found = expression(self.template.get("parts", "")).fullmatch(one)
        values = {**filling.values, "each": one, **(found.groupdict() if found else {})}
        return replace(filling, values=values, seed=f"{self.seed}/{one}")


def _ids_in(value: str) -> list[str]:
    return [one for one in value.replace(";", ",").split(",") if one]


def _there(ids: Iterable[str]) -> list[str]:
    """The ids that are not asked for as missing."""
    number = _FAILURES["missing"][0]
    return [one for one in ids if "missing" not in one and one != number]


_NO_SUBJECT = frozenset(("host", "path"))
"""Values that every request has."""


def _paths(template: Template) -> list[list[str]]:
    """The paths of the lists that have rows."""
    return [path.split(".") for path in template["rows"].split(",")]


def _at(body: Any, steps: list[str]) -> Any:
    """The value at a path of objects, which are made where they are not there."""
    for step in steps:
        body = body.setdefault(step, {})
    return body


def _reply(template: Template, filling: Filling) -> SandboxReply:
    headers = filling.fill(template.get("headers", {}), "headers")
    return SandboxReply(filling.fill(template.get("body", {})), template.get("status", 200), headers, has_grown=True)


def _document(template: Template, filling: Filling, served: StandInPage) -> SandboxReply:
    """A body that is no JSON: its lines, with those of the rows in the place of `$rows`."""
    places = range(served.start, served.stop) if "row" in template else range(0)
    within = replace(filling, escape=escape)
    rows = [line for row in within.rows([["$all", *template.get("row", ())]], places) for line in row]
    told = {name: "" if value is None else value for name, value in served.members.items()}
    whole = replace(within, page={**told, "rows": "\n".join(rows)})
    lines = [whole.fill(line, str(number_of(line))) for line in template["text"]]
    headers = {"content-type": template.get("type", "text/html; charset=utf-8")}
    return SandboxReply("\n".join(lines), headers={**headers, **filling.fill(template.get("headers", {}), "headers")})
