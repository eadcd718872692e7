"""Systems without epoll: held requests and rejected clients use the fallback, which these tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, gateway.server.hangups
gateway.server.hangups.AVAILABLE = False  # as on macOS; set before other modules read it
import pytest
sys.exit(pytest.main(["-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""
TESTS = (
    "tests/gateway/server/test_refused_clients.py",
    "tests/gateway/feed/test_polling.py::test_disconnected_client_frees_its_slot_within_a_second",
    "tests/gateway/feed/test_polling.py::test_matching_event_wakes_a_poll",
)


def test_polls_and_refusals_work_without_epoll() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-c", PROGRAM, *TESTS]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
