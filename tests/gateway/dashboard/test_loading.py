"""The dashboard costs a node nothing before its first page."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = "import sys, gateway.node.wiring, gateway.node.serve; print(*sys.modules)"
LATER = {
    "quart",
    "quart_trio",
    "jinja2",
    "werkzeug",
    "smtplib",
    "gateway.dashboard.app",
    "gateway.dashboard.services",
    "cryptography.hazmat.primitives.kdf.argon2",
    "cryptography.hazmat.primitives.twofactor.totp",
}


def test_a_start_loads_nothing_that_only_pages_need() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert "gateway.dashboard.site" in loaded
    assert LATER.intersection(loaded) == set()
