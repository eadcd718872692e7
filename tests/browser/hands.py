"""The two ways in which a visitor uses a page: with a mouse, or only with the keyboard."""

from __future__ import annotations

from typing import Protocol

from playwright.sync_api import Locator, Page

TABS_MAX = 150
_IS_FOCUSED = "one => document.activeElement.contains(one) && document.activeElement !== document.body"
_IS_SEEN = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
_CHOSEN = "one => one.selectedOptions[0].text"


class Hands(Protocol):
    """The actions of a visitor on a page."""

    def press(self, one: Locator) -> None:
        """Press a button, a link, or the heading of a collapsible part."""

    def write(self, one: Locator, text: str) -> None:
        """Replace the text of a field."""

    def tick(self, one: Locator) -> None:
        """Tick an empty checkbox."""

    def choose(self, one: Locator, option: str) -> None:
        """Choose an option of a list."""


class Mouse:
    """Clicks on elements."""

    def press(self, one: Locator) -> None:
        one.click()

    def write(self, one: Locator, text: str) -> None:
        one.fill(text)

    def tick(self, one: Locator) -> None:
        one.check()

    def choose(self, one: Locator, option: str) -> None:
        one.select_option(option)


class Keyboard:
    """Moves to an element by Tab, from the top of the page or from the current focus, which must always be visible."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def press(self, one: Locator) -> None:
        self._go(one)
        self._page.keyboard.press("Enter")

    def write(self, one: Locator, text: str) -> None:
        self._go(one)
        self._page.keyboard.press("Control+A")
        self._page.keyboard.type(text)

    def tick(self, one: Locator) -> None:
        self._go(one)
        self._page.keyboard.press("Space")

    def choose(self, one: Locator, option: str) -> None:
        self._go(one)
        self._page.keyboard.press("Home")
        for _ in range(TABS_MAX):
            if one.evaluate(_CHOSEN).strip() == option.strip():
                return
            self._page.keyboard.press("ArrowDown")
        raise AssertionError(f"the arrow keys do not reach {option}")

    def _go(self, one: Locator) -> None:
        one.wait_for()
        for _ in range(TABS_MAX):
            if one.evaluate(_IS_FOCUSED):
                assert self._page.evaluate(_IS_SEEN), f"the page does not show that {one} has the focus"
                return
            self._page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {one}")
