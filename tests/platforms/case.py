"""Recorded exchanges as cases. A case states which endpoint a recording belongs to, and which result is expected.

The `cases.py` of each folder contains `CASES`, and the test in the folder runs `check(PLATFORM, case)` for each of
them. The same cases are also run through the whole gateway, so each one contains everything that a request needs.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pytest

from tests.platforms.drive import NOW_AT, Upstream, drive, from_sandbox, told_as_sent
from upstreams.model.endpoint import Platform
from upstreams.model.errors import NotFound, UpstreamError
from upstreams.model.params import State
from upstreams.model.steps import Answer, Call, Page, Session, Single

__all__ = ["NOW_AT", "Case", "check", "drive", "from_recordings", "from_sandbox", "recordings_dir", "walk"]

Record = dict[str, Any]
_PAGES_MAX = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A request, and the recordings that answer its calls."""

    name: str
    resource: str
    params: Mapping[str, str | int]
    answers: Mapping[str, Any]
    """The recordings that answer the calls, in order.

    The keys are the `host/path` of each upstream request, without the query. A value is a file in the platform's folder
    of recordings, a folder and a file of another platform, or a handmade body.
    """
    expected: Callable[..., list[Record] | Record] | None = None
    """Builds the expected records, without computed fields. It receives the recorded bodies in the order of `answers`.
    """
    has_more: bool | None = None
    total: int | None = None
    refused: type[UpstreamError] | None = None
    reason: str | None = None
    credentials: Mapping[str, str] = field(default_factory=dict)
    without_credentials: bool = False
    """Whether the case runs without credentials, so that another source is called."""

    def known(self, usual: Mapping[str, str]) -> Mapping[str, str]:
        """Return the case's own credentials.

        If it has none, return the usual ones, unless the case must run without credentials.
        """
        return self.credentials or ({} if self.without_credentials else usual)


def recordings_dir() -> Path:
    """Return the folder of recordings, which is next to the project.

    If it does not exist, the test is skipped, or it fails if recordings are required.
    """
    folder = Path(__file__).resolve().parents[3] / "shared" / "recordings"
    if folder.is_dir():
        return folder
    sentence = "the recorded exchanges are not here: put them at ../shared/recordings beside the project"
    if os.environ.get("CI") or os.environ.get("SLUICE_REQUIRE_RECORDINGS"):
        pytest.fail(sentence)
    pytest.skip(sentence)


def recorded(slug: str, file: Any) -> Answer:
    """Return the answer that a recording contains. A handmade body is an answer already."""
    if not isinstance(file, str):
        return told_as_sent(200, {}, file)
    response = orjson.loads((recordings_dir() / (file if "/" in file else f"{slug}/{file}")).read_bytes())["response"]
    headers = {name: _header(value) for name, value in (response["headers"] or {}).items()}
    exact = response.get("body_base64")
    return told_as_sent(response["status"] or 200, headers, b64decode(exact) if exact else response["body"])


def _header(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def file_for(answers: Mapping[str, Any], host_and_path: str) -> Any:
    """Return the recording for `host/path`, ignoring percent-encoding and case in the path."""
    files = {place.lower(): file for place, file in answers.items()}
    return files.get(host_and_path.lower()) or files.get(unquote(host_and_path).lower())


def from_recordings(slug: str, answers: Mapping[str, Any]) -> Upstream:
    """Return an upstream that answers with the case's recordings. Optional calls that have no recording return 404."""

    def answer(host_and_path: str, call: Call) -> Answer:
        file = file_for(answers, host_and_path)
        if file is None:
            assert call.optional, f"the case has no recording for {host_and_path}"
            return Answer(404, {}, {})
        return recorded(slug, file)

    return answer


def check(platform: Platform, case: Case) -> None:
    """Run the case's request over its recordings, and compare the result field by field."""
    upstream = from_recordings(platform.slug, case.answers)
    if case.refused is not None:
        with pytest.raises(case.refused) as refusal:
            drive(platform, case.resource, case.params, upstream, credentials=case.credentials)
        assert not isinstance(refusal.value, NotFound) or case.reason == refusal.value.reason
        return
    assert case.expected is not None, "a case needs an expected record or refusal"
    result = drive(platform, case.resource, case.params, upstream, credentials=case.credentials)
    expected = case.expected(*(recorded(platform.slug, file).body for file in case.answers.values()))
    if isinstance(result, Single):
        assert result.record == expected
        return
    assert result.records == expected
    assert case.has_more is None or (result.next is not None) == case.has_more
    assert case.total is None or result.total == case.total


def walk(
    platform: Platform,
    resource: str,
    params: Mapping[str, str | int],
    *,
    credentials: Mapping[str, str] | None = None,
    id_of: Callable[[Record], object] = lambda record: record["id"] or str(record),
) -> list[Page]:
    """Return all pages of a stand-in's list, and check that no id occurs twice. The list is read in one session."""
    upstream, sessions = from_sandbox(), dict[str, Session]()
    pages: list[Page] = []
    cursor: State | None = None
    while not pages or cursor is not None:
        assert len(pages) < _PAGES_MAX, "the stand-in has no last page"
        page = drive(platform, resource, params, upstream, cursor=cursor, credentials=credentials, sessions=sessions)
        assert isinstance(page, Page)
        pages.append(page)
        cursor = page.next
    ids = [id_of(record) for page in pages for record in page.records]
    assert len(ids) == len(set(ids)), "an id was returned twice"
    return pages
