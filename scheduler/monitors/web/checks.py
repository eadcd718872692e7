"""Evaluates a web check, as a pure function of its text and the text of the last change (decisions 21).

A check is compared with the text of the last reported change, not with the previous check, so that many small
differences add up to a reported one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import normalize

import orjson

from events.instants import iso
from scheduler.monitors.model.records import Monitor, Run, RunData
from scheduler.monitors.runs.verdict import SCHEDULING_CREDITS, RunVerdict, failed
from scheduler.monitors.web.watch import watch_of
from scheduler.recipes import Gathered

NO_TEXT: Final = "no_text"
LINES_MAX: Final = 5_000
LINE_MAX: Final = 2_000
"""The maximum length of a line in characters. The rest of a longer line is ignored."""
LINES_REPORTED_MAX: Final = 200
"""The maximum number of added lines, and of removed lines, that a check reports."""
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Difference:
    """How a text differs from an earlier one: its added and removed lines, and the share of words that both have."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    similarity: float


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines of a text, normalized."""
    found = (" ".join(normalize("NFC", line).split())[:LINE_MAX] for line in text.splitlines())
    return [line for line in found if line][:LINES_MAX]


def compare(before: Sequence[str], after: Sequence[str]) -> Difference:
    """Return the difference between two texts. Moving a line is not a difference."""
    return Difference(_extra_lines(after, before), _extra_lines(before, after), _similarity(before, after))


def _extra_lines(lines: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the lines that occur more often than in the other text, in order."""
    left, found = Counter(others), list[str]()
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        else:
            found.append(line)
    return tuple(found)


def _similarity(before: Sequence[str], after: Sequence[str]) -> float:
    """Return the share of words that two texts have in common (Dice's coefficient), from 0 to 1."""
    old, new = _words(before), _words(after)
    total = old.total() + new.total()
    return 2 * (old & new).total() / total if total else 1.0


def _words(lines: Iterable[str]) -> Counter[str]:
    return Counter(word for line in lines for word in _WORD.findall(line))


def judge_check(monitor: Monitor, gathered: Gathered, previous: bytes | None) -> RunVerdict:
    """Return the verdict on a check's result. `previous` contains the stored lines that the result is compared with."""
    assert monitor.web is not None, "this monitor is a web watch"
    watch = watch_of(monitor.web)
    lines = _lines(gathered.data)
    if not lines and watch.mode == "scrape":
        return failed(NO_TEXT, gathered.legs)
    difference = None if previous is None else compare(orjson.loads(previous), lines)
    is_changed = difference is not None and 1.0 - difference.similarity > watch.threshold
    is_first = previous is None
    return RunVerdict(
        "ok",
        gathered.used_credits + SCHEDULING_CREDITS,
        legs=gathered.legs,
        warnings=list(gathered.warnings),
        rows_count=gathered.rows,
        is_told=is_changed,
        is_baseline=is_first or is_changed,
        kept=RunData(
            numbers=orjson.dumps(lines) if is_first or is_changed else None,
            deltas=orjson.dumps(_record(difference, is_changed=is_changed, lines=len(lines))),
        ),
    )


def _lines(data: Any) -> list[str]:
    """Return the lines to compare: a page's main text, or one line for each search result."""
    if "page" in data:
        return lines_of(data["page"]["content"]["text"] or "")
    pages = (row["page"] for row in data["items"])
    return lines_of("\n".join(f"{page['metadata']['title'] or ''} {page['url']}" for page in pages))


def _record(difference: Difference | None, *, is_changed: bool, lines: int) -> dict[str, Any]:
    """Return the check in stored and delivered form, with only the first lines if there are many."""
    is_first, difference = difference is None, difference or Difference((), (), 1.0)
    return {
        "changed": is_changed,
        "first": is_first,
        "similarity": round(difference.similarity, 4),
        "lines": lines,
        "added": difference.added[:LINES_REPORTED_MAX],
        "removed": difference.removed[:LINES_REPORTED_MAX],
        "added_total": len(difference.added),
        "removed_total": len(difference.removed),
    }


def check_payload(monitor: Monitor, run: Run, verdict: RunVerdict) -> bytes:
    """Return the body of a change's delivery."""
    assert monitor.web is not None, "this monitor is a web watch"
    assert verdict.kept is not None, "the data of a change is stored"
    assert verdict.kept.deltas is not None, "the data of a change is stored"
    watch = watch_of(monitor.web)
    body = {
        "type": "web.changed",
        "monitor_id": monitor.id,
        "check_id": run.id,
        "name": monitor.name,
        "mode": watch.mode,
        "url": watch.url,
        "query": watch.query,
        "scheduled_for": iso(run.scheduled_for),
        **orjson.loads(verdict.kept.deltas),
    }
    return orjson.dumps(body)
