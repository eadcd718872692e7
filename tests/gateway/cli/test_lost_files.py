"""A database file that is removed, replaced or overwritten while a node runs: nothing is billed without a record."""

import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from threading import Event

import pytest

from storage.sqlite.watch import WATCH_S
from tests.fakes.entries import nets, read_entries
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.sqlite
BILLED = "/v1/github/profile?handle={}"
NOTICED_S = 1.0
LOAD = 4
ROUNDS = 3


def back_up(place: Place, name: str = "backup.db") -> Path:
    """Make a copy with SQLite's own command, while a node runs."""
    copy = place.folder / name
    with closing(sqlite3.connect(place.database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def checkpoint(place: Place) -> None:
    with closing(sqlite3.connect(place.database)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def remove(place: Place, node: Served, end: str = "") -> None:
    place.database.with_name(f"sluice.db{end}").unlink()


def move_a_copy_there(place: Place, node: Served, end: str = "") -> None:
    there = place.database.with_name(f"sluice.db{end}")
    copy = place.folder / "copy"
    shutil.copy(there, copy)
    copy.replace(there)


def copy_a_backup_of_this_life_over_it(place: Place, node: Served) -> None:
    backup = back_up(place)
    account = place.json_of("account", "list")[0]["id"]
    for _ in range(4):  # commits continue for half a second and reach the file, as after any backup
        place.json_of("credits", "grant", account, "1")
        time.sleep(0.2)
    checkpoint(place)
    time.sleep(2 * WATCH_S)  # until the node has checked the file
    shutil.copyfile(backup, place.database)


def copy_an_older_backup_over_it(place: Place, node: Served) -> None:
    shutil.copyfile(place.folder / "older.db", place.database)


def restore_by_another_program(place: Place, node: Served) -> None:
    with (
        closing(sqlite3.connect(place.folder / "older.db")) as source,
        closing(sqlite3.connect(place.database)) as target,
    ):
        source.backup(target)


def move_the_folder(place: Place, node: Served) -> None:
    place.database.parent.rename(place.folder / "moved")


FAULTS: dict[str, tuple[Callable[[Place, Served], None], str]] = {
    "removed": (remove, "sluice.db was removed: restore the same file"),
    "replaced": (move_a_copy_there, "sluice.db was replaced"),
    "log removed": (partial(remove, end="-wal"), "sluice.db-wal was removed"),
    "log replaced": (partial(move_a_copy_there, end="-wal"), "sluice.db-wal was replaced"),
    "index removed": (partial(remove, end="-shm"), "sluice.db-shm was removed"),
    "folder moved": (move_the_folder, "sluice.db was removed"),
    "overwritten by an older backup": (
        copy_an_older_backup_over_it,
        "were replaced while it was in use: stop the node",
    ),
    "overwritten by a backup made by this node": (
        copy_a_backup_of_this_life_over_it,
        "were replaced while it was in use",
    ),
    "restored by another program": (restore_by_another_program, "another program has replaced the contents"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_lost_database_is_detected_and_billing_stops(place: Place, fault: str) -> None:
    _, key = place.new_key()
    back_up(place, "older.db")
    with place.serve("--sandbox") as node:
        assert node.get(BILLED.format("a"), key["key"]).json["credits_used"] == 1
        lose, words = FAULTS[fault]
        lose(place, node)
        lost_at = time.monotonic()
        wait_until(lambda: node.admin("/readyz").status == 503)
        noticed_s = time.monotonic() - lost_at
        assert noticed_s < NOTICED_S + 2.0, "includes the delays of a busy machine"
        assert node.admin("/readyz").body.startswith(b"store down: ")
        wait_until(lambda: words.encode() in node.admin("/readyz").body)
        assert node.admin("/healthz").status == 200
        refused = node.get(BILLED.format("b"), key["key"])
        assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
        assert (refused.json["credits_used"], refused.json["credits_remaining"]) == (0, None)
        assert len([event for event in node.events("library") if "cannot be used" in str(event)]) <= 1
        assert node.stop() == 0


def test_first_request_after_removal_is_not_billed(place: Place) -> None:
    """Method: many rounds, each with an immediate request, before the periodic check runs."""
    _, key = place.new_key(balance=1000)
    with place.serve("--sandbox") as node:
        away = place.folder / "away.db"
        for number in range(10):
            place.database.rename(away)
            refused = node.get(BILLED.format(f"gone{number}"), key["key"])
            assert (refused.status, refused.json["credits_used"]) == (503, 0)
            wait_until(lambda: node.admin("/readyz").status == 503)
            away.rename(place.database)
            wait_until(lambda: node.admin("/readyz").status == 200)
            assert node.get(BILLED.format(f"back{number}"), key["key"]).json["credits_used"] == 1
        wait_until(lambda: node.get("/v1/credits", key["key"]).json["credits_remaining"] == 990)
        assert place.json_of("ledger", "verify")["ok"]


@dataclass
class Load:
    """The responses to clients that send new requests one after another."""

    billed: list[str] = field(default_factory=list)
    stopping: Event = field(default_factory=Event)

    def has_billed(self, least: int) -> bool:
        return len(self.billed) > least

    def ask(self, node: Served, key: str, client: str) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            with suppress(OSError, HTTPException):
                answer = node.get(BILLED.format(f"{client}x{number}"), key)
                if answer.status == 200 and answer.json["credits_used"]:
                    self.billed.append(answer.json["request_id"])


@contextmanager
def load_on(node: Served, key: str, name: str) -> Iterator[Load]:
    load = Load()
    with ThreadPoolExecutor(LOAD) as threads:
        for number in range(LOAD):
            threads.submit(load.ask, node, key, f"{name}{number}")
        try:
            yield load
        finally:
            load.stopping.set()


def remove_and_copy_back(place: Place, node: Served) -> None:
    """Follow the node's message: copy its open file back before killing it."""
    for file in place.database.parent.glob("sluice.db*"):
        file.unlink()
    wait_until(lambda: b"restart the node" in node.admin("/readyz").body)
    found = re.search(r"copy (/proc/\S+) to (\S+),", node.admin("/readyz").body.decode())
    assert found is not None
    shutil.copyfile(found[1], found[2])


def remove_the_log(place: Place, node: Served) -> None:
    remove(place, node, "-wal")
    wait_until(lambda: b"restart the node" in node.admin("/readyz").body)  # the node writes the log first


def move_away_and_back(place: Place, node: Served) -> None:
    place.database.rename(place.folder / "away.db")
    wait_until(lambda: node.admin("/readyz").status == 503)
    (place.folder / "away.db").rename(place.database)


def move_the_folder_and_back(place: Place, node: Served) -> None:
    move_the_folder(place, node)
    wait_until(lambda: node.admin("/readyz").status == 503)
    (place.folder / "moved").rename(place.database.parent)


@pytest.mark.parametrize(
    "lose",
    [remove_and_copy_back, remove_the_log, move_away_and_back, move_the_folder_and_back],
    ids=lambda f: f.__name__,
)
def test_billed_responses_are_in_the_ledger_after_loss_under_load(
    place: Place, lose: Callable[[Place, Served], None]
) -> None:
    """Method: clients without pauses, a loss in the middle, the repair, a kill, and a check of every response."""
    place.configure(limits={"requests_per_minute": 1_000_000})
    _, key = place.new_key(balance=1_000_000)
    answered: list[str] = []
    for number in range(ROUNDS):
        with place.serve("--sandbox") as node, load_on(node, key["key"], f"r{number}") as load:
            wait_until(partial(load.has_billed, 20))
            lose(place, node)
            node.signal(signal.SIGKILL)
            node.wait()
            load.stopping.set()
        answered += load.billed
        assert place.json_of("ledger", "verify")["ok"]
    with closing(sqlite3.connect(place.database)) as other:
        kept = nets(read_entries(other.execute)).keys()
    assert set(answered) <= kept
    assert len(answered) > 20 * ROUNDS


def test_overwritten_database_is_not_mixed_with_old_log(place: Place) -> None:
    """The node neither writes its log into the other file when it stops, nor starts while both files exist."""
    _, key = place.new_key()
    older = back_up(place, "older.db")
    with place.serve("--sandbox") as node:
        for number in range(20):
            assert node.get(BILLED.format(f"n{number}"), key["key"]).json["credits_used"] == 1
        shutil.copyfile(older, place.database)
        wait_until(lambda: node.admin("/readyz").status == 503)
        assert node.stop() == 0
    assert place.database.read_bytes() == older.read_bytes()
    assert "remove sluice.db-wal and sluice.db-shm, and start" in place.operate("serve").refused(1)
    assert "belongs to the old contents" in place.operate("ledger", "verify").refused(1)
    for end in ("-wal", "-shm"):
        place.database.with_name(f"sluice.db{end}").unlink(missing_ok=True)
    with place.serve("--sandbox") as node:
        assert node.get(BILLED.format("again"), key["key"]).json["credits_remaining"] == 99
    assert place.json_of("ledger", "verify")["ok"]


@pytest.mark.parametrize("hidden", [False, True], ids=["rm data/*", "and the hidden files"])
def test_emptied_data_folder_is_not_silently_recreated(place: Place, hidden: bool) -> None:
    place.new_key()
    folder = place.database.parent
    for file in folder.iterdir():
        if hidden or not file.name.startswith("."):
            file.unlink()
    for command in (("serve",), ("account", "create", "--name", "x"), ("ledger", "verify")):
        said = place.operate(*command).refused(1)
        assert f"{place.database} is missing or empty, but a store existed here" in said
        assert "sluice serve --new-store" in said
        assert not place.database.exists()
        assert not folder.joinpath("secret").exists()
    with place.serve("--sandbox", "--new-store") as node:
        assert node.admin("/readyz").status == 200
    assert place.json_of("account", "list") == []


def test_folder_without_extended_attributes_uses_hidden_file(place: Place) -> None:
    place.new_key()
    with suppress(OSError):
        os.removexattr(place.database.parent, "user.sluice.made.sluice.db")
    place.database.unlink()
    assert "a store existed here" in place.operate("serve").refused(1)


def test_external_readers_do_not_disturb_running_node(place: Place) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        for number in range(3):
            with closing(sqlite3.connect(place.database)) as other:
                charged = other.execute("SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM charges)")
                assert charged.fetchone()[0] > number
            back_up(place)
            assert node.get(BILLED.format(f"n{number}"), key["key"]).json["credits_used"] == 1
        checkpoint(place)
        time.sleep(1.2)
        assert node.admin("/readyz").status == 200
        assert place.database.with_name("sluice.db-wal").exists()


def test_truncated_database_does_not_end_the_node(place: Place) -> None:
    """Method: clients read the ledger from the file constantly, and a copy first truncates it, like `cp`."""
    _, key = place.new_key()
    place.configure(limits={"requests_per_minute": 1_000_000})
    backup = back_up(place)
    with place.serve("--sandbox") as node, ThreadPoolExecutor(LOAD) as threads:
        for number in range(20):
            assert node.get(BILLED.format(f"n{number}"), key["key"]).json["credits_used"] == 1
        checkpoint(place)
        stopping = Event()

        def read() -> None:
            while not stopping.is_set():
                node.get("/v1/credits/transactions", key["key"])

        readers = [threads.submit(read) for _ in range(LOAD)]
        try:
            time.sleep(0.2)
            os.truncate(place.database, 0)
            wait_until(lambda: node.admin("/readyz").status == 503)
            shutil.copyfile(backup, place.database)
            assert node.admin("/healthz").status == 200
        finally:
            stopping.set()
        for reader in readers:
            reader.result()
        assert node.stop() == 0
