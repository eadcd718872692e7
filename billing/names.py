"""Assigns the numbers that stand for endpoints, nodes, and descriptions of refunds and purchases in the journal."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from storage.store import Row, Tx

ADD_ENDPOINTS = "INSERT INTO endpoints (platform, path) VALUES {rows} ON CONFLICT (platform, path) DO NOTHING"
READ_ENDPOINTS = "SELECT id, platform, path FROM endpoints WHERE path IN {in}"
ADD_NOTES = "INSERT INTO notes (text) VALUES {rows} ON CONFLICT (text) DO NOTHING"
READ_NOTES = "SELECT id, text FROM notes WHERE text IN {in}"
ADD_NODES = "INSERT INTO charging_nodes (name) VALUES {rows} ON CONFLICT (name) DO NOTHING"
READ_NODES = "SELECT id, name FROM charging_nodes WHERE name IN {in}"
NAMES_MAX = 10_000

_K = TypeVar("_K")


class Names:
    """The numbers of names. Each number is read or assigned once per process."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, str], int] = {}
        self._notes: dict[str, int] = {}
        self._nodes: dict[str, int] = {}

    def endpoints(self, tx: Tx, wanted: set[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """Return the numbers of these endpoints, by platform and path. The result may contain others."""
        return _numbers(tx, self._endpoints, wanted, _number_endpoints)

    def notes(self, tx: Tx, wanted: set[str]) -> Mapping[str, int]:
        """Return the numbers of these texts. The result may contain others."""
        return _numbers(tx, self._notes, wanted, partial(_number_texts, ADD_NOTES, READ_NOTES))

    def node(self, tx: Tx, name: str) -> int:
        """Return the number of the node with this name."""
        known = self._nodes.get(name)
        if known is not None:
            return known
        return _numbers(tx, self._nodes, {name}, partial(_number_texts, ADD_NODES, READ_NODES))[name]


def _numbers(
    tx: Tx, known: dict[_K, int], wanted: set[_K], number: Callable[[Tx, Iterable[_K]], dict[_K, int]]
) -> Mapping[_K, int]:
    """Return all known numbers, after assigning numbers to missing names.

    New numbers stay in memory after the commit.
    """
    missing = wanted - known.keys()
    if not missing:
        return known
    found = number(tx, missing)
    if len(known) < NAMES_MAX:
        tx.on_commit(partial(known.update, found))
    return known | found


def _number_endpoints(tx: Tx, missing: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    rows = sorted(missing)
    tx.run_many(ADD_ENDPOINTS, rows)
    return {(row[1], row[2]): row[0] for row in tx.all_in(READ_ENDPOINTS, sorted({path for _platform, path in rows}))}


def _number_texts(add: str, read: str, tx: Tx, missing: Iterable[str]) -> dict[str, int]:
    texts = sorted(missing)
    tx.run_many(add, [(text,) for text in texts])
    found: list[Row] = tx.all_in(read, texts)
    return {text: id_ for id_, text in found}
