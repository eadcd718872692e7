"""The cost per row is measured for each list, together with the plain stack."""

from __future__ import annotations

from bench.rows import KNOWN_US, LISTS, NEW_US, measure_rows, row_marks


def test_every_list_has_row_costs_and_marks() -> None:
    costs = [measure_rows(id_, bodies=2, rounds=1) for id_ in LISTS]
    assert all(cost.known_us > 0 and cost.new_us > 0 and cost.plain_us > 0 for cost in costs)
    marks = list(row_marks(costs))
    assert [mark.limit for mark in marks] == [KNOWN_US, NEW_US] * len(LISTS)
    assert all(cost.id in mark.name for cost, mark in zip(costs, marks[::2], strict=True))
