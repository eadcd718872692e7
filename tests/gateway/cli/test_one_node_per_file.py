"""A second node never starts on a database file in use, whatever path it uses."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes.commands import SLUICE
from tests.processes.place import Place
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.sqlite
BILLED = "/v1/github/profile?handle=octocat"
MOUNTED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
"""Run a program in its own mount namespace, in which a file is also mounted elsewhere."""


def other_place(place: Place, database: Path) -> Place:
    """Write a config in another folder for the database at this path, and return its place."""
    folder = place.folder / "other"
    folder.mkdir(exist_ok=True)
    other = replace(place, folder=folder, environ={"SLUICE_SECRET": (database_folder(place) / "secret").read_text()})
    other.configure(store={"url": f"sqlite:///{database}"})
    return other


def database_folder(place: Place) -> Path:
    return place.database.parent


def by_symbolic_link(place: Place) -> Path:
    link = place.folder / "elsewhere.db"
    link.symlink_to(place.database)
    return link


def by_hard_link(place: Place) -> Path:
    link = place.folder / "hard link.db"
    link.hardlink_to(place.database)
    return link


def by_dots(place: Place) -> Path:
    (place.folder / "other").mkdir(exist_ok=True)
    return place.folder / "other" / ".." / "data" / "sluice.db"


def by_a_linked_folder(place: Place) -> Path:
    (place.folder / "linked").symlink_to(place.database.parent)
    return place.folder / "linked" / "sluice.db"


def by_its_name_without_the_lock_file(place: Place) -> Path:
    place.database.with_name("sluice.db.lock").unlink()
    return place.database


PATHS = (by_symbolic_link, by_dots, by_a_linked_folder)
REACHES = (*PATHS, by_its_name_without_the_lock_file, by_hard_link)
"""Ways to the database of a running node. With the last two, a command does not find the node."""


def test_second_node_does_not_start_on_same_file(place: Place) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        for reach in REACHES:
            said = other_place(place, reach(place)).operate("serve").refused(1)
            assert "in use by another process" in said or "more than one name" in said, reach.__name__
            assert node.get(BILLED, key["key"]).json["credits_remaining"] == 99


def refused_where(place: Place, source: Path, mounted: Path, database: Path) -> str:
    """Return the error of a node on `database`, in a mount namespace where `source` is mounted a second time."""
    other = other_place(place, database)
    command = ["unshare", "-m", "sh", "-c", MOUNTED, "sh", str(source), str(mounted)]
    ended = subprocess.run(
        [*command, *SLUICE, "serve", "--config", str(other.config)],
        env=other._environ({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    return ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_node_does_not_start_on_a_separately_mounted_file(place: Place) -> None:
    """Goal: no second node on one file, and no node at a path where it would miss the log of a killed node."""
    _, key = place.new_key()
    mounted = place.folder / "a mounted.db"
    mounted.touch()
    with place.serve("--sandbox") as node:
        assert "in use by another process" in refused_where(place, place.database, mounted, mounted)
        assert node.get(BILLED, key["key"]).json["credits_remaining"] == 99
    assert f"{mounted} is mounted without its log" in refused_where(place, place.database, mounted, mounted)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_second_node_does_not_start_on_same_folder_in_another_mount(place: Place) -> None:
    """Method: like a second container that mounts the same folder. The note is removed first."""
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        elsewhere = place.folder / "elsewhere"
        elsewhere.mkdir()
        place.database.with_name("sluice.db.lock").unlink()
        said = refused_where(place, place.database.parent, elsewhere, elsewhere / "sluice.db")
        assert "in use by another process" in said
        assert node.get(BILLED, key["key"]).json["credits_remaining"] == 99


def test_commands_reach_node_by_any_path_to_its_file(place: Place) -> None:
    account, _ = place.new_key()
    with place.serve("--sandbox"):
        for number, reach in enumerate(PATHS, 1):
            other = replace(other_place(place, reach(place)), environ={})
            assert other.json_of("credits", "grant", account, "7")["balance"] == 100 + 7 * number
        assert other.json_of("ledger", "verify")["ok"]


def test_removed_owner_note_is_recreated(place: Place) -> None:
    account, _ = place.new_key()
    lock = place.database.with_name("sluice.db.lock")
    with place.serve("--sandbox"):
        lock.unlink()
        assert place.json_of("credits", "grant", account, "7")["balance"] == 107
        lock.unlink(missing_ok=True)
        wait_until(lock.exists)
        assert place.json_of("credits", "grant", account, "7")["balance"] == 114


def test_offline_command_works_through_a_symbolic_link(place: Place) -> None:
    account, _ = place.new_key()
    other = replace(other_place(place, by_symbolic_link(place)), environ={})
    assert other.json_of("credits", "grant", account, "7")["balance"] == 107
    assert sorted(file.name for file in other.folder.iterdir()) == ["config.toml", "err", "out"]
