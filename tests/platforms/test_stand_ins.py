"""The stand-ins: endpoints read from them what the field tables expect, field by field.

These tests need no recordings. They also check that templates contain no recorded values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from tests.platforms.case import Case, from_sandbox, recordings_dir, walk
from tests.platforms.credentials import known_of
from tests.platforms.drive import drive, sandbox_of
from tests.platforms.each import check_endpoints, few_rows, named
from tests.platforms.playing import play
from tests.platforms.stand_in import FOLDER, made_of
from tests.platforms.templates import literals_of, placeholders_in
from tests.platforms.test_recordings import PLATFORMS, cases_of
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page
from upstreams.sandbox.filling import KINDS, PAGE_KINDS
from upstreams.sandbox.made import routes_of
from upstreams.sandbox.rehearse import example_values
from upstreams.sandbox.site import by_host

every_platform = named(PLATFORMS)
MADE = [platform for platform in PLATFORMS if (FOLDER / f"{platform.slug}.json").is_file()]
every_made = named(MADE)

FAILING: dict[str, tuple[str, type[UpstreamError]]] = {
    "missing": ("404", NotFound),
    "throttled": ("429", UpstreamThrottled),
    "broken": ("500", UpstreamFailed),
}


def template(platform: Platform) -> Any:
    return orjson.loads((FOLDER / f"{platform.slug}.json").read_bytes())


def own_words(platform: Platform) -> frozenset[str]:
    """Return the texts in a platform's code and in the code of its cases."""
    return literals_of(f"upstreams.platforms.{platform.slug}") | literals_of(f"tests.platforms.{platform.slug}.cases")


def checked(platform: Platform, case: Case) -> bool:
    """Compare what is read from the stand-in with the case's table.

    Return False if the stand-in receives other calls.
    """
    bodies: list[Any] = []
    sandbox = from_sandbox()

    def upstream(host_and_path: str, call: Call) -> Answer:
        answer = sandbox(host_and_path, call)
        bodies.append(answer.body)
        return answer

    result = drive(platform, case.resource, case.params, upstream, credentials=case.known(known_of(platform)))
    if case.expected is None or len(bodies) != len(case.answers):
        return False
    expected = case.expected(*bodies)
    assert (result.records if isinstance(result, Page) else result.record) == expected, case.name
    return True


@every_platform
def test_stand_in_records_match_the_field_tables(platform: Platform) -> None:
    """A handwritten stand-in is compared only in cases that make the same calls.

    Of several cases with the same parameters, one is compared, because the stand-in answers all of them alike.
    """
    cases = [case for case in cases_of(platform) if case.refused is None]
    alike = {(case.resource, *sorted(case.params), case.without_credentials): case for case in cases}
    told = {case.resource for case in alike.values() if checked(platform, case)}
    assert told
    assert platform not in MADE or {one.resource for one in platform.endpoints} - told == set(), "no case was compared"


@every_made
def test_stand_in_answers_only_calls_to_its_own_platform(platform: Platform) -> None:
    """Goal: a platform that accepts any host does not answer for another one.

    Method: compare with its stand-in alone.
    """
    alone, together = sandbox_of(by_host(routes_of(platform.slug, template(platform)))), from_sandbox()
    for one in platform.endpoints:
        own, other = (
            drive(platform, one.resource, few_rows(one), upstream, credentials=known_of(platform))
            for upstream in (alone, together)
        )
        assert own == other, one.resource


@every_platform
def test_list_is_paged_to_its_end_without_duplicates(platform: Platform) -> None:
    check_endpoints(platform, check_paging)


def check_paging(platform: Platform, one: Endpoint) -> None:
    if not one.archetype.many:
        return
    values = example_values(one)
    if "limit" in values:
        values["limit"] = 20
    pages = walk(platform, one.resource, values, credentials=known_of(platform))
    assert sum(len(page.records) for page in pages) > 0


@every_platform
def test_sandbox_fails_like_its_platform(platform: Platform) -> None:
    """Goal: trigger words cause failures on every endpoint whose request names a subject."""
    check_endpoints(platform, check_failures)


def check_failures(platform: Platform, one: Endpoint) -> None:
    for word, (number, refusal) in FAILING.items():
        fails = any(outcome(platform, one, wanted, refusal) for wanted in subjects(one, word, number))
        assert fails or not names(one), word


def names(one: Endpoint) -> list[str]:
    """Return the parameters that name the subject."""
    required = [param.name for param in one.params if param.required and param.type in ("string", "url")]
    return [*(group[0] for group in one.one_of), *required]


def subjects(one: Endpoint, word: str, number: str) -> Iterator[dict[str, Any]]:
    """Yield the example's values, with a trigger word inside the subject."""
    values = example_values(one)
    for name in names(one):
        example = str(values[name])
        pieces = [(word if kept else number) for kept in (True, False)]
        yield from ({**values, name: piece} for piece in pieces)
        for found in re.finditer(r"[^/:?&=#]+", example):
            yield from ({**values, name: example[: found.start()] + piece + example[found.end() :]} for piece in pieces)


def outcome(platform: Platform, one: Endpoint, values: dict[str, Any], refusal: type[UpstreamError]) -> bool:
    """Return whether a request with these values fails with this error. For "not found", a list may also be empty."""
    try:
        result = drive(platform, one.resource, values, from_sandbox(), credentials=known_of(platform))
    except InvalidArgument:
        return False
    except UpstreamError as told:
        return isinstance(told, refusal)
    return refusal is NotFound and isinstance(result, Page) and not result.records


@every_made
def test_template_contains_only_kinds_and_choices(platform: Platform) -> None:
    """Method: each text in a template is a placeholder, or occurs in the platform's code."""
    known = own_words(platform)
    for call in template(platform)["calls"]:
        for text in placeholders_in(call.get("body", {})):
            kinds = set(re.findall(r"\$([a-z_]+)", text))
            assert kinds <= KINDS | PAGE_KINDS | {"type", "all"}, text
            assert not text or "$" in text or text in known or is_member(call["body"], text), (call["call"], text)


def is_member(body: Any, text: str) -> bool:
    """Return whether a text is the name of a member instead of a value."""
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return (isinstance(body, dict) and text in body) or any(is_member(one, text) for one in inner)


@every_made
def test_template_contains_no_recorded_value(platform: Platform) -> None:
    known = own_words(platform)
    folder = recordings_dir() / platform.slug
    recorded = {value for file in folder.glob("*.json") for value in values_in(orjson.loads(file.read_bytes()))}
    written = set(values_in(template(platform)["calls"]))
    assert {one for one in written & recorded if one not in known and not is_plain(one)} == set()


@every_made
def test_template_is_up_to_date_with_the_cases(platform: Platform) -> None:
    """Goal: templates contain all members that readers read. Method: running the generator again changes nothing."""
    recordings_dir()
    before = template(platform)
    exchanges = [exchange for case in cases_of(platform) for exchange in play(platform, case)]
    assert made_of(platform, exchanges, before) == before


def values_in(body: Any) -> Iterator[Any]:
    if isinstance(body, dict):
        for inner in body.values():
            yield from values_in(inner)
    elif isinstance(body, list):
        for inner in body:
            yield from values_in(inner)
    elif body is not None:
        yield body


def is_plain(value: Any) -> bool:
    """Return whether a value is not recorded data. Small numbers, flags and null are not."""
    return isinstance(value, bool) or value == "" or (isinstance(value, int | float) and abs(value) < 1_000)
