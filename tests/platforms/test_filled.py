"""The fields that endpoints fill, tested with stand-ins that send every member.

Fields that are declared as never filled must be empty, and all others must be filled. A null from an upstream stays
null, and never becomes zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any

import orjson

from tests.platforms.case import from_sandbox
from tests.platforms.credentials import known_of
from tests.platforms.drive import Upstream, drive, sandbox_of, told_as_sent
from tests.platforms.each import check_endpoints, every_platform, few_rows
from tests.platforms.odd import numbers_in
from tests.platforms.stand_in import FOLDER
from upstreams.model.archetypes.shape import Field, Make, fields_of
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import UpstreamError
from upstreams.model.steps import Answer, Call, Form, Page
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.rehearse import example_values
from upstreams.sandbox.site import by_host
from upstreams.sandbox.stand_ins import written_routes

Record = dict[str, Any]
OPEN = frozenset(("ext", "replies", "record"))
"""Members of records to which declarations do not apply."""
OUR_OWN = frozenset(("rank", "max"))
"""Numbers that the gateway computes, such as positions and the highest possible rating."""
SUBJECTS: dict[str, tuple[dict[str, str], ...]] = {
    "hackernews/comment": ({"id": "90000008863005"},),
    "github/profile": ({"handle": "linus"}, {"handle": "torvalds"}),
    "github/repo": ({"url": "ada/project-1"}, {"url": "ada/project-2"}, {"url": "ada/project-3"}),
}
"""Additional requests, for handwritten stand-ins whose records do not all have every field."""

_DIGIT = re.compile(r"(<\?[^>]*>)|\d", re.ASCII)
"""Matches a digit, or the whole XML declaration."""


def records_of(platform: Platform, one: Endpoint, upstream: Upstream, **more: str | int) -> list[Record]:
    values = {**example_values(one), **more}
    credentials = known_of(platform)
    result = drive(platform, one.resource, values, upstream, credentials=credentials)
    return result.records if isinstance(result, Page) else [result.record]


def leaves(make: Make, at: str = "") -> Iterator[str]:
    """Yield the path of each field in a record, including the fields of nested records."""
    for one in fields_of(make):
        if one.name not in OPEN:
            yield from _leaves(one, f"{at}{one.name}")


def _leaves(one: Field, path: str) -> Iterator[str]:
    if one.members:
        for member in one.members:
            yield from _leaves(member, f"{path}.{member.name}")
    elif one.make is not None and one.kind == "object":
        yield from leaves(one.make, f"{path}.")
    else:
        yield path


def above(path: str) -> set[str]:
    """Return the path, and the path of each object that contains it."""
    steps = path.split(".")
    return {".".join(steps[: length + 1]) for length in range(len(steps))}


def filled(record: Record, at: str = "") -> Iterator[str]:
    """Yield the path of each field that has a value."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from filled(value, f"{at}{name}.")
        elif value is not None and value != []:
            yield f"{at}{name}"


def whole(template: Any) -> Any:
    """Return a stand-in's template with all optional members."""
    if isinstance(template, dict):
        return {name.removesuffix("?"): whole(inner) for name, inner in template.items()}
    return [whole(inner) for inner in template] if isinstance(template, list) else template


@cache
def whole_sandbox() -> Upstream:
    """Return stand-ins that send all optional members."""
    made = {file.stem: whole(orjson.loads(file.read_bytes())) for file in FOLDER.glob("*.json")}
    return sandbox_of(by_host((*written_routes(), *(one for slug in made for one in routes_of(slug, made[slug])))))


@every_platform
def test_endpoint_fills_all_fields_except_declared_ones(platform: Platform) -> None:
    """Goal: the fields that Monitors, guides and schemas list are correct. Method: stand-ins that send every member."""
    check_endpoints(platform, check_filled)


def check_filled(platform: Platform, one: Endpoint) -> None:
    if one.archetype.has_legs:
        return
    size = {"limit": 45} if any(param.name == "limit" for param in one.params) else {}
    subjects = ({}, *SUBJECTS.get(f"{platform.slug}/{one.resource}", ()))
    records = [record for more in subjects for record in records_of(platform, one, whole_sandbox(), **size, **more)]
    told = {path for record in records for path in filled(record)}
    assert told & one.unfilled == set(), "declared as never filled"
    lacking = {path for path in leaves(one.archetype.make) if path not in told and not one.unfilled & above(path)}
    assert lacking == set(), "add them to a handmade body, or declare never= (record= for a read with a map)"


@every_platform
def test_null_in_an_upstream_answer_never_becomes_a_number(platform: Platform) -> None:
    """Goal: a null never becomes a number. Method: every value in the answers is null, and pages contain no digits.

    If a read makes several calls, the first answer keeps its values, because the other calls may depend on them.
    """
    check_endpoints(platform, check_nulls)


def check_nulls(platform: Platform, one: Endpoint) -> None:
    if one.archetype.has_legs:
        return
    sandbox, calls, kept = from_sandbox(), count(), list[Any]()
    keeps_first = calls_of(platform, one) > 1

    def upstream(host_and_path: str, call: Call) -> Answer:
        good = sandbox(host_and_path, call)
        if (next(calls) == 0 and keeps_first) or (isinstance(call.accepts, Form) and not isinstance(good.body, str)):
            kept.append(good.body)
            return good
        if isinstance(good.body, str):
            return told_as_sent(good.status, good.headers, _DIGIT.sub(r"\1", good.body))
        return told_as_sent(good.status, good.headers, hollow(good.body))

    with suppress(UpstreamError):
        records = records_of(platform, one, upstream, **few_rows(one))
        told = {path: value for record in records for path, value in numbers(record)}
        assert {path: value for path, value in told.items() if value not in numbers_in(kept)} == {}


def calls_of(platform: Platform, one: Endpoint) -> int:
    made: list[Call] = []
    sandbox = from_sandbox()

    def upstream(host_and_path: str, call: Call) -> Answer:
        made.append(call)
        return sandbox(host_and_path, call)

    records_of(platform, one, upstream, **few_rows(one))
    return len(made)


def hollow(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: hollow(inner) for name, inner in body.items()}
    return [hollow(inner) for inner in body] if isinstance(body, list) and body else None


def numbers(value: Any, at: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in OUR_OWN:
                yield from numbers(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, f"{at}[]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, value
