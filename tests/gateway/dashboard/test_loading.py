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
    "segno",
    "gateway.dashboard.app",
    "gateway.dashboard.services",
    "cryptography.hazmat.primitives.kdf.argon2",
    "cryptography.hazmat.primitives.twofactor.totp",
}


def test_a_start_loads_nothing_that_only_pages_need() -> None:
    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    assert "gateway.dashboard.site" in loaded
    assert LATER.intersection(loaded) == set()


def test_the_pages_load_the_maker_of_qr_codes_with_the_first_code() -> None:
    program = "import sys, gateway.dashboard.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "gateway.dashboard.pictures" in loaded
    assert "segno" not in loaded
