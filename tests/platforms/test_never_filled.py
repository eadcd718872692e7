"""A field that an endpoint is known to leave out is null in every answer, and every other field is told by some answer.

Monitors take or refuse paths by it. The answers are those of the cases, and of the stand-ins page after page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.platforms.case import Case, drive, from_recordings, from_sandbox
from tests.platforms.test_recordings import PLATFORMS, cases_of
from upstreams.model.archetypes.shape import Field, fields_of
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import State
from upstreams.model.steps import Page, Single
from upstreams.sandbox.rehearse import example_values

_PAGES = 3
RECORDED = (Path(__file__).resolve().parents[3] / "shared" / "recordings").is_dir()


def seldom_of(platform: Platform) -> Mapping[str, tuple[str, ...]]:
    """The fields that an endpoint fills though no answer here has them, by its resource: `SELDOM` in its cases."""
    cases = import_module(f"tests.platforms.{platform.slug}.cases")
    seldom: Mapping[str, tuple[str, ...]] = getattr(cases, "SELDOM", {})
    return seldom


def filled_in(record: Mapping[str, Any], fields: Iterable[Field], prefix: str = "") -> Iterator[str]:
    """The fields of a record that tell something, with dots; `ext` and what lists hold are not looked into."""
    for field in fields:
        value, path = record.get(field.name), f"{prefix}{field.name}"
        if field.kind == "object" and not field.is_open and isinstance(value, dict):
            yield from filled_in(value, fields_of(field.make) if field.make else field.members, f"{path}.")
        elif value not in (None, [], {}):
            yield path


def all_fields(fields: Iterable[Field], prefix: str = "") -> Iterator[str]:
    for field in fields:
        path = f"{prefix}{field.name}"
        if field.is_open:
            continue
        if field.kind == "object":
            yield from all_fields(fields_of(field.make) if field.make else field.members, f"{path}.")
        else:
            yield path


def results_of(platform: Platform) -> Iterator[tuple[Endpoint, Page | Single]]:
    """Every good answer that the platform's cases and its stand-in give."""
    endpoints = {one.resource: one for one in platform.endpoints}
    for case in cases_of(platform):
        if case.refused is None and (RECORDED or all(not isinstance(body, str) for body in case.answers.values())):
            yield endpoints[case.resource], answer_of(platform, case)
    for one in platform.endpoints:
        cursor: State | None = None
        for _ in range(_PAGES):
            credentials = {name: f"{name}.test" for name in platform.credentials}
            values = example_values(one)
            result = drive(platform, one.resource, values, from_sandbox(), cursor=cursor, credentials=credentials)
            yield one, result
            cursor = result.next if isinstance(result, Page) else None
            if cursor is None:
                break


def answer_of(platform: Platform, case: Case) -> Page | Single:
    upstream = from_recordings(platform.slug, case.answers)
    return drive(platform, case.resource, case.params, upstream, credentials=case.credentials)


@pytest.mark.parametrize("platform", PLATFORMS, ids=[platform.slug for platform in PLATFORMS])
def test_a_field_is_known_to_be_left_out_or_told_by_some_answer(platform: Platform) -> None:
    filled: dict[str, set[str]] = defaultdict(set)
    for one, result in results_of(platform):
        fields = fields_of(one.archetype.make)
        records = result.records if isinstance(result, Page) else [result.record]
        filled[one.resource].update(path for record in records for path in filled_in(record, fields))
        if isinstance(result, Page) and result.total is not None:
            filled[one.resource].add("total")
    wrong, silent = {}, {}
    for one in platform.endpoints:
        known = {*all_fields(fields_of(one.archetype.make)), *(("total",) if one.archetype.many else ())}
        seldom = set(seldom_of(platform).get(one.resource, ()))
        wrong[one.resource] = sorted(one.unfilled & filled[one.resource])
        silent[one.resource] = sorted(known - one.unfilled - filled[one.resource] - seldom)
    assert {name: paths for name, paths in wrong.items() if paths} == {}, "known to be left out, and told"
    assert {name: paths for name, paths in silent.items() if paths} == {}, "told by no answer: declare them in `never`"
