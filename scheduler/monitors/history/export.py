"""Stored runs as CSV and NDJSON, one line per number, in the order of the runs (spec 4.5).

A spreadsheet must not execute text from an upstream, so cells that a spreadsheet would read as formulas get an
apostrophe at the beginning. A program that reads the CSV restores the text by removing one apostrophe from each cell in
which the leading apostrophes are followed by a formula character. NDJSON contains every text unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import orjson

from events.instants import iso
from scheduler.monitors.history.past_runs import RunNumbers
from scheduler.monitors.metrics.numbers import Number

COLUMNS: Final = ("t", "row_id", "metric", "value", "abs_change", "pct_change")
CSV_HEADER: Final = ",".join(COLUMNS) + "\r\n"
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # noqa: RUF001 - some spreadsheets also accept full-width signs
_NO_CHANGES: Final[Mapping[str, Mapping[str, Number | None]]] = MappingProxyType({})
_QUOTED = re.compile('[",\r\n]')


ExportRow: TypeAlias = tuple[str, str, str, Number, Number | None, Number | None]
"""One number of one run, in column order. A plain tuple, because an export may have millions of them."""


def export_rows(runs: Iterable[RunNumbers]) -> Iterator[ExportRow]:
    """Yield every number of the runs. A number that the previous run lacked has no change."""
    for run in runs:
        t = iso(run.t)
        for row_id, values in run.numbers.items():
            changes = run.deltas.get(row_id, _NO_CHANGES)
            for metric, value in values.items():
                changed = changes.get(metric)
                if changed is None:
                    yield t, row_id, metric, value, None, None
                else:
                    yield t, row_id, metric, value, changed.get("abs"), changed.get("pct")


def csv_lines(runs: Iterable[RunNumbers]) -> Iterator[str]:
    """Yield CSV lines (RFC 4180) without the header. An empty cell means null."""
    cells = _Cells()
    for t, row_id, metric, value, difference, pct in export_rows(runs):
        changes = "," if difference is None else f"{difference!r},{'' if pct is None else repr(pct)}"
        yield f"{t},{cells[row_id]},{cells[metric]},{value!r},{changes}\r\n"


def ndjson_lines(runs: Iterable[RunNumbers]) -> Iterator[bytes]:
    """Yield one object per line, with the columns as its keys."""
    for t, row_id, metric, value, difference, pct in export_rows(runs):
        line = {
            "t": t,
            "row_id": row_id,
            "metric": metric,
            "value": value,
            "abs_change": difference,
            "pct_change": pct,
        }
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


class _Cells(dict[str, str]):
    """A cache of cells for repeated texts: the rows and metrics of a few runs."""

    def __missing__(self, text: str) -> str:
        cell = self[text] = csv_cell(text)
        return cell


def csv_cell(text: str) -> str:
    """Return a text as a CSV cell that no spreadsheet executes."""
    safe = f"'{text}" if _FORMULA.match(text) else text
    return '"' + safe.replace('"', '""') + '"' if _QUOTED.search(safe) else safe
