"""Debian's Chromium as an operator runs it for a node: headless, with a DevTools port, and killed by process ID."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL

import pytest

from tests.processes.children import lower_priority, open_child
from tests.servers.ports import free_port
from upstreams.web.browser.browser import FLAG

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-3d-apis",
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
    FLAG,
    "about:blank",
)
NICENESS = 10
STARTS_S = 120.0


@dataclass(slots=True)
class Chromium:
    """A browser on its own port. `url` is the setting for config.toml."""

    port: int = field(default_factory=free_port)
    pid: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill the browser immediately, as the kernel does when memory runs out."""
        os.killpg(self.pid, signal.SIGKILL)


@contextmanager
def open_chromium(flags: tuple[str, ...] = FLAGS, *, port: int = 0) -> Iterator[Chromium]:
    """Start a browser on `port` or a free one, with the low priority that the docs recommend. Wait until it responds.

    The browser is killed when the block ends.
    """
    program = shutil.which("chromium")
    if program is None:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), "chromium is not installed"
        pytest.skip("chromium is not installed")
    chromium = Chromium(port or free_port())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [program, f"--remote-debugging-port={chromium.port}", f"--user-data-dir={profile}", *flags]
        environ = {**os.environ, "TMPDIR": profile}  # a killed browser does not remove this folder
        with open_child(words, folder=Path(profile), environ=environ, out=DEVNULL, err=DEVNULL) as popen:
            chromium.pid = popen.pid
            lower_priority(popen.pid, NICENESS)
            _wait_until_it_answers(chromium)
            yield chromium


def _wait_until_it_answers(chromium: Chromium) -> None:
    ends_at = time.monotonic() + STARTS_S
    while True:
        try:
            urllib.request.urlopen(f"{chromium.url}/json/version", timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < ends_at, "chromium does not start"
            time.sleep(0.1)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Run one browser for all tests of a process; each page has its own context."""
    with open_chromium() as opened:
        yield opened
