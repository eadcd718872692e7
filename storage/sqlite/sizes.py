"""Estimates the sizes of a file's tables from a limited number of pages, however large the file is.

SQLite's own count (`dbstat`) reads every page, which is too slow on a node with traffic. All leaves of a B-tree have
the same depth, so the size of each level is estimated from a sample of the level above. The result is exact for small
levels, and off by a few percent for large ones. Pages are read from the file as of the last checkpoint. Another
checkpoint may overwrite pages meanwhile, so pages that no longer belong to the tree are skipped.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from storage.store import StoreSize, TableSize, Tx

SAMPLE: Final = 256
DEPTH_MAX: Final = 20
HEADER_BYTES: Final = 100
INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13

TREES: Final = """
SELECT 'sqlite_schema', 'table', 'sqlite_schema', 1
UNION ALL SELECT name, type, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0
"""

ReadPage = Callable[[int], bytes]
"""Returns a page by its number. The last page of the file may be incomplete."""


@dataclass(slots=True)
class TreePage:
    """A page of a B-tree: its children, the number of its rows, and the number of overflow pages for long rows."""

    children: list[int] = field(default_factory=list)
    rows: int = 0
    overflow_pages: int = 0


@dataclass(slots=True)
class TreeSize:
    """The estimate of a whole B-tree, accumulated level by level."""

    pages: float = 0.0
    rows: float = 0.0


def measure(file: int, tx: Tx) -> StoreSize:
    """Return the sizes of the open database `file`. `tx` is a transaction on the same database."""
    ((page_bytes,),) = tx.all("PRAGMA page_size")
    ((pages,),) = tx.all("PRAGMA page_count")
    ((free_pages,),) = tx.all("PRAGMA freelist_count")
    rng = Random(pages)  # seeded, so that the estimates for an unchanged file are always the same
    tables: dict[str, TableSize] = {}
    for _, kind, table, root in sorted(tx.all(TREES), key=lambda tree: tree[1] != "table"):
        tree = count_tree(lambda number: os.pread(file, page_bytes, (number - 1) * page_bytes), root, rng)
        bytes_ = round(tree.pages * page_bytes)
        if kind == "table":
            tables[table] = TableSize(table, round(tree.rows), bytes_, 0)
        elif (of := tables.get(table)) is not None:
            tables[table] = TableSize(table, of.rows, of.bytes, of.index_bytes + bytes_)
    largest_first = sorted(tables.values(), key=lambda size: (-size.bytes - size.index_bytes, size.name))
    return StoreSize((pages - free_pages) * page_bytes, free_pages * page_bytes, tuple(largest_first))


def count_tree(read: ReadPage, root: int, rng: Random) -> TreeSize:
    """Estimate the tree at `root`, level by level."""
    tree, level, number = TreeSize(), [root], 1.0
    for _ in range(DEPTH_MAX):
        sample = level if len(level) <= SAMPLE else rng.sample(level, SAMPLE)
        pages = [page for page in (parse_page(read(one), is_first=one == 1) for one in sample) if page is not None]
        if not pages:
            break
        each = number / len(pages)
        tree.pages += number + each * sum(page.overflow_pages for page in pages)
        tree.rows += each * sum(page.rows for page in pages)
        level = [child for page in pages for child in page.children]
        number = each * len(level)
    return tree


def parse_page(page: bytes, *, is_first: bool = False) -> TreePage | None:
    """Parse what the estimate needs from a page. Return None if it is not a B-tree page.

    The format is described in SQLite's file format, section 1.6.
    """
    start = HEADER_BYTES if is_first else 0
    if len(page) < 512 or page[start] not in (INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF):
        return None
    kind, cells = page[start], _number(page, start + 3, 2)
    is_interior, is_table = kind in (INDEX_INTERIOR, TABLE_INTERIOR), kind in (TABLE_INTERIOR, TABLE_LEAF)
    pointers = start + (12 if is_interior else 8)
    places = [_number(page, pointers + 2 * cell, 2) for cell in range(cells)]
    if pointers + 2 * cells > len(page) or any(place > len(page) - 4 for place in places):
        return None
    found = TreePage()
    if is_interior:
        found.children = [*(_number(page, place, 4) for place in places), _number(page, start + 8, 4)]
    if kind != TABLE_INTERIOR:
        found.rows = cells
        payloads = (_varint(page, place + 4 if is_interior else place) for place in places)
        found.overflow_pages = sum(_overflow(payload, len(page), is_table=is_table) for payload in payloads)
    return found


def _overflow(payload_bytes: int, page_bytes: int, *, is_table: bool) -> int:
    """Return the number of overflow pages of a row with this length."""
    most = page_bytes - 35 if is_table else (page_bytes - 12) * 64 // 255 - 23
    if payload_bytes <= most:
        return 0
    least, room = (page_bytes - 12) * 32 // 255 - 23, page_bytes - 4
    here = least + (payload_bytes - least) % room
    return -(-(payload_bytes - (here if here <= most else least)) // room)


def _varint(page: bytes, at: int) -> int:
    value = 0
    for byte in page[at : at + 8]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value


def _number(page: bytes, at: int, length: int) -> int:
    return int.from_bytes(page[at : at + length], "big")
