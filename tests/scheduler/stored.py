"""The data of runs in the form that tests compare: complete and decompressed."""

from __future__ import annotations

from typing import get_args

from scheduler.monitors.history.lists import RunEntry, unpacked_entries
from scheduler.monitors.model.records import RunData
from scheduler.monitors.runs.run_rows import DataPart, read_data
from scheduler.packing import Unpacker, unpacked
from storage.store import Tx

ALL_PARTS: tuple[DataPart, ...] = get_args(DataPart)


def kept_data(tx: Tx, run_id: str) -> RunData:
    """Return all data of a run, or empty data if it has none."""
    found = read_data(tx, [run_id], ALL_PARTS).get(run_id, RunData())
    parts = [None if part is None else unpacked(part) for part in (found.result, found.numbers, found.deltas)]
    return RunData(*parts)  # type: ignore[arg-type] # three of them


def shown(entries: list[RunEntry]) -> list[RunEntry]:
    """Return the runs of a list that fit on its page."""
    return list(unpacked_entries(entries, Unpacker()))
