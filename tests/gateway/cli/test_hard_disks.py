"""Full disks and wrong files: the node reports them, survives, and recovers."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from storage.sqlite.watch import WATCH_S
from tests.processes.commands import SLUICE
from tests.processes.place import Place, Served
from tests.processes.waiting import wait_until

BILLED = "/v1/github/profile?handle={}"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
pytestmark = pytest.mark.sqlite


@contextmanager
def serving_on_small_disk(place: Place) -> Iterator[tuple[Served, Path]]:
    """Run a node with its database on a disk of 8 MB. Yields the node and the path of the disk."""
    disk = place.database.parent
    program = (sys.executable, "-m", "tests.fakes.small_disk", str(disk))
    with replace(place, program=program).serve("--sandbox") as node:
        yield node, Path(f"/proc/{node.popen.pid}/root{disk}")


def answers_until_refused(node: Served, key: str) -> int:
    """Return the number of billed calls before the first 503, which must be SERVICE_UNAVAILABLE."""
    for number in range(100_000):
        answer = node.get(BILLED.format(f"n{number}"), key)
        if answer.status != 200:
            assert (answer.status, answer.code) == (503, "SERVICE_UNAVAILABLE")
            assert answer.json["credits_used"] == 0
            return number
    raise AssertionError("never refused")


def test_file_size_limit_makes_store_unavailable_until_raised(place: Place) -> None:
    """Method: lower and raise the kernel's file size limit of the running node."""
    place.configure(limits={"requests_per_minute": 1_000_000})
    _, key = place.new_key(balance=100_000)
    with place.serve("--sandbox") as node:
        assert node.get(BILLED.format("a"), key["key"]).status == 200
        resource.prlimit(node.popen.pid, resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
        billed = answers_until_refused(node, key["key"])
        wait_until(lambda: node.admin("/readyz").status == 503)  # each check writes a page, until none fits any more
        assert node.admin("/readyz").body.startswith(b"store down: the d")
        assert node.admin("/healthz").status == 200
        resource.prlimit(node.popen.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert node.get(BILLED.format("later"), key["key"]).json["credits_used"] == 1
        assert node.admin("/readyz").status == 200
        wait_until(lambda: node.get("/v1/credits", key["key"]).json["credits_remaining"] == 100_000 - billed - 2)
        assert place.json_of("ledger", "verify")["ok"]


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with suppress(OSError), file.open("wb", buffering=0) as opened:
        for _ in range(100_000):
            opened.write(b"x" * 4096)
    assert os.statvfs(file.parent).f_bavail == 0


@only_root
def test_full_disk_makes_store_unavailable_until_freed(place: Place) -> None:
    """Method: a disk of 8 MB, filled by another program."""
    place.configure(limits={"requests_per_minute": 1_000_000})
    _, key = place.new_key(balance=100_000)
    with serving_on_small_disk(place) as (node, inside):
        assert node.get(BILLED.format("a"), key["key"]).status == 200
        filler = inside / "filler"
        fill(filler)
        answers_until_refused(node, key["key"])
        unready = node.admin("/readyz")
        assert (unready.status, b"disk" in unready.body) == (503, True)
        filler.unlink()
        wait_until(lambda: node.admin("/readyz").status == 200)
        assert node.get(BILLED.format("later"), key["key"]).json["credits_used"] == 1
        node.stop()


@only_root
def test_disk_floor_stops_charging_and_disk_never_fills(place: Place) -> None:
    """Method: a disk of 8 MB with a floor of 2 MB, which another program fills to half of that."""
    place.configure(limits={"requests_per_minute": 1_000_000}, store={"disk_floor_bytes": 2_000_000})
    _, key = place.new_key(balance=100_000)
    with serving_on_small_disk(place) as (node, inside):
        assert node.get(BILLED.format("a"), key["key"]).status == 200
        filler = inside / "filler"
        found = os.statvfs(inside)
        filler.write_bytes(bytes(found.f_bavail * found.f_frsize - 1_000_000))
        wait_until(lambda: node.admin("/readyz").status == 503)
        assert node.admin("/readyz").body.startswith(b"disk full: ")
        refused = node.get(BILLED.format("b"), key["key"])
        assert (refused.status, refused.code, refused.json["credits_used"]) == (503, "SERVICE_UNAVAILABLE", 0)
        assert node.get(BILLED.format("a"), key["key"]).json["cached"]
        assert len(node.logged("disk_full")) == 1
        filler.unlink()
        wait_until(lambda: node.admin("/readyz").status == 200)
        assert node.get(BILLED.format("b"), key["key"]).json["credits_used"] == 1
        assert b"\nsluice_disk_floor_bytes 2e+06\n" in node.admin("/metrics").body
        node.stop()


def test_reload_rejects_unusable_config_file_without_waiting(place: Place) -> None:
    """Method: a pipe without a writer, an endless device, a file of a gigabyte, a folder, a missing file."""
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        for number, (name, (lay, said)) in enumerate(ODD_FILES.items(), 1):
            place.config.unlink()
            lay(place.config)
            node.signal(signal.SIGHUP)
            refused = node.logged("reload_refused", number)
            assert len(refused) == number
            assert said in refused[-1]["problems"][0]
            assert said in place.operate("check").refused(2)
            assert node.get(BILLED.format(name), key["key"]).status == 200
            if place.config.is_dir():
                place.config.rmdir()
                place.config.touch()
            place.config.unlink(missing_ok=True)
            place.configure()
        node.signal(signal.SIGHUP)
        node.logged("reloaded")


@only_root
def test_node_reports_and_survives_a_lost_disk(place: Place) -> None:
    _, key = place.new_key()
    with serving_on_small_disk(place) as (node, _):
        assert node.get(BILLED.format("a"), key["key"]).status == 200
        unmount = ["nsenter", "-t", str(node.popen.pid), "-m", "umount", "-l", str(place.database.parent)]
        subprocess.run(unmount, check=True, timeout=60)
        refused = node.get(BILLED.format("c"), key["key"])
        assert (refused.status, refused.json["credits_used"]) == (503, 0)
        wait_until(lambda: node.admin("/readyz").status == 503)
        assert b"sluice.db was " in node.admin("/readyz").body
        assert node.admin("/healthz").status == 200
        assert node.stop() == 0


FULL_DISK = 'mount -t tmpfs -o size=64k none "$0" && (cat /dev/zero > "$0/filler" 2> /dev/null; exec "$@")'


@only_root
def test_start_on_full_disk_is_rejected_with_message(place: Place) -> None:
    place.database.parent.mkdir()
    mounted = ("unshare", "-m", "sh", "-c", FULL_DISK, str(place.database.parent), *SLUICE)
    for environ in ({}, {"SLUICE_SECRET": "a secret of the tests 0123456789"}):
        command = [*mounted, "account", "list", "--config", str(place.config)]
        ended = subprocess.run(
            command, env=place._environ(environ), capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"sluice: {'cannot write ' if environ else ''}{place.database.parent}")
        assert "No space left on device" in ended.stderr
        assert ended.stderr.count("\n") == 1


def make_huge(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(2**30)


ODD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "not a regular file"),
    "device": (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
    "huge": (make_huge, "longer than 1048576 bytes"),
    "folder": (Path.mkdir, "Is a directory"),
    "dangling": (lambda file: file.symlink_to("nowhere"), "No such file"),
}


@pytest.mark.parametrize("name", ["sluice.db", "sluice.db.lock", "secret"])
def test_node_rejects_a_pipe_instead_of_its_files(place: Place, name: str) -> None:
    place.database.parent.mkdir(mode=0o700)
    os.mkfifo(place.database.with_name(name), 0o600)
    assert "not a regular file" in place.operate("serve").refused(1)
    place.database.with_name(name).unlink()
    os.mkfifo(place.folder / "pipe", 0o600)
    place.database.with_name(name).symlink_to(place.folder / "pipe")
    assert "not a regular file" in place.operate("serve").refused(1)


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_created_files_are_private_under_any_umask(place: Place, umask: int) -> None:
    program = ("sh", "-c", f'umask {umask:o}; exec "$0" "$@"', *SLUICE)
    with replace(place, program=program).serve("--sandbox") as node:
        assert node.admin("/readyz").status == 200
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.database.parent.iterdir()}
        assert modes.keys() >= {"sluice.db", "sluice.db-wal", "sluice.db-shm", "sluice.db.lock", "secret"}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(place.database.parent.stat().st_mode) == 0o700


def test_exposed_folder_is_reported_and_database_file_made_private(place: Place) -> None:
    place.new_key()
    file, folder = place.database, place.database.parent
    folder.chmod(0o755)
    file.chmod(0o644)
    checked = place.operate("check")
    assert (checked.exit_code, checked.out) == (0, "the config is valid\n")
    assert checked.err.splitlines() == [
        f"sluice: warning: other users can enter {folder} (mode 0755); restrict it to its owner: chmod go= {folder}",
        f"sluice: warning: other users can read {file} (mode 0644); restrict it to its owner: chmod go= {file}",
    ]
    with place.serve("--sandbox") as node:
        assert [str(folder) in event["warning"] for event in node.logged("data_exposed")] == [True]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
        assert {stat.S_IMODE(each.stat().st_mode) for each in folder.glob("sluice.db*")} == {0o600}


def test_running_node_without_descriptors_reloads_later_and_keeps_billing(place: Place) -> None:
    _, key = place.new_key()
    with place.serve("--sandbox") as node:
        assert node.get(BILLED.format("a"), key["key"]).status == 200
        _, hard = resource.prlimit(node.popen.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(node.popen.pid, resource.RLIMIT_NOFILE, (3, hard))
        node.signal(signal.SIGHUP)
        assert "Too many open files" in node.logged("reload_refused")[-1]["problems"][0]
        place.database.with_name("sluice.db.lock").unlink()
        time.sleep(2 * WATCH_S)
        resource.prlimit(node.popen.pid, resource.RLIMIT_NOFILE, (hard, hard))
        wait_until(place.database.with_name("sluice.db.lock").exists)
        node.signal(signal.SIGHUP)
        node.logged("reloaded")
        assert node.get(BILLED.format("b"), key["key"]).json["credits_used"] == 1


def test_command_with_too_few_file_descriptors_fails_with_one_line(place: Place) -> None:
    program = ("sh", "-c", 'ulimit -n 12; exec "$0" "$@"', *SLUICE)
    command = [*program, "account", "list", "--config", str(place.config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=place.folder)
    assert ended.returncode == 1
    assert ended.stderr.startswith("sluice: ")
    assert ended.stderr.count("\n") == 1
