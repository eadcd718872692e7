"""Answers from generated stand-ins. Each platform has a template file, generated from the members that its readers use.

`made/<slug>.json` contains `calls`. Each has `call`, with its method, host and path (`{name}` is one segment or a part
of the host, `{name*}` is the rest of a path), and `body`, a template (see `filling`). Further members are optional:

- `when`: values of the request that select this call if several calls share its path; null means that the request does
  not have the value.
- `rows`: the path of the list in the body that is paged; "" if the body is that list. Lists that are paged together are
  separated by commas. `of` is the total number of rows, and `paging` is the endpoint's own paging object: `{"ByPage":
  {"name": "page", "size": "per_page"}}`.
- `each`: a value of the request that contains several ids. The list has one row for each id, which is `${each}` in the
  row. Ids that contain `missing` or are 404 are omitted. `parts` is a pattern for these ids, and its groups are also
  values: `at://{did}/{kind}/{key}`.
- `text`: the lines of a body that is not JSON. `$rows` among them is replaced by the rows; the lines of one row are in
  `row`. Values of the paging object are available by the names of their members, such as `$next` for `ByToken("before",
  "next")`. The content type is `type`.
- `headers`: the headers of the answer, also a template.
- `missing`, `throttled`, `broken`: the answer if a value of the request contains that word or is 404, 429 or 500, with
  `status`, `body` and `headers`; or "empty" for the usual answer without rows. `failures` has the answers for the whole
  platform.

The file's `aliases` map further hosts to the host in its calls. If the calls accept any host and share paths with
another platform, the `aliases` are the hosts that belong to this platform: `{"video.example": "{instance}"}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any
from urllib.parse import urlencode

from upstreams.model import paging
from upstreams.model.fields.values import instant
from upstreams.model.paging import ByTime, Once, Paging, StandInPage
from upstreams.sandbox.filling import Filling, number_of, place_of_tick
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, expression, route

_ROWS = 45
"""The number of rows in every list, which fill three pages of the default size."""
_FAILURES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "missing": ("404", {"status": 404, "body": {}}),
    "throttled": ("429", {"status": 429, "headers": {"retry-after": "30"}, "body": {}}),
    "broken": ("500", {"status": 500, "body": {}}),
}
"""For each trigger word: the number with the same effect, and the answer for platforms that do not define their own."""
_EMPTY = "empty"
_PARTS = re.compile("[|;,]")
"""Separates several values in one member."""

Template = Mapping[str, Any]


def routes_of(slug: str, made: Template) -> Iterator[SandboxRoute]:
    """Yield the routes of one template file."""
    hosts: dict[str, list[str]] = {}
    for alias, host in made.get("aliases", {}).items():
        hosts.setdefault(host, []).append(alias)
    for template in made["calls"]:
        method, _, place = template["call"].partition(" ")
        host, _, path = place.partition("/")
        when = template.get("when", {})
        rest, rows = _split_rows(template)
        call = _Call(f"{slug}/{place}", rest, made.get("failures", {}), paging_of(template), rows)
        takes = partial(_takes, method, when)
        own = replace(route(host, f"/{path}", call.answer, takes=takes), conditions=len(when))
        yield own
        for one in hosts.get(host, ()):
            answer = partial(_answer_at, one, host, call)
            yield replace(own, host=one, answer=answer)


def _answer_at(alias: str, host: str, call: _Call, request: SandboxRequest) -> SandboxReply:
    """Return the answer at an alias host. If the host in the calls is a parameter, the alias replaces it."""
    named = {host[1:-1]: alias} if host.startswith("{") else {}
    return call.answer(replace(request, found={**named, **request.found}))


def paging_of(template: Template) -> Paging:
    """Return the paging object of a call. A list without paging has a single page."""
    for name, members in template.get("paging", {}).items():
        found: Paging = getattr(paging, name)(**members)
        return found
    return Once(size="", size_max=_ROWS)


def _split_rows(template: Template) -> tuple[Template, list[list[Any]]]:
    """Return the call without the rows in its body, and the rows of each of its lists."""
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
    """One platform call, with the templates of its answers."""

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
        failure = self._failure(self._trigger_part(name, subject[name]) for name in subject if name not in self._fixed)
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
        """Values that identify the call and nothing else."""
        found: Mapping[str, Any] = self.template.get("when", {})
        return found

    def _trigger_part(self, name: str, value: str) -> str:
        """Return the part of a value that can trigger a failure of the whole call.

        If the value is a list of ids, ids that do not exist are left out, unless that leaves none.
        """
        ids = _ids_in(value) if name == self.template.get("each") else []
        return ",".join(_existing(ids)) or value

    def _failure(self, subject: Iterable[str]) -> Any:
        """Return the answer that the trigger word in the request selects."""
        texts = tuple(subject)
        for word, (number, usual) in _FAILURES.items():
            if any(word in value or number in _PARTS.split(value) for value in texts):
                return self.template.get(word, self.failures.get(word, usual))
        return None

    def _requested(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return the values of the request. A timestamp that identifies a row is replaced by the row's position."""
        if not isinstance(self.pages, ByTime) or self.pages.name not in values:
            return values
        tick = values[self.pages.name]
        moment = instant(int(tick) if tick.isdecimal() else tick)
        return {**values, self.pages.name: str(place_of_tick(moment))} if moment else values

    def _body(self, filling: Filling, served: StandInPage) -> SandboxReply:
        """Return the filled template, with its rows if it has any."""
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
        ids = _existing(_ids_in(filling.values.get(several, "")))[: served.stop]
        return [self._of_id(filling, one).rows(templates, range(1))[0] for one in ids]

    def _of_id(self, filling: Filling, one: str) -> Filling:
        found = expression(self.template.get("parts", "")).fullmatch(one)
        values = {**filling.values, "each": one, **(found.groupdict() if found else {})}
        return replace(filling, values=values, seed=f"{self.seed}/{one}")


