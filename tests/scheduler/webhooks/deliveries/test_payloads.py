"""Payloads exactly as in spec 2.7."""

from dataclasses import replace

import orjson
import pytest

from scheduler.webhooks.deliveries.payloads import (
    DeliveredRun,
    Numbers,
    PayloadDeltas,
    full_numbers_payload,
    full_payload,
    rows_payload,
)

ALERT = {"metric": "total", "op": "gt", "from": None, "to": 12, "delta": None, "pct_change": None}
RUN = DeliveredRun("mon_1", "run_1", "github/search", "partial", 1_800_000_000.25, [ALERT])
FACTS = {
    "monitor_id": "mon_1",
    "run_id": "run_1",
    "recipe": "github/search",
    "status": "partial",
    "scheduled_for": "2027-01-15T08:00:00.250Z",
    "alerts_fired": [ALERT],
}
NUMBERS: Numbers = {"p1": {"views": 12, "likes": 2.5}, "p2": {"views": 0}}
DELTAS: PayloadDeltas = {
    "rows": {"p1": {"views": {"prev": 0, "cur": 12, "abs": 12, "pct": None}}},
    "rows_new": ["p2"],
    "rows_gone": ["p0"],
}


def test_full_payload_of_an_ordinary_monitor_has_result_and_deltas() -> None:
    payload = full_payload(RUN, result={"total": 12, "items": []}, deltas={"total": 2})
    assert orjson.loads(payload) == {**FACTS, "result": {"total": 12, "items": []}, "deltas": {"total": 2}}
    assert list(orjson.loads(payload)) == [*FACTS, "result", "deltas"]


def test_full_payload_of_the_first_run_has_empty_deltas() -> None:
    run = replace(RUN, status="ok", alerts_fired=())
    decoded = orjson.loads(full_payload(run, result={}, deltas={}))
    assert (decoded["status"], decoded["alerts_fired"], decoded["deltas"]) == ("ok", [], {})


def test_stored_result_is_inserted_as_bytes() -> None:
    payload = full_payload(RUN, result=orjson.Fragment(b'{"a" : 1e2}'), deltas={})
    assert b'"result":{"a" : 1e2}' in payload


@pytest.mark.parametrize("deltas", [None, DELTAS])
def test_full_payload_of_a_numbers_only_monitor_also_has_numbers(deltas: PayloadDeltas | None) -> None:
    payload = full_numbers_payload(RUN, result={"items": []}, numbers=NUMBERS, deltas=deltas)
    assert orjson.loads(payload) == {**FACTS, "result": {"items": []}, "numbers": NUMBERS, "deltas": deltas}


def test_rows_payload_has_a_row_per_number() -> None:
    decoded = orjson.loads(rows_payload(RUN, numbers=NUMBERS, deltas=DELTAS))
    at = {"t": "2027-01-15T08:00:00.250Z"}
    nothing_before = {"prev": None, "abs_change": None, "pct_change": None}
    assert decoded.pop("rows") == [
        {**at, "row_id": "p1", "metric": "views", "value": 12, "prev": 0, "abs_change": 12, "pct_change": None},
        {**at, "row_id": "p1", "metric": "likes", "value": 2.5, **nothing_before},
        {**at, "row_id": "p2", "metric": "views", "value": 0, **nothing_before},
    ]
    assert decoded == FACTS


def test_rows_payload_of_the_first_run_has_no_previous_values() -> None:
    rows = orjson.loads(rows_payload(RUN, numbers=NUMBERS, deltas=None))["rows"]
    assert [row["prev"] for row in rows] == [None, None, None]


def test_payload_of_the_same_run_has_the_same_bytes() -> None:
    assert rows_payload(RUN, numbers=NUMBERS, deltas=DELTAS) == rows_payload(RUN, numbers=NUMBERS, deltas=DELTAS)
