"""The verification of the archive finds all changes, swaps and deletions in its files or in the store."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from billing.archive.archiver import Archiver
from billing.archive.files import read_manifest
from billing.archive.index import index_name
from billing.archive.verification import CHAIN, DIGESTS, INDEXED, SUMS, next_day, verify_chain, verify_day
from billing.ledger.rules import Violation
from billing.migrations import MIGRATIONS
from storage.store import Tx
from tests.billing.archive.past import DAY_S, PastDesk, play
from tests.fakes.inline_calls import InlineCalls
from tests.fakes.inline_store import open_inline


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[InlineCalls]:
    """A store with an archive of three days in `tmp_path`."""
    store = open_inline([MIGRATIONS])
    desk = PastDesk(store)
    await play(desk, days=3)
    await Archiver(store, tmp_path, detail_days=10).run(desk.time + 30 * DAY_S)
    assert len(read_manifest(tmp_path)) == 3
    yield store
    store.close()


def violations(store: InlineCalls, folder: Path) -> list[Violation]:
    found, day = store.look(partial(verify_chain, folder=folder)), -1
    while (following := store.look(partial(next_day, after=day))) is not None:
        day = following
        found += store.look(partial(verify_day, folder=folder, day=day))
    return found


def first(folder: Path) -> Path:
    return folder / read_manifest(folder)[0].name


def flip(folder: Path) -> None:
    content = bytearray(first(folder).read_bytes())
    content[len(content) // 2] ^= 1
    first(folder).write_bytes(content)


def rewrite(folder: Path) -> None:
    """Rewrite the file with one spent credit less, in the same packing."""
    text = gzip.decompress(first(folder).read_bytes())
    changed = text.replace(b'"refunded":3', b'"refunded":4', 1)
    assert changed != text
    first(folder).write_bytes(gzip.compress(changed))


def exchange(folder: Path) -> None:
    one, two, *_rest = [folder / file.name for file in read_manifest(folder)]
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def cut_off(folder: Path) -> None:
    first(folder).write_bytes(first(folder).read_bytes()[:-20])


def drop_line(folder: Path) -> None:
    manifest = folder / "manifest.jsonl"
    manifest.write_bytes(b"".join(manifest.read_bytes().splitlines(keepends=True)[:-1]))


def forge_line(folder: Path) -> None:
    manifest = folder / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows":1', b'"rows":2', 1))


def spoil_manifest(folder: Path) -> None:
    (folder / "manifest.jsonl").write_bytes(b"{")


def index(folder: Path) -> Path:
    return folder / index_name(first(folder).name)


def spoil_index(folder: Path) -> None:
    """Raise the highest position of the last account by one."""
    content = bytearray(index(folder).read_bytes())
    content[-1] += 1
    index(folder).write_bytes(content)


def lengthen_index(folder: Path) -> None:
    index(folder).write_bytes(index(folder).read_bytes() * 2)


async def test_unmodified_archive_passes_verification(store: InlineCalls, tmp_path: Path) -> None:
    assert violations(store, tmp_path) == []


@pytest.mark.parametrize(
    ("harm", "rules"),
    [
        (flip, {DIGESTS}),
        (rewrite, {DIGESTS, SUMS}),
        (exchange, {DIGESTS, INDEXED, SUMS}),
        (cut_off, {DIGESTS}),
        (lambda folder: first(folder).unlink(), {DIGESTS}),
        (drop_line, {CHAIN}),
        (forge_line, {CHAIN}),
        (spoil_manifest, {CHAIN}),
        (spoil_index, {INDEXED}),
        (lengthen_index, {INDEXED}),
        (lambda folder: index(folder).write_bytes(b""), {INDEXED}),
    ],
)
async def test_fault_in_the_folder_is_found(
    store: InlineCalls, tmp_path: Path, harm: Callable[[Path], object], rules: set[str]
) -> None:
    harm(tmp_path)
    found = violations(store, tmp_path)
    assert {violation.rule for violation in found} == rules
    assert all(violation.subject and violation.detail for violation in found)


async def test_missing_index_is_not_a_fault(store: InlineCalls, tmp_path: Path) -> None:
    index(tmp_path).unlink()
    assert violations(store, tmp_path) == []


async def test_verification_of_a_day_reports_progress(store: InlineCalls, tmp_path: Path) -> None:
    day, told = read_manifest(tmp_path)[0].day, list[int]()
    assert store.look(partial(verify_day, folder=tmp_path, day=day, progress=told.append)) == []
    assert told == [11 + 2]


@pytest.mark.parametrize(
    ("sql", "rules"),
    [
        ("UPDATE openings SET spent = spent + 1 WHERE day > 0", {SUMS}),
        ("UPDATE openings SET chain = chain + 1 WHERE day > 0", {SUMS}),
        ("DELETE FROM openings WHERE day > 0", {SUMS}),
        ("UPDATE archives SET chain = 'x' WHERE number = 2", {CHAIN}),
        ("UPDATE archives SET digest = 'x' WHERE number = 3", {CHAIN, DIGESTS}),
        ("UPDATE archives SET summed_to = 0 WHERE number = 1", {SUMS}),
        ("DELETE FROM archives WHERE number = 1", {CHAIN}),
    ],
)
async def test_fault_in_the_store_is_found(store: InlineCalls, tmp_path: Path, sql: str, rules: set[str]) -> None:
    def harm(tx: Tx) -> None:
        assert tx.run(sql) > 0

    store.do(harm)
    assert {violation.rule for violation in violations(store, tmp_path)} == rules
