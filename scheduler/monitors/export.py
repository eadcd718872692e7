"""Stored runs as CSV and NDJSON, a line for each number, oldest first when the runs are (spec 4.5).

A CSV that is opened in a spreadsheet must not run what an upstream wrote: text that a spreadsheet takes for a formula
gets an apostrophe in front. To read such a cell with a program, take one apostrophe off where a sign of a formula
follows the apostrophes. NDJSON has every text as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import orjson

from scheduler.instants import iso
from scheduler.monitors.history import RunNumbers
from scheduler.monitors.numbers import Number

COLUMNS: Final = ("t", "row_id", "metric", "value", "abs_change", "pct_change")
CSV_HEADER: Final = ",".join(COLUMNS) + "\r\n"
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # noqa: RUF001 - some spreadsheets take the full-width signs too
_QUOTED = re.compile('[",\r\n]')


class ExportRow(NamedTuple):
    """One number of one run, in the order of the columns."""

    t: str
    row_id: str
    metric: str
    value: Number
    abs_change: Number | None
    pct_change: Number | None


def export_rows(runs: Iterable[RunNumbers]) -> Iterator[ExportRow]:
    """Every number of the runs; one that was not there in the run before has no change."""
    for run in runs:
        t = iso(run.t)
        for row_id, values in run.numbers.items():
            changes = run.deltas.get(row_id, {})
            for metric, value in values.items():
                changed = changes.get(metric, {})
                yield ExportRow(t, row_id, metric, value, changed.get("abs"), changed.get("pct"))


def csv_lines(runs: Iterable[RunNumbers]) -> Iterator[str]:
    """Lines of RFC 4180 without the header; an empty cell is null."""
    for row in export_rows(runs):
        row_id, metric = _cell(row.row_id), _cell(row.metric)
        yield f"{row.t},{row_id},{metric},{row.value!r},{_number(row.abs_change)},{_number(row.pct_change)}\r\n"


def ndjson_lines(runs: Iterable[RunNumbers]) -> Iterator[bytes]:
    """One object a line, with the columns as its keys."""
    for row in export_rows(runs):
        yield orjson.dumps(row._asdict(), option=orjson.OPT_APPEND_NEWLINE)


def _cell(text: str) -> str:
    safe = f"'{text}" if _FORMULA.match(text) else text
    return '"' + safe.replace('"', '""') + '"' if _QUOTED.search(safe) else safe


def _number(value: Number | None) -> str:
    return "" if value is None else repr(value)
