"""`python -m tests.gateway.dashboard.cost`: the CPU time of each page, and how much memory the pages need.

Two real nodes with the sandbox, one of them without the dashboard, get the same calls. Then an owner signs in and
visits every linked page, one after the other, so that the process's CPU time between two responses belongs to one page.
Memory is measured as resident bytes.
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
"""The limits: p95 of a page's CPU time, the memory that the pages add, and the memory before the first page (noise)."""
MB: Final = 1_000_000
CALLS: Final = 300
PATIENCE_S: Final = 60.0
ALIKE_MAX: Final = 2
"""The number of pages of one kind to visit. Their paths differ only in ids, their queries only in values."""
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
    """The results of a run: CPU milliseconds of each page, and megabytes of memory."""

    cpu_ms: dict[str, list[float]]
    without_mb: float
    """Memory of a node without the dashboard, after the calls."""
    before_mb: float
    """Memory of the node with the dashboard, after the same calls and before the first page."""
    after_mb: float

    @property
    def p95_ms(self) -> float:
        """Maximum CPU time of 95 of 100 visits."""
        return p95([one for times in self.cpu_ms.values() for one in times])

    @property
    def exceeded(self) -> list[str]:
        """Descriptions of the limits that were exceeded."""
        found = {
            f"p95 of a page's CPU time: {self.p95_ms:.1f} ms of {CPU_MS_MAX:g}": self.p95_ms < CPU_MS_MAX,
            **dict(self.memory_marks()),
        }
        return [words for words, is_met in found.items() if not is_met]

    def memory_marks(self) -> Iterator[tuple[str, bool]]:
        """Yield a description of each memory limit, and whether it was met."""
        before, grown = self.before_mb - self.without_mb, self.after_mb - self.before_mb
        yield f"memory before the first page: {before:+.1f} MB of {BEFORE_MB_MAX:g}", before <= BEFORE_MB_MAX
        yield f"memory that the pages added: {grown:+.1f} MB of {GROWN_MB_MAX:g}", grown <= GROWN_MB_MAX


def p95(times: list[float]) -> float:
    """Return the 95th percentile."""
    return sorted(times)[-(-len(times) * 95 // 100) - 1]


@dataclass(slots=True)
class Visitor:
    """An owner's browser, the only client of the node."""

    client: httpx.Client
    pid: int
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    def get(self, path: str) -> str:
        """Return the text of a page."""
        answer = self.client.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    def send(self, page: str, path: str, **fields: str) -> str:
        """Send a form of a page."""
        token = _TOKEN.search(self.get(page))
        assert token is not None, page
        answer = self.client.post(path, data={**fields, "form_token": token[1]})
        assert answer.status_code in (200, 303), (path, answer.text)
        return answer.text

    def pages(self) -> list[str]:
        """Return every page that links lead to from the first one, at most `ALIKE_MAX` of each kind."""
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
        """Open a page, and add its CPU time to the times of its kind."""
        before = usage(self.pid).cpu_s
        self.get(page)
        self.cpu_ms.setdefault(kind_of(page), []).append((usage(self.pid).cpu_s - before) * 1_000)


def kind_of(page: str) -> str:
    """Return a page's path without ids, with the parameter names of its query."""
    parts = urlsplit(page)
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if not name.startswith("p.")})
    return _ID.sub("ID", parts.path) + (f"?{'&'.join(names)}" if names else "")


@contextmanager
def open_node(folder: Path, commands: Commands, *, dashboard: bool) -> Iterator[tuple[Place, Served, str, str]]:
    """Start a real node in its own process and send it calls. Yields its place, the node, an account, and its key."""
    folder.mkdir()
    place = Place(folder, commands, ENVIRON, program=SLUICE)
    place.configure(dashboard={"enabled": dashboard}, limits={"requests_per_minute": 1_000_000}, log={"access": False})
    with place.serve("--sandbox") as node:
        account, made = place.new_key(balance=100_000)
        for number in range(CALLS):
            node.get(f"/v1/github/profile?handle=user{number % 50}", key=made["key"])
        sleep(1)  # So that the node settles the calls that it has responded to.
        yield place, node, account, made["key"]


def rss_mb(node: Served) -> float:
    """Return the node's resident memory in megabytes."""
    return usage(node.pid).rss_bytes / MB


def measure(folder: Path, commands: Commands, *, rounds: int) -> Report:
    """Visit each page once to load it, then `rounds` times."""
    with open_node(folder / "without", commands, dashboard=False) as (_, node, _, _):
        without_mb = rss_mb(node)
    with open_node(folder / "with", commands, dashboard=True) as (place, node, account, key):
        before_mb = rss_mb(node)
        with httpx.Client(base_url=node.url, timeout=PATIENCE_S) as client:
            visitor = Visitor(client, node.pid)
            sign_up(place, visitor, account, key)
            pages = visitor.pages()
            for _ in range(rounds):
                for page in pages:
                    visitor.visit(page)
        return Report(visitor.cpu_ms, without_mb, before_mb, rss_mb(node))


def sign_up(place: Place, visitor: Visitor, account: str, key: str) -> None:
    """Create a user who signs in, and monitors to see on the pages."""
    invited = place.json_of("user", "invite", "--account", account, "--email", "ada@example.com")["url"]
    path = "/dashboard" + invited.partition("/dashboard")[2]
    visitor.send(path, path, password=PASSWORD, repeated=PASSWORD)
    for handle in ("octocat", "torvalds"):
        monitor = {**MONITOR, "params": {"handle": handle}}
        made = visitor.client.post("/v1/monitors", headers={"x-api-key": key}, json=monitor)
        assert made.status_code == 201, made.text


def show(report: Report) -> None:
    """Print the results."""
    print(f"{'page':48} {'visits':>6} {'p50 ms':>8} {'p95 ms':>8}")
    for page, times in sorted(report.cpu_ms.items(), key=lambda one: -p95(one[1])):
        print(f"{page:48} {len(times):6} {sorted(times)[len(times) // 2]:8.1f} {p95(times):8.1f}")
    visits = sum(map(len, report.cpu_ms.values()))
    print(f"p95 of {visits} visits: {report.p95_ms:.1f} ms of CPU")
    print(f"memory without the dashboard: {report.without_mb:.1f} MB")
    print(f"memory before the first page: {report.before_mb:.1f} MB")
    print(f"memory after the visits: {report.after_mb:.1f} MB")


def main() -> None:
    """Measure, print the results, and fail if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.dashboard.cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="visits of each page")
    chosen = parser.parse_args()
    with open_commands() as commands, tempfile.TemporaryDirectory() as folder:
        report = measure(Path(folder), commands, rounds=chosen.rounds)
    show(report)
    sys.exit("\n".join(["exceeded:", *report.exceeded]) if report.exceeded else 0)


if __name__ == "__main__":
    main()
