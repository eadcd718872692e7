"""Finds, measures, slows down and ends processes of a local browser, as listed by Linux in `/proc`.

A signal is sent only to a process of this node's user that descends from the process that listens on the browser's
DevTools port. If that cannot be verified (another machine, container or user, or not Linux), there is no local browser
and no process is touched.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENTS_MAX: Final = 4
"""The number of a process's ancestors that are examined. A renderer is a child of the browser's zygote, or a
grandchild."""


class ProcessUsage(NamedTuple):
    """The CPU seconds that a process has used, and its current memory if known."""

    cpu_s: float
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LocalBrowser:
    """A browser on this machine, run by this user. Its renderers are forked from the `zygotes`."""

    pid: int
    zygotes: tuple[int, ...]

    def renderers(self) -> dict[int, ProcessUsage]:
        """Return the renderers, each with its usage."""
        found = {}
        for zygote in self.zygotes:
            for pid in _children(zygote):
                with suppress(OSError, ValueError):
                    if _kind(pid) == "renderer":
                        found[pid] = ProcessUsage(_cpu_s(pid), _memory_bytes(pid))
        return found

    def lower_priority(self, pid: int, niceness: int) -> None:
        """Lower the priority of all threads of a renderer. Threads that they start later inherit it."""
        if self._has(pid):
            for thread in _names(_PROC / str(pid) / "task"):
                with suppress(OSError):
                    if os.getpriority(os.PRIO_PROCESS, int(thread)) < niceness:
                        os.setpriority(os.PRIO_PROCESS, int(thread), niceness)

    def end(self, pid: int) -> bool:
        """End a renderer immediately. Return False if it does not belong to this browser."""
        try:
            descriptor = os.pidfd_open(pid)  # a pidfd refers to the same process even if the id is reused
        except OSError:
            return False
        try:
            if not self._has(pid):
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _has(self, pid: int) -> bool:
        """Return whether a process is currently a renderer of this browser."""
        with suppress(OSError, ValueError):
            return _kind(pid) == "renderer" and self.pid in _ancestors(pid)
        return False


def local_browser(pid: int, port: int) -> LocalBrowser | None:
    """Return the browser with this process id, or None if that process does not listen on the port of this machine."""
    try:
        if pid <= 0 or (_PROC / str(pid)).stat().st_uid != os.geteuid() or not _listens(pid, port):
            return None
        zygotes = _zygotes(pid)
        return LocalBrowser(pid, (*zygotes, *(below for one in zygotes for below in _zygotes(one))))
    except (OSError, ValueError, AttributeError):
        return None


def listening_process(port: int) -> int | None:
    """Return the id of a process of this user that listens on a port of this machine, or None if there is none."""
    for name in _names(_PROC):
        if name.isdigit():
            with suppress(OSError, ValueError):
                if _listens(int(name), port):
                    return int(name)
    return None


def memory_limit_bytes(pid: int) -> int | None:
    """Return the smallest memory limit among the cgroups of a process, or None if there is none.

    Raises:
        OSError: This machine does not expose cgroups.
    """
    limits = []
    for line in (_PROC / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, name = (
            (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")
            if controllers
            else (Path("/sys/fs/cgroup"), "memory.max")
        )
        folder = root / path.lstrip("/")
        for each in (folder, *folder.parents):
            if each != root and root not in each.parents:
                break
            with suppress(OSError, ValueError):  # the root cgroup has no limit file; "max" means unlimited
                limits.append(int((each / name).read_text()))
    known = [limit for limit in limits if limit < _NO_LIMIT_BYTES]
    return min(known, default=None)


_NO_LIMIT_BYTES: Final = 2**60
"""The first version of cgroups writes a number near 2**63 for "unlimited"."""


def _listens(pid: int, port: int) -> bool:
    """Return whether a process has a socket that listens on a port."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    folder = _PROC / str(pid) / "fd"
    for name in _names(folder) if sockets else ():
        with suppress(OSError):
            if os.readlink(folder / name) in sockets:
                return True
    return False


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "self" / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the process has just ended
        return []


def _children(pid: int) -> list[int]:
    tasks = _PROC / str(pid) / "task"
    found: list[int] = []
    for thread in _names(tasks):
        with suppress(OSError):
            found += map(int, (tasks / thread / "children").read_text().split())
    return found


def _zygotes(pid: int) -> list[int]:
    return [one for one in _children(pid) if _kind(one) == "zygote"]


def _kind(pid: int) -> str:
    """Return the value of `--type=` in the command line of a Chromium process. Only the browser process has none."""
    # A renderer rewrites its command line with spaces instead of NULs.
    words = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").split()
    return next((word[7:].decode() for word in words if word.startswith(b"--type=")), "")


def _ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while pid > 1 and len(found) < _PARENTS_MAX:
        pid = int(_stat(pid)[1])
        found.append(pid)
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of a process's `stat` after the process name, which may contain spaces."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_bytes(pid: int) -> int:
    """Return the memory that is freed when the process ends. The program's shared pages are not included."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    names = ("RssAnon:", "RssShmem:", "VmSwap:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
