"""Section 7 as a table: every declared code and every `reason` is produced on a node.

The table is built from the declarations, so a code or reason without a case fails here, as does a reason that the code
sends without declaring it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.docs.errors import REASONS
from gateway.http.codes import CODES
from tests.cases.error_cases import CASES, Case
from tests.cases.files import check_all
from tests.fakes.calling import Answered
from tests.fakes.chromium import Chromium
from tests.fakes.chromium import chromium as chromium  # noqa: PLC0414 - a fixture is found by its name here
from tests.fakes.node import open_test_node
from tests.fakes.patient_clock import BRISKLY
from tests.processes.commands import PROJECT
from tests.upstreams.web.test_scraping import page, scrape, serve
from upstreams.web.browser import page as pictures

UNSENT = {"RESOURCE_NOT_FOUND/captions_disabled", "RESOURCE_NOT_FOUND/video_gone"}
"""Reasons in the specification that no platform can send: none reports why a video has no captions or is missing."""
IN_BROWSER = {"RESOURCE_NOT_FOUND/selector_absent", "RESOURCE_NOT_FOUND/screenshot_too_large"}
"""Reasons that need Chromium; without it their tests are skipped."""
DECLARED = CODES.keys() | REASONS.keys()
TABLE = sorted(DECLARED - UNSENT - IN_BROWSER)
PACKAGES = ("gateway", "scheduler", "events", "billing", "limits", "upstreams")
NO_ERRORS = (
    *("gateway/docs/", "gateway/server/", "gateway/http/websocket.py", "gateway/feed/sinks.py"),
    "upstreams/model/archetypes/",
)
"""Code whose `reason` closes a WebSocket, or describes the reasons of other code."""


def test_every_code_and_reason_has_a_case() -> None:
    assert DECLARED - UNSENT - IN_BROWSER - CASES.keys() == set()
    assert CASES.keys() - DECLARED <= {"CONCURRENCY_LIMIT/credits_held"}, "a case without a declaration"


def test_every_sent_reason_is_declared() -> None:
    """Method: collect the literals in the code where a reason is passed."""
    declared = {one.name for one in REASONS.values()}
    sent = {name: place for path in sources() for name, place in reasons_in(path)}
    assert {name: place for name, place in sent.items() if name not in declared} == {}
    words = {node.value for path in sources() for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
    assert {one.key for one in REASONS.values() if one.name not in words} == UNSENT


def sources() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    return [path for path in found if not str(path.relative_to(PROJECT)).startswith(NO_ERRORS)]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def reasons_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the literals of a module that are passed as reasons of refusals, each with its location."""
    for node in ast.walk(parsed(path)):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in REFUSALS:
            values = [one.value for one in node.keywords if one.arg == "reason"]
            if getattr(node.func, "id", "") == "_unknown":
                values.append(node.args[0])
        if isinstance(node, ast.Dict):
            names = [getattr(key, "value", None) for key in node.keys]
            if "reason" in names and ("param" in names or "next_step" in names or len(names) == 1):
                values = [node.values[names.index("reason")]]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value, f"{path.relative_to(PROJECT)}:{node.lineno}"


REFUSALS = {
    "InvalidParam",
    "InvalidArgument",
    "NotFound",
    "MonitorInvalid",
    "TrackInvalid",
    "WebhookInvalid",
    "JobInvalid",
    "RedeliveryRefused",
    "_unknown",
}


def by_node() -> list[dict[str, Case]]:
    """Return the cases whose nodes have the same settings."""
    groups = defaultdict[str, dict[str, Case]](dict)
    for key in TABLE:
        groups[repr((CASES[key].tables, CASES[key].platforms))][key] = CASES[key]
    return [*groups.values()]


@BRISKLY
@pytest.mark.parametrize("cases", by_node(), ids=lambda cases: next(iter(cases)))
async def test_running_node_returns_each_code_and_reason(
    cases: dict[str, Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case has an account and a key of its own, an empty cache, and no earlier upstream request."""
    first = next(iter(cases.values()))
    platforms: dict[str, Any] = {"platforms": first.platforms} if first.platforms else {}
    async with open_test_node(tmp_path, patience_s=300, **platforms, **first.tables) as node:

        async def check(key: str, case: Case) -> None:
            await node.renew(case.credits)
            with monkeypatch.context() as patching:
                answer = await case.bring(node, patching)
            assert_listed(key, answer, case.charged)
            await node.assert_sound()

        await check_all(cases, check)


def assert_listed(key: str, answer: Answered, charged: int) -> None:
    """Check that an answer is the refusal of this code and reason."""
    (code, _, reason), body = key.partition("/"), answer.json
    error = body["error"]
    assert (error["type"], answer.status) == (code, CODES[code].status), body
    assert not reason or error["details"]["reason"] == reason, body
    details = error.get("details") or {}
    assert not {"reason", "did_you_mean"} <= details.keys(), "only one of the two (7.1)"
    assert "reason" not in details or f"{code}/{details['reason']}" in REASONS
    assert (body["success"], body["credits_used"]) == (False, charged)
    assert error["message"]
    assert error["doc_url"].endswith(f"/docs/errors#{code}")
    assert body["request_id"].startswith("req_")


async def test_running_node_returns_browser_reasons(
    tmp_path: Path, chromium: Chromium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "PNG_LETTERS_MAX", 100)
    monkeypatch.setattr(pictures, "JPEG_LETTERS_MAX", 100)
    arisen = set[str]()
    async with open_test_node(tmp_path, web={"browser_url": chromium.url}, patience_s=300) as node:
        serve(node, {"/a": page()})
        for values in (
            {"wait_for": "#never", "timeout": 25_000},
            {"formats": "screenshot", "screenshot_full_page": "true"},
        ):
            answer = await scrape(node, **values)
            error = answer.json["error"]
            assert (answer.status, answer.json["credits_used"]) == (404, 0), answer.body
            arisen.add(f"{error['type']}/{error['details']['reason']}")
        await node.assert_sound()
    assert arisen == IN_BROWSER