def _ids_in(value: str) -> list[str]:
    return [one for one in value.replace(";", ",").split(",") if one]


def _existing(ids: Iterable[str]) -> list[str]:
    """Return the ids that are not marked as missing."""
    number = _FAILURES["missing"][0]
    return [one for one in ids if "missing" not in one and one != number]


_NO_SUBJECT = frozenset(("host", "path"))
"""Values that every request has."""


def _paths(template: Template) -> list[list[str]]:
    """Return the paths of the lists that contain rows."""
    return [path.split(".") for path in template["rows"].split(",")]


def _at(body: Any, steps: list[str]) -> Any:
    """Return the value at a path of objects, creating missing objects."""
    for step in steps:
        body = body.setdefault(step, {})
    return body


def _reply(template: Template, filling: Filling) -> SandboxReply:
    headers = filling.fill(template.get("headers", {}), "headers")
    return SandboxReply(filling.fill(template.get("body", {})), template.get("status", 200), headers, has_grown=True)


def _document(template: Template, filling: Filling, served: StandInPage) -> SandboxReply:
    """Return a body that is not JSON: its lines, with `$rows` replaced by the lines of the rows."""
    places = range(served.start, served.stop) if "row" in template else range(0)
    within = replace(filling, escape=escape)
    rows = [line for row in within.rows([["$all", *template.get("row", ())]], places) for line in row]
    page_values = {name: "" if value is None else value for name, value in served.members.items()}
    whole = replace(within, page={**page_values, "rows": "\n".join(rows)})
    lines = [whole.fill(line, str(number_of(line))) for line in template["text"]]
    headers = {"content-type": template.get("type", "text/html; charset=utf-8")}
    return SandboxReply("\n".join(lines), headers={**headers, **filling.fill(template.get("headers", {}), "headers")})
