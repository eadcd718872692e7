"""`sluice store`: the size of the store, its growth, and how long its disk will last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gateway.cli.dispatch import operate
from gateway.cli.run import config_option, json_option, say, show

_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.group()
def store() -> None:
    """Inspect the store."""


@store.command("size")
@config_option
@json_option
def store_size(config_path: str | None, as_json: bool) -> None:
    """Print the size of every table, the store's growth, and the days until its disk is full."""
    found = operate(config_path, "store.size")
    if as_json:
        show(found, as_json=True)
    else:
        say("\n".join(_lines(found)))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'table':24}{'rows':>14}{'bytes':>12}{'indexes':>12}{'per row':>10}"
    for table in found["tables"]:
        rows, bytes_, index_bytes = table["rows"], table["bytes"], table["index_bytes"]
        a_row = _bytes((bytes_ + index_bytes) / rows) if rows else "-"
        counted = "?" if rows is None else f"{rows:,}"
        yield f"{table['name']:24}{counted:>14}{_bytes(bytes_):>12}{_bytes(index_bytes):>12}{a_row:>10}"
    yield ""
    free = found["free_bytes"]
    yield f"used: {_bytes(found['bytes'])}" + ("" if free is None else f"; free inside the file: {_bytes(free)}")
    yield _growth(found)
    yield _disk(found)


def _growth(found: Mapping[str, Any]) -> str:
    hours, per_thousand = found["measured_over_h"], found["bytes_per_thousand_calls"]
    if hours is None:
        return "growth: unknown until a node has run for over an hour"
    each = (
        "too few calls to estimate per call" if per_thousand is None else f"{_bytes(per_thousand)} per thousand calls"
    )
    a_day = _bytes(found["growth_bytes_a_day"])
    return f"growth: {a_day} per day, measured over {hours:g} h with {found['calls']:,} charged calls; {each}"


def _disk(found: Mapping[str, Any]) -> str:
    disk, days = found["disk"], found["days_until_full"]
    if disk is None:
        return "disk: unknown, because it belongs to the database server"
    free, whole, floor = (_bytes(disk[name]) for name in ("free_bytes", "total_bytes", "floor_bytes"))
    room = f"disk: {free} of {whole} free, floor {floor}"
    if days is not None:
        return f"{room}; days until only the floor is free: {days:g}"
    return f"{room}; " + ("days left: not known yet" if found["measured_over_h"] is None else "it is not filling up")


def _bytes(count: float) -> str:
    """Format a size with three digits and a unit. Growth may be negative."""
    for unit in _UNITS:
        if abs(count) < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.3g} {unit}"
