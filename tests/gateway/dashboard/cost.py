"""`python -m tests.gateway.dashboard.cost`: the CPU time of each page, and the memory of a node before and after.

Two real nodes over the sandbox, one of them without the dashboard, are put to the same calls. Then an owner signs in
and visits every page that a link leads to, one after the other, so that the process's CPU time between two answers is
the page's. Figures of memory are resident bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from time import sleep
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httpx

from bench.core.process import usage
from tests.processes.commands import Commands, open_commands
from tests.processes.place import Place, Served

CPU_MS_MAX, GROWN_MB_MAX, BEFORE_MB_MAX = 30.0, 45.0, 2.0
"""The marks: p95 of a page's CPU time, the memory that the pages add, and that before the first of them (of noise)."""
MB: Final = 1_000_000
CALLS: Final = 300
PATIENCE_S: Final = 60.0
ALIKE_MAX: Final = 2
"""Pages of one kind that are visited: those whose paths differ by ids only, or by their queries' values."""
PASSWORD: Final = "a river of small stones"
SLUICE: Final = (str(Path(sys.executable).with_name("sluice")),)
ENVIRON: Final = {"SLUICE_SECRET": "a secret of tests, long enough"}
MONITOR: Final = {
    "recipe": "github/profile",
    "cadence": "daily",
    "run_now": True,
    "track": {"metrics": ["author.followers"]},
}
_LINK: Final = re.compile(r'href="(/dashboard[^"#]*)')
_TOKEN: Final = re.compile(r'name="form_token" value="(\w+)"')
_ID: Final = re.compile(r"\b[a-z]{2,4}_\w{6,}")


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a run: CPU milliseconds of each page, and megabytes of memory."""

    cpu_ms: dict[str, list[float]]
    without_mb: float
    """Of a node without the dashboard, after the calls."""
    before_mb: float
    """Of the node with it, after the same calls and before the first page."""
    after_mb: float

    @property
    def p95_ms(self) -> float:
        """Than which 95 of 100 visits took no more."""
        return p95([one for times in self.cpu_ms.values() for one in times])

    @property
    def missed(self) -> list[str]:
        """The marks that were missed, in words."""
        found = {
            f"p95 of a page's CPU time: {self.p95_ms:.1f} ms of {CPU_MS_MAX:g}": self.p95_ms < CPU_MS_MAX,
            **dict(self.memory_marks()),
        }
        return [words for words, is_held in found.items() if not is_held]

    def memory_marks(self) -> Iterator[tuple[str, bool]]:
        """The marks of memory, in words, and whether they hold."""
        before, grown = self.before_mb - self.without_mb, self.after_mb - self.before_mb
        yield f"memory before the first page: {before:+.1f} MB of {BEFORE_MB_MAX:g}", before <= BEFORE_MB_MAX
        yield f"memory that the pages added: {grown:+.1f} MB of {GROWN_MB_MAX:g}", grown <= GROWN_MB_MAX


def p95(times: list[float]) -> float:
    """The time than which 95 of 100 are no longer."""
    return sorted(times)[-(-len(times) * 95 // 100) - 1]


@dataclass(slots=True)
class Visitor:
    """An owner's browser at a node, which is asked by nobody else."""

    client: httpx.Client
    pid: int
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    def get(self, path: str) -> str:
        """A page's text."""
        answer = self.client.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    def send(self, page: str, path: str, **fields: str) -> str:
        """A form of a page."""
        token = _TOKEN.search(self.get(page))
        assert token is not None, page
        answer = self.client.post(path, data={**fields, "form_token": token[1]})
        assert answer.status_code in (200, 303), (path, answer.text)
        return answer.text

    def pages(self) -> list[str]:
        """Every page that links lead to from the first one, `ALIKE_MAX` of a kind."""
        found, waiting = list[str](), ["/dashboard"]
        kinds: dict[str, int] = {}
        while waiting:
            page = waiting.pop(0)
            kind = kind_of(page)
            if page in found or kinds.get(kind, 0) == ALIKE_MAX:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
            found.append(page)
            waiting += map(unescape, _LINK.findall(self.get(page)))
        return [page for page in found if not page.endswith((".css", ".js", ".woff2"))]

    def visit(self, page: str) -> None:
        """Open a page, and add its CPU time to those of its kind."""
        before = usage(self.pid).cpu_s
        self.get(page)
        self.cpu_ms.setdefault(kind_of(page), []).append((usage(self.pid).cpu_s - before) * 1_000)


