"""The dashboard is not loaded before its first page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.node import open_test_node

PROGRAM = """
import sys, gateway.node.wiring, gateway.node.serve
print(*sys.modules)
import gateway.dashboard.app
print(*sys.modules)
"""
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


def test_pages_and_their_pictures_are_loaded_late() -> None:
    """Method: a process that imports what a start imports, then the pages."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    start, pages = (set(line.split()) for line in done.stdout.splitlines())
    assert "gateway.dashboard.site" in start
    assert LATER & start == set()
    assert "gateway.dashboard.pictures" in pages
    assert "segno" not in pages


@pytest.mark.parametrize("enabled", [True, False])
async def test_landing_page_and_docs_link_to_the_dashboard_only_if_enabled(enabled: bool, tmp_path: Path) -> None:
    async with open_test_node(tmp_path, dashboard={"enabled": enabled}) as node:
        for path in ("/", "/docs", "/docs/webhooks", "/status"):
            page = (await node.client.get(node.url + path)).text
            assert ('href="/dashboard"' in page) == enabled, path
        opened = await node.client.get(f"{node.url}/dashboard/sign-in")
        assert (opened.status_code == 200) == enabled
        if enabled:
            assert 'href="/docs"' in opened.text
