"""Waits as percentiles, and the memory and CPU time of processes including their child processes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import trio

SAMPLE_S = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed, or 0.0 if there are none."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The memory in MB and the CPU seconds of a process and its child processes."""

    own_mb: float = 0.0
    children_mb: float = 0.0
    cpu_s: float = 0.0
    """Includes processes that have ended, once their parents have collected their exit."""


def usage_of(pids: Sequence[int]) -> dict[int, Usage]:
    """Return the usage of each process by its id. The usage of an ended process is zero."""
    stats = dict(filter(None, map(_stat_of, _all_pids())))
    children = defaultdict(list)
    for pid, (parent, _) in stats.items():
        children[parent].append(pid)
    found = {}
    for pid in pids:
        tree, at = [pid] if pid in stats else [], 0
        while at < len(tree):
            tree += children[tree[at]]
            at += 1
        below_mb = sum(map(memory_mb, tree[1:]))
        found[pid] = Usage(memory_mb(pid), below_mb, sum(stats[one][1] for one in tree))
    return found


def memory_mb(pid: int) -> float:
    """Return the memory of a process, excluding pages that belong to files; 0.0 if the process has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:"))) / 1024
    return 0.0


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat_of(pid: int) -> tuple[int, tuple[int, float]] | None:
    """Return the id of a process, its parent, and its CPU seconds including those of ended child processes."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return pid, (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    return None


@dataclass(slots=True)
class Watch:
    """Samples the usage of some named processes, and keeps the peak memory of each since `begin`."""

    pids: Mapping[str, int]
    peaks_mb: dict[str, float] = field(default_factory=dict)
    _cpu_s: float = 0.0
    _began_cpu_s: float = 0.0

    def begin(self) -> None:
        """Reset the peaks and the CPU time."""
        self.peaks_mb.clear()
        self.sample()
        self._began_cpu_s = self._cpu_s

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds of all processes since `begin`."""
        return self._cpu_s - self._began_cpu_s

    def sample(self) -> None:
        """Take one sample. A process named `node` is counted separately from its workers."""
        found = usage_of(list(self.pids.values()))
        for name, pid in self.pids.items():
            usage = found[pid]
            parts = (
                {"node": usage.own_mb, "workers": usage.children_mb}
                if name == "node"
                else {name: usage.own_mb + usage.children_mb}
            )
            for part, mb in parts.items():
                self.peaks_mb[part] = max(mb, self.peaks_mb.get(part, 0.0))
        self._cpu_s = sum(usage.cpu_s for usage in found.values())

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await trio.sleep(SAMPLE_S)
