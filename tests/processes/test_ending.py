"""Processes end with their block, with everything that they started, and with the test process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.children import open_child
from tests.processes.commands import PROJECT, Commands
from tests.processes.fleet import open_fleet
from tests.processes.waiting import wait_until

PARENT = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
LAUNCHES = f"""
import subprocess, sys, time
from tests.processes.children import launch
child = launch([sys.executable, "-c", {PARENT!r}], out=subprocess.PIPE)
print(child.stdout.readline().decode().strip(), child.pid, flush=True)
time.sleep(600)
"""
FORKS = """
import os, sys, time
from pathlib import Path
from tests.processes.commands import open_commands
folder = Path(sys.argv[1])
with open_commands() as commands:
    started = commands.start(("sandbox",), folder=folder, environ=dict(os.environ), err=folder / "log")
    assert started.stdout.readline()
    print(started.pid, commands._popen.pid, flush=True)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_child_and_its_own_children_end_with_its_block() -> None:
    with open_child([sys.executable, "-c", PARENT], out=subprocess.PIPE) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert is_alive(grandchild)
    assert child.returncode == -signal.SIGKILL
    wait_until(lambda: not is_alive(grandchild))


def test_ending_a_finished_child_is_harmless() -> None:
    with open_child(["true"], environ=os.environ) as child:
        assert child.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("tests", [LAUNCHES, FORKS], ids=["launched", "forked"])
def test_nothing_outlives_the_test_process(tests: str, number: signal.Signals, tmp_path: Path) -> None:
    """Method: another interpreter starts processes as tests do, and is killed before it can end them."""
    with subprocess.Popen(
        [sys.executable, "-c", tests, str(tmp_path)], cwd=PROJECT, stdout=subprocess.PIPE, bufsize=0
    ) as popen:
        assert popen.stdout is not None
        started = [int(pid) for pid in popen.stdout.readline().split()]
        assert [is_alive(pid) for pid in started] == [True, True]
        popen.send_signal(number)
    for pid in started:
        wait_until(lambda pid=pid: not is_alive(pid))


def test_forks_end_with_the_process_that_forked_them(tmp_path: Path, commands: Commands) -> None:
    """Method: kill the `commands` process of another interpreter while the interpreter runs."""
    with open_child([sys.executable, "-c", FORKS, str(tmp_path)], folder=PROJECT, out=subprocess.PIPE) as child:
        assert child.stdout is not None
        fork, forking = (int(pid) for pid in child.stdout.readline().split())
        os.kill(forking, signal.SIGKILL)
        wait_until(lambda: not is_alive(fork))


def test_running_fleet_process_ends_with_the_fleets_block(tmp_path: Path, commands: Commands) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[server]\nport = 0\n[admin]\nport = 0\n[store]\nurl = "sqlite:///{tmp_path}/sluice.db"\n')
    with open_fleet(commands) as fleet:
        process = fleet.start(config, {"PATH": os.environ["PATH"]})
        assert process.read_first_line()
        assert is_alive(process.pid)
    assert not is_alive(process.pid)
