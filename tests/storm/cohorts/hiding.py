"""Searches everything that a node stores for data that a cohort hides, in any form.

All hidden data contains a mark. Each form of a text contains the same form of its mark, at any offset. A search for the
forms of the marks therefore finds every handle, external id, keyword and text.
"""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg

from bench.peers.shared_servers import postgres_folder
from billing.errors import SealBroken
from billing.keys.sealing import Cipher
from gateway.config.secrets import derive_secrets
from scheduler.jobs.cohorts.sealing import SEALED_BYTES, CohortKey, open_key
from scheduler.jobs.cohorts.spec import sealed_member_of

MARKS: Final = ("hush-", "panel.test", "persön-", "whispér", "A name to hide")
"""Parts of each handle, external id, post text, keyword and name."""
_SEALED: Final = re.compile(rb"(?=([A-Za-z0-9+/]{%d}[A-Za-z0-9+/=]))" % (SEALED_BYTES - 1))
"""Any text that may be a sealed key."""
_SIX: Final = 6
"""Bits per character of base64."""


def forms(text: str) -> set[bytes]:
    """Return the byte sequences in which a text may be stored, alone or inside a longer text."""
    plain = text.encode()
    escaped = json.dumps(text)[1:-1]
    percent = quote(text)
    hexes = plain.hex()
    found = {plain, text.encode("utf-16-le"), escaped.encode(), escaped.replace("\\", "\\\\").encode()}
    found |= {
        percent.encode(),
        percent.lower().encode(),
        hexes.encode(),
        hexes.upper().encode(),
        repr(plain)[2:-1].encode(),
    }
    return found | set(_in_base64(plain))


def _in_base64(plain: bytes) -> Iterator[bytes]:
    """Yield the base64 characters that do not depend on the adjacent bytes, for each offset in a group of three."""
    for before in range(3):
        coded = base64.b64encode(bytes(before) + plain)
        sure = coded[-(-8 * before // _SIX) : 8 * (before + len(plain)) // _SIX]
        yield sure
        yield sure.replace(b"+", b"-").replace(b"/", b"_")


FORMS: Final = frozenset(form for mark in MARKS for form in forms(mark))


def told(places: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the locations that contain hidden data, each with the form of the data."""
    return [(name, form) for name, body in places.items() for form in sorted(FORMS) if form in body]


def files(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder: logs, notes, and for SQLite the store with its commit log."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def backup(store_url: str, folder: Path) -> dict[str, bytes]:
    """Create a backup as docs/operating.md describes."""
    if store_url.startswith("postgresql"):
        programs = postgres_folder()
        assert programs is not None
        made = subprocess.run([programs / "pg_dump", store_url], capture_output=True, check=True)
        return {"backup": made.stdout}
    copy = folder / "backup.db"
    with closing(sqlite3.connect(_file(store_url))) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return {"backup": copy.read_bytes()}


def tables(store_url: str) -> dict[str, bytes]:
    """Return all rows of all tables, including packed data."""
    is_server = store_url.startswith("postgresql")
    listed = "pg_tables WHERE schemaname = 'public'" if is_server else "sqlite_master WHERE type = 'table'"
    names = [name for (name,) in rows(store_url, f"SELECT {'tablename' if is_server else 'name'} FROM {listed}")]
    found = {name: rows(store_url, f'SELECT * FROM "{name}"') for name in names}
    return {name: b"\n".join(plain(value) for row in told for value in row) for name, told in found.items()}


def rows(store_url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, read directly from the database."""
    if store_url.startswith("postgresql"):
        with psycopg.connect(store_url) as connection:
            return connection.execute(query.encode()).fetchall()
    with closing(sqlite3.connect(_file(store_url))) as opened:
        return opened.execute(query).fetchall()


def _file(store_url: str) -> Path:
    return Path(store_url.removeprefix("sqlite:///"))


def plain(value: object) -> bytes:
    """Return the bytes of a value, with its packed data unpacked."""
    if not isinstance(value, bytes):
        return str(value).encode()
    try:
        return value + zlib.decompress(value)
    except zlib.error:
        return value


def members_of(store_url: str, cohort_id: str) -> list[tuple[bytes, bytes]]:
    """Return the digest of each member's identity, and its sealed data."""
    return rows(store_url, f"SELECT identity, sealed FROM cohort_members WHERE cohort_id = '{cohort_id}'")


def opened(places: Mapping[str, bytes], secret: str, cohort_id: str, members: Iterable[tuple[bytes, bytes]]) -> int:
    """Return how many sealed members the node's secret opens with a cohort key found at these locations."""
    cipher = Cipher(derive_secrets(secret).sealing)
    keys = [key for body in places.values() for key in _keys_in(body, cipher, cohort_id)]
    return sum(any(_opens(key, cohort_id, *member) for key in keys) for member in members)


def _keys_in(body: bytes, cipher: Cipher, cohort_id: str) -> Iterator[CohortKey]:
    for sealed in {match[1] for match in _SEALED.finditer(body)}:
        try:
            yield open_key(cipher, cohort_id, sealed)
        except (SealBroken, ValueError):
            continue


def _opens(key: CohortKey, cohort_id: str, identity: bytes, sealed: bytes) -> bool:
    try:
        return bool(key.unseal(sealed, sealed_member_of(cohort_id, identity)))
    except SealBroken:
        return False