def kind_of(page: str) -> str:
    """A page's path without ids, and the names of its query."""
    parts = urlsplit(page)
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if not name.startswith("p.")})
    return _ID.sub("ID", parts.path) + (f"?{'&'.join(names)}" if names else "")


@contextmanager
def open_node(folder: Path, commands: Commands, *, dashboard: bool) -> Iterator[tuple[Place, Served, str, str]]:
    """A real node in a process of its own that has served calls: its place, the node, an account and its key."""
    folder.mkdir()
    place = Place(folder, commands, ENVIRON, program=SLUICE)
    place.configure(dashboard={"enabled": dashboard}, limits={"requests_per_minute": 1_000_000}, log={"access": False})
    with place.serve("--sandbox") as node:
        account, made = place.new_key(balance=100_000)
        for number in range(CALLS):
            node.get(f"/v1/github/profile?handle=user{number % 50}", key=made["key"])
        sleep(1)  # it settles what it has answered
        yield place, node, account, made["key"]


def rss_mb(node: Served) -> float:
    """Its resident megabytes."""
    return usage(node.pid).rss_bytes / MB


def measure(folder: Path, commands: Commands, *, rounds: int) -> Report:
    """Visit each page once to load it, and then so many times."""
    with open_node(folder / "without", commands, dashboard=False) as (_, node, _, _):
        without_mb = rss_mb(node)
    with open_node(folder / "with", commands, dashboard=True) as (place, node, account, key):
        before_mb = rss_mb(node)
        with httpx.Client(base_url=node.url, timeout=PATIENCE_S) as client:
            visitor = Visitor(client, node.pid)
            move_in(place, visitor, account, key)
            pages = visitor.pages()
            for _ in range(rounds):
                for page in pages:
                    visitor.visit(page)
        return Report(visitor.cpu_ms, without_mb, before_mb, rss_mb(node))


def move_in(place: Place, visitor: Visitor, account: str, key: str) -> None:
    """Make a user who signs in, and something to see on the pages."""
    invited = place.told("user", "invite", "--account", account, "--email", "ada@example.com")["url"]
    path = "/dashboard" + invited.partition("/dashboard")[2]
    visitor.send(path, path, password=PASSWORD, repeated=PASSWORD)
    for handle in ("octocat", "torvalds"):
        monitor = {**MONITOR, "params": {"handle": handle}}
        made = visitor.client.post("/v1/monitors", headers={"x-api-key": key}, json=monitor)
        assert made.status_code == 201, made.text


def show(report: Report) -> None:
    """Print the figures."""
    print(f"{'page':48} {'visits':>6} {'p50 ms':>8} {'p95 ms':>8}")
    for page, times in sorted(report.cpu_ms.items(), key=lambda one: -p95(one[1])):
        print(f"{page:48} {len(times):6} {sorted(times)[len(times) // 2]:8.1f} {p95(times):8.1f}")
    visits = sum(map(len, report.cpu_ms.values()))
    print(f"p95 of {visits} visits: {report.p95_ms:.1f} ms of CPU")
    print(f"memory without the dashboard: {report.without_mb:.1f} MB")
    print(f"with it, before the first page: {report.before_mb:.1f} MB")
    print(f"after the visits: {report.after_mb:.1f} MB")


def main() -> None:
    """Measure, print the figures, and fail where a mark is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.dashboard.cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="visits of each page")
    chosen = parser.parse_args()
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), commands, rounds=chosen.rounds)
    show(report)
    sys.exit("\n".join(["missed:", *report.missed]) if report.missed else 0)


if __name__ == "__main__":
    main()
