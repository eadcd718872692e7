"""Debian's Chromium, driven by Playwright: headless, with an empty profile, and quiet by itself."""

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
class Look:
    """How a page is looked at."""

    width: int
    height: int
    scheme: Literal["light", "dark"]
    scripted: bool = True


DESKTOP, DARK, PHONE = Look(1280, 800, "light"), Look(1280, 800, "dark"), Look(390, 844, "light")
PLAIN = Look(1280, 800, "light", scripted=False)
"""Without JavaScript."""


@dataclass(slots=True)
class Visit:
    """A page that is open, with all that it asked for and complained of since."""

    page: Page
    requests: list[str]
    complaints: list[str]
    """Errors of the console: what its policy refuses is among them."""

    def turn(self, look: Look) -> None:
        """Look at the open page in another way."""
        self.page.emulate_media(color_scheme=look.scheme)
        self.page.set_viewport_size(ViewportSize(width=look.width, height=look.height))

    def violations(self, rules: Sequence[str] | None = None) -> list[str]:
        """What axe finds that is serious or worse, by all its rules or these."""
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
    """Skip a test for want of a program, unless every one has to be there."""
    if not is_there:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{name} is not installed"
        pytest.skip(f"{name} is not installed")


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """A browser; each visit has a profile of its own."""
    program = shutil.which("chromium")
    needed(program, "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visiting(browser: Browser, look: Look) -> Iterator[Visit]:
    """An empty page."""
    context = browser.new_context(
        viewport=ViewportSize(width=look.width, height=look.height),
        color_scheme=look.scheme,
        java_script_enabled=look.scripted,
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
    """A node before the sandbox, whose pages name the address of a demo."""
    place.configure(server={"base_url": "http://127.0.0.1:8080"})
    with place.serve("--sandbox") as served:
        yield served
