"""Spec 4.5: the content of an export, as CSV for any reader and as exact NDJSON."""

from __future__ import annotations

import csv
import io
import re

import orjson
import pytest
from hypothesis import given

from events.instants import iso
from scheduler.monitors.history.export import COLUMNS, CSV_HEADER, csv_lines, export_rows, ndjson_lines
from scheduler.monitors.history.past_runs import RunNumbers, changes_in
from tests.scheduler.monitors.past import FIRST, HISTORIES, HOUR_S, LIKES, VIEWS, past


def read_back(runs: list[RunNumbers]) -> list[list[str]]:
    text = CSV_HEADER + "".join(csv_lines(runs))
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_csv_header_and_lines_match_the_specification() -> None:
    runs = past({"p1": {VIEWS: 100, LIKES: 0}}, {"p1": {VIEWS: 150, LIKES: 4}, "p2": {VIEWS: 1.5}})
    assert CSV_HEADER + "".join(csv_lines(runs)) == (
        "t,row_id,metric,value,abs_change,pct_change\r\n"
        "2027-01-15T08:00:00.000Z,p1,items[].post.engagement.views,100,,\r\n"
        "2027-01-15T08:00:00.000Z,p1,items[].post.engagement.likes,0,,\r\n"
        "2027-01-15T09:00:00.000Z,p1,items[].post.engagement.views,150,50,50.0\r\n"
        "2027-01-15T09:00:00.000Z,p1,items[].post.engagement.likes,4,4,\r\n"
        "2027-01-15T09:00:00.000Z,p2,items[].post.engagement.views,1.5,,\r\n"
    )


def test_ndjson_has_columns_as_keys_and_null_for_missing_values() -> None:
    lines = list(ndjson_lines(past({"p1": {VIEWS: 100}}, {"p1": {VIEWS: 50}})))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    first, second = map(orjson.loads, lines)
    assert list(first) == list(COLUMNS)
    assert (first["t"], first["value"], first["abs_change"], first["pct_change"]) == (iso(FIRST), 100, None, None)
    assert (second["t"], second["abs_change"], second["pct_change"]) == (iso(FIRST + HOUR_S), -50, -50.0)


@pytest.mark.parametrize(
    ("row_id", "cell"),
    [
        ("plain", "plain"),
        ("a,b", '"a,b"'),
        ('say "hi"', '"say ""hi"""'),
        ("two\nlines", '"two\nlines"'),
        ("=1+1", "'=1+1"),
        ('=HYPERLINK("x","y")', '"\'=HYPERLINK(""x"",""y"")"'),
        ("+49", "'+49"),
        ("-dQw4w9WgXcQ", "'-dQw4w9WgXcQ"),
        ("@name", "'@name"),
        ("\t=1", "'\t=1"),
        ("\r=1", '"\'\r=1"'),
        ("＝1", "'＝1"),  # noqa: RUF001 - full-width, which is the point
        ("'=1", "''=1"),
        ("'quoted'", "'quoted'"),
        ("a=1", "a=1"),
        (" =1", " =1"),
    ],
)
def test_csv_cell_is_quoted_and_never_a_formula(row_id: str, cell: str) -> None:
    (line,) = csv_lines(past({row_id: {"total": -5}}))
    assert line == f"2027-01-15T08:00:00.000Z,{cell},total,-5,,\r\n"


@given(HISTORIES)
def test_csv_round_trips_through_readers(runs: list[RunNumbers]) -> None:
    header, *rows = read_back(runs)
    assert header == list(COLUMNS)
    expected = list(export_rows(runs))
    assert len(rows) == len(expected) == sum(len(values) for run in runs for values in run.numbers.values())
    for cells, row in zip(rows, expected, strict=True):
        assert re.match(r"[=+\-@\t\r\n]", cells[1]) is None
        undone = cells[1][1:] if re.match("'+[=+\\-@\t\r\n＝＋－＠]", cells[1]) else cells[1]  # noqa: RUF001
        assert (cells[0], undone, cells[2], float(cells[3])) == (*row[:3], float(row[3]))
        assert [cell or None for cell in cells[4:]] == [None if n is None else repr(n) for n in row[4:]]


@given(HISTORIES)
def test_ndjson_round_trips_exactly(runs: list[RunNumbers]) -> None:
    lines = [orjson.loads(line) for line in ndjson_lines(runs)]
    assert [tuple(line.values()) for line in lines] == list(export_rows(runs))


def test_lines_are_generated_one_run_at_a_time() -> None:
    """Goal: an export of any length needs little memory.

    Method: the first line must be available before the second run is read.
    """
    read: list[str] = []

    def runs() -> object:
        for run in past({"p1": {VIEWS: 1}}, {"p1": {VIEWS: 2}}):
            read.append(run.run_id)
            yield run

    lines = csv_lines(runs())  # type: ignore[arg-type]  # a generator of runs
    next(lines)
    assert read == ["run_0"]


@pytest.mark.parametrize(
    ("deltas", "numbers", "changes"),
    [
        (None, {"_": {"total": 5}}, {}),
        (b"null", {"_": {"total": 5}}, {}),
        (b"{}", {"_": {"total": 5}}, {}),
        (b'{"total":5}', {"_": {"total": 15}}, {"_": {"total": {"abs": 5, "pct": 50.0}}}),
        (b'{"total":-5}', {"_": {"total": -15}}, {"_": {"total": {"abs": -5, "pct": -50.0}}}),
        (b'{"total":15}', {"_": {"total": 15}}, {"_": {"total": {"abs": 15, "pct": None}}}),
        (b'{"gone":1}', {"_": {"total": 15}}, {"_": {}}),
        (
            b'{"rows":{"p1":{"total":{"prev":1,"cur":3,"abs":2,"pct":200.0}}},"rows_new":[],"rows_gone":[]}',
            {"p1": {"total": 3}},
            {"p1": {"total": {"prev": 1, "cur": 3, "abs": 2, "pct": 200.0}}},
        ),
    ],
)
def test_changes_are_read_for_both_kinds_of_monitors(
    deltas: bytes | None, numbers: dict[str, dict[str, int]], changes: object
) -> None:
    assert changes_in(deltas, numbers) == changes
