"""Children end with their block, with all that they started; free ports are free."""

import os
import socket
import sys
from pathlib import Path

from tests.fakes.waiting import wait_until
from tests.servers.children import open_child
from tests.servers.ports import free_port, free_ports

PARENT = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_ends_with_its_block_and_takes_its_own_children_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open_child([sys.executable, "-c", PARENT], log=log) as child:
        wait_until(lambda: log.read_text().endswith("\n"))
        grandchild = int(log.read_text())
        assert is_alive(grandchild)
    assert child.returncode == -9
    wait_until(lambda: not is_alive(grandchild))


def test_a_child_that_has_ended_is_no_trouble(tmp_path: Path) -> None:
    with open_child(["true"], log=tmp_path / "log", environ=os.environ) as child:
        assert child.wait(10) == 0


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in (*ports, free_port()):
        socket.create_server(("127.0.0.1", port)).close()
