"""Debian's Chromium, driven by Playwright: headless, with an empty profile, and without background requests."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.processes.place import Place, Served

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


@dataclass(frozen=True, slots=True)
class Appearance:
    """How a page is displayed: its size and color scheme, and whether scripts run."""

    width: int
    height: int
    scheme: Literal["light", "dark"]
    scripted: bool = True


DESKTOP, DARK, PHONE = Appearance(1280, 800, "light"), Appearance(1280, 800, "dark"), Appearance(390, 844, "light")
PLAIN = Appearance(1280, 800, "light", scripted=False)
"""The page with JavaScript disabled."""


@dataclass(slots=True)
class Visit:
    """An open page, with all its requests and console errors so far."""

    page: Page
    requests: list[str]
    complaints: list[str]
    """Errors on the console, which include everything that the page's policy blocks."""

    def turn(self, appearance: Appearance) -> None:
        """Display the open page in another size and color scheme."""
        self.page.emulate_media(color_scheme=appearance.scheme)
        self.page.set_viewport_size(ViewportSize(width=appearance.width, height=appearance.height))

    def violations(self, rules: Sequence[str] | None = None) -> list[str]:
        """Return axe's serious or critical findings, by all of its rules or only by these."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules is not None:
            options["runOnly"] = {"type": "rule", "values": list(rules)}
        found = self.page.evaluate("options => axe.run(document, options)", options)["violations"]
        return [
            f"{one['id']} ({one['impact']}): {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


def needed(is_there: object, name: str) -> None:
    """Skip the test if a program is missing, or fail it if all programs are required."""
    if not is_there:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{name} is not installed"
        pytest.skip(f"{name} is not installed")


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Run a browser. Each visit has its own profile."""
    program = shutil.which("chromium")
    needed(program, "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visiting(browser: Browser, appearance: Appearance) -> Iterator[Visit]:
    """Open an empty page."""
    context = browser.new_context(
        viewport=ViewportSize(width=appearance.width, height=appearance.height),
        color_scheme=appearance.scheme,
        java_script_enabled=appearance.scripted,
    )
    try:
        visit = Visit(context.new_page(), [], [])
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("console", lambda line: visit.complaints.append(line.text) if line.type == "error" else None)
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        yield visit
    finally:
        context.close()


@contextmanager
def open_node(place: Place) -> Iterator[Served]:
    """Run a node with the sandbox, whose pages show the address of a demo."""
    place.configure(server={"base_url": "http://127.0.0.1:8080"})
    with place.serve("--sandbox") as served:
        yield served
