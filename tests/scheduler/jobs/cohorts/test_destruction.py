"""Once a cohort's key is destroyed, its data can never be decrypted from the remaining files (decisions 20)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio

from billing.errors import SealBroken
from billing.keys.sealing import Cipher
from scheduler.jobs.cohorts import removal
from scheduler.jobs.cohorts.sealing import KEPT_BYTES, ZEROS, CohortKey, make_key, open_key
from scheduler.jobs.cohorts.spec import sealed_member_of
from storage.sqlite.store import SqliteStore
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.cohorts.panel import SECRET, Accounts, CohortDesk
from tests.scheduler.jobs.cohorts.test_cohort_queries import newest
from tests.servers.postgres import PostgresServer

CIPHER = Cipher(SECRET)
SEALED = re.compile(rb"(?=([A-Za-z0-9+/]{95}[A-Za-z0-9+/=]))")
"""Matches text that may be a sealed key."""


@pytest.fixture
def files(store_url: str, request: pytest.FixtureRequest) -> list[Path]:
    """Return the folders with all files of the store, except PostgreSQL's own log, which its operator removes."""
    if store_url.startswith("sqlite"):
        return [Path(store_url.removeprefix("sqlite:///")).parent]
    server: PostgresServer = request.getfixturevalue("postgres")
    with psycopg.connect(store_url) as connection:
        (number,) = (
            connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone() or ()
        )
    return [server._folder / "data" / "base" / str(number)]


def contents(folders: list[Path]) -> Iterator[bytes]:
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                yield file.read_bytes()


async def checkpoint(desk: Desk, store_url: str) -> None:
    """Make the server write all its pages."""
    if store_url.startswith("postgresql"):
        with psycopg.connect(store_url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
    await trio.lowlevel.checkpoint()


def seals_in(folders: list[Path]) -> set[bytes]:
    """Return all text in the files that may be a sealed key."""
    return {match[1] for body in contents(folders) for match in SEALED.finditer(body)}


def keys_left(seals: set[bytes], cohort_id: str) -> list[CohortKey]:
    """Return those keys among the candidates that the node's secret opens for a cohort."""
    found = []
    for sealed in seals:
        try:
            found.append(open_key(CIPHER, cohort_id, sealed))
        except (SealBroken, ValueError):
            continue
    return found


async def test_deleted_cohort_leaves_no_key_in_the_store_files(desk: Desk, files: list[Path], store_url: str) -> None:
    """Goal: a destroyed key cannot be recovered.

    Method: many cohorts are created and deleted, so that pages are split, freed and reused. Then every text in the
    files that may be a sealed key is tried with the node's secret.
    """
    panel = CohortDesk(desk, Accounts({"a": newest(5)}))
    owner = await panel.owner()
    cohorts = [await panel.cohort(owner, "a") for _ in range(40)]
    async with panel.open():
        query = await panel.begin(owner, cohorts[7])
        await panel.ended(owner, query)
    (member,) = await desk.store.read(
        lambda tx: tx.all("SELECT identity, sealed FROM cohort_members WHERE cohort_id = ?", (cohorts[7],))
    )
    await checkpoint(desk, store_url)
    alive = keys_left(seals_in(files), cohorts[7])
    assert alive, "an existing cohort's key must be found, or this test proves nothing"
    assert b"external of a" in alive[0].unseal(bytes(member[1]), sealed_member_of(cohorts[7], bytes(member[0])))
    gone = [*cohorts[::2], cohorts[7]]
    for cohort in gone:
        await panel.cohorts.delete(owner.account_id, cohort)
    await removal.clear(desk.store)
    with trio.fail_after(30):
        while not await removal.scrub(desk.store):  # noqa: ASYNC110 - the store's
            await trio.sleep(0.1)
    await checkpoint(desk, store_url)
    left = seals_in(files)
    for cohort in gone:
        assert keys_left(left, cohort) == []
    for cohort in set(cohorts) - set(gone):
        assert keys_left(left, cohort)


def test_stored_key_fills_overflow_pages_and_opens_only_for_its_cohort() -> None:
    key, kept = make_key(CIPHER, "coh_1")
    assert len(kept) == len(ZEROS) == KEPT_BYTES
    body = key.seal(b"a handle", "member of coh_1")
    assert open_key(CIPHER, "coh_1", kept).unseal(body, "member of coh_1") == b"a handle"
    for cipher, cohort, form in (
        (CIPHER, "coh_2", kept),
        (Cipher(b"t" * 32), "coh_1", kept),
        (CIPHER, "coh_1", ZEROS),
        (CIPHER, "coh_1", b""),
    ):
        with pytest.raises(SealBroken):
            open_key(cipher, cohort, form)
    for sealed, bound_to in (
        (body, "member of coh_2"),
        (body[:-1] + b"\0", "member of coh_1"),
        (b"", "member of coh_1"),
    ):
        with pytest.raises(SealBroken):
            key.unseal(sealed, bound_to)
    other, _ = make_key(CIPHER, "coh_1")
    assert key.digest("identity", "bluesky", "a") == key.digest("identity", "bluesky", "a")
    assert key.digest("identity", "bluesky", "a") not in (other.digest("identity", "bluesky", "a"), key.digest("a"))


async def test_every_stored_row_of_a_cohort_is_sealed(desk: Desk) -> None:
    panel = CohortDesk(desk, Accounts({"zelda-of-hyrule": newest(5, "the princess met acme")}))
    owner = await panel.owner()
    cohort = await panel.cohort(owner, "zelda-of-hyrule")
    async with panel.open():
        query = await panel.begin(owner, cohort, keywords=["princess"])
        await panel.ended(owner, query)
    items, _ = await panel.results(owner, query)
    assert len(items) == 5
    dump = await dump_of(desk)
    assert cohort.encode() in dump, "the dump contains all tables"
    for secret in (b"zelda", b"hyrule", b"external of", b"princess", b"A name to hide", b"posts.test"):
        assert secret not in dump
    await panel.cohorts.delete(owner.account_id, cohort)


async def dump_of(desk: Desk) -> bytes:
    """Return all rows of all tables, including values and raw bytes."""

    listed = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if not isinstance(desk.store, SqliteStore):
        listed = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"

    def read(tx: Any) -> bytes:
        names = [row[0] for row in tx.all(listed)]
        return b"".join(_plain(value) for name in names for row in tx.all(f"SELECT * FROM {name}") for value in row)

    return await desk.store.read(read)


def _plain(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else str(value).encode()
