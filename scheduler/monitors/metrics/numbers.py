"""The numbers of a run, and their changes since the previous run (spec 2.7, 4.5).

A number is finite and neither a boolean nor text. Integers beyond 2**53 become floats: JSON readers would round them
anyway, and their differences stay within the range of JSON writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

from scheduler.monitors.metrics.paths import PATH_MAX, is_path, names_of, value_at
from scheduler.monitors.metrics.shapes import ROW
from scheduler.monitors.metrics.tracking import Track

Number = int | float
Values = Mapping[str, Number]
"""Numbers by the path of their metric."""
Numbers = Mapping[str, Values]
"""Values by the id of their row, in page order."""

PAGE: Final = "_"
"""The row id of numbers that belong to the whole page."""
DEPTH_MAX: Final = 4
_METRICS_MAX = 1_000
"""The maximum number of metrics in one result. A result with more is a table that an upstream sends as an object."""
_ID_MAX = 500
_EXACT = 2**53


class Taken(NamedTuple):
    """A run's numbers, and warnings about rows that were left out."""

    numbers: Numbers
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Delta:
    """The change in a number.

    `abs` is `cur - prev`, and `pct` is the change in percent of `prev`, or None if `prev` is 0.
    """

    prev: Number
    cur: Number
    abs: Number | None
    pct: float | None

    def to_json(self) -> dict[str, Number | None]:
        """Return the change in the form of payloads and runs."""
        return {"prev": self.prev, "cur": self.cur, "abs": self.abs, "pct": self.pct}


@dataclass(frozen=True, slots=True)
class Deltas:
    """The changes between two runs: deltas of the numbers that both have, and ids of the rows that only one has."""

    rows: Mapping[str, Mapping[str, Delta]]
    rows_new: Sequence[str]
    rows_gone: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the changes in the form of payloads and runs."""
        rows = {row: {path: delta.to_json() for path, delta in deltas.items()} for row, deltas in self.rows.items()}
        return {"rows": rows, "rows_new": list(self.rows_new), "rows_gone": list(self.rows_gone)}


def number_of(value: object) -> Number | None:
    """Return a JSON value as a number that can be stored and compared, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def numbers_of(data: object, track: Track) -> Taken:
    """Return the tracked numbers of a run's `data`: page numbers under `_`, then the numbers of each row, in order.

    Rows without an id, or with a repeated id, are left out. A row without numbers is included, because it exists.
    """
    by_row = [(path, names_of(path)) for path in track.metrics if path.startswith(ROW)]
    by_page = [(path, names_of(path)) for path in track.metrics if not path.startswith(ROW)]
    numbers: dict[str, Values] = {PAGE: _values(data, by_page)} if by_page else {}
    if not by_row or track.row_key is None:
        return Taken(numbers, [])
    rows_max, key = len(numbers) + track.max_rows, names_of(track.row_key)
    nameless = repeated = 0
    for row in _rows(data):
        if len(numbers) == rows_max:
            break
        row_id = _id(value_at(row, key))
        if row_id is None:
            nameless += 1
        elif row_id in numbers:
            repeated += 1
        else:
            numbers[row_id] = _values(row, by_row)
    return Taken(numbers, _left_out(nameless, repeated, track.row_key))


def has_value(numbers: Numbers) -> bool:
    """Return whether there is any number. A run without a number has failed (spec 3)."""
    return any(numbers.values())


def change(prev: Number, cur: Number) -> Delta:
    """Return the change in a number. A difference or percentage that is too large is None."""
    difference = number_of(cur - prev)
    pct = None if difference is None or prev == 0 else number_of(difference / abs(prev) * 100)
    return Delta(prev, cur, difference, None if pct is None else float(pct))


def deltas_of(prev: Numbers | None, cur: Numbers) -> Deltas | None:
    """Return the changes since the previous run, or None on the first run.

    A number that only one run has is not a change.
    """
    if prev is None:
        return None
    rows = {row: _changes(prev[row], values) for row, values in cur.items() if row in prev}
    return Deltas(
        {row: deltas for row, deltas in rows.items() if deltas},
        [row for row in cur if row not in prev],
        [row for row in prev if row not in cur],
    )


def metrics_of(result: object) -> dict[str, Number]:
    """Return the metrics of an ordinary monitor's result: finite numbers up to four names deep, never inside arrays."""
    found: dict[str, Number] = {}
    for path, number in _leaves(result, "", DEPTH_MAX):
        if len(found) == _METRICS_MAX:
            break
        found.setdefault(path, number)
    return found


def is_metric(path: str) -> bool:
    """Return whether `metrics_of` can return a path: it is not too deep, and not inside an array."""
    return is_path(path) and not path.startswith(ROW) and len(names_of(path)) <= DEPTH_MAX


def plain_deltas(prev: Values | None, cur: Values) -> dict[str, Number]:
    """Return the changes of the metrics that both runs have. Empty on the first run."""
    changed = {} if prev is None else _changes(prev, cur)
    return {path: delta.abs for path, delta in changed.items() if delta.abs is not None}


def _rows(data: object) -> list[object]:
    items = data.get("items") if isinstance(data, dict) else None
    return items if isinstance(items, list) else []


def _values(record: object, paths: Sequence[tuple[str, tuple[str, ...]]]) -> dict[str, Number]:
    found = ((path, number_of(value_at(record, names))) for path, names in paths)
    return {path: number for path, number in found if number is not None}


def _id(value: object) -> str | None:
    """Return a row's id: text, or a whole number. Other values cannot identify rows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 2**64 else None
    return value if isinstance(value, str) and 1 <= len(value) <= _ID_MAX else None


def _left_out(nameless: int, repeated: int, row_key: str) -> list[str]:
    warnings = []
    if nameless:
        warnings.append(f"{_counted(nameless)} left out because {row_key} is missing or unusable")
    if repeated:
        warnings.append(f"{_counted(repeated)} left out because {row_key} is repeated")
    return warnings


def _counted(rows: int) -> str:
    return "1 row was" if rows == 1 else f"{rows} rows were"


def _changes(prev: Values, cur: Values) -> dict[str, Delta]:
    return {path: change(prev[path], number) for path, number in cur.items() if path in prev}


def _leaves(value: object, prefix: str, depth_left: int) -> Iterator[tuple[str, Number]]:
    if not isinstance(value, dict) or not depth_left:
        return
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if len(path) > PATH_MAX:
            continue
        number = number_of(inner)
        if number is not None:
            yield path, number
        yield from _leaves(inner, f"{path}.", depth_left - 1)
