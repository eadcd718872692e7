"""The actions of sessions: simple user actions on a page, and two ways to capture it; never code (decisions 21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
import orjson
import trio
from msgspec import Meta

from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed
from upstreams.web.addresses import PageParam
from upstreams.web.browser.devtools import CommandRefused
from upstreams.web.browser.page import BrowserPage
from upstreams.web.browser.wanted import SOURCE

ACTIONS_MAX: Final = 20
APPEAR_S: Final = 5.0
"""The number of seconds to wait for the element of an action."""
WAIT_MS_MAX: Final = 30_000
FORMATS: Final = ("markdown", "html", "raw_html", "links", "text")
Kind = Literal["goto", "click", "type", "press", "wait", "scroll", "scrape", "screenshot"]
_Text = Annotated[str, Meta(max_length=10_000)]
_Wait = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]
_Pixels = Annotated[int, Meta(ge=-100_000, le=100_000)]
_KEYS: Final = {
    "Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Backspace": (8, ""), "Delete": (46, ""),
    "Space": (32, " "), "ArrowUp": (38, ""), "ArrowDown": (40, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, ""),
    "Home": (36, ""), "End": (35, ""), "PageUp": (33, ""), "PageDown": (34, ""),
}  # fmt: skip
_PLACE: Final = """(() => {
  const found = document.querySelector(%s);
  if (!found) return null;
  found.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""
_FOCUS: Final = (
    "(() => { const found = document.querySelector(%s); if (!found) return null; found.focus(); return true })()"
)


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One action that a session performs on its page."""

    type: Annotated[str, Meta(description=f"One of {', '.join(get_args(Kind))}.", examples=["click"])]
    url: Annotated[str | None, Meta(description="The URL that goto opens.", examples=["https://example.com/"])] = None
    selector: Annotated[
        str | None, Meta(description="A CSS selector: the element to click, type into, wait for or scroll to.")
    ] = None
    text: Annotated[_Text | None, Meta(description="The text to type.")] = None
    key: Annotated[str | None, Meta(description=f"The key to press: {', '.join(_KEYS)}.")] = None
    ms: Annotated[_Wait | None, Meta(description="Milliseconds to wait.")] = None
    y: Annotated[_Pixels | None, Meta(description="Pixels to scroll down, or up if negative.")] = None
    formats: Annotated[str | None, Meta(description=f"Comma-separated, for scrape: {', '.join(FORMATS)}.")] = None
    only_main_content: Annotated[bool, Meta(description="For scrape: leave out menus, banners and footers.")] = True
    full_page: Annotated[bool, Meta(description="For screenshot: capture the whole page.")] = False
    image: Annotated[Literal["png", "jpeg"], Meta(description="The image format of a screenshot.")] = "png"


_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "goto": ("url",),
    "click": ("selector",),
    "type": ("selector", "text"),
    "press": ("key",),
    "wait": ("ms", "selector"),
    "scroll": ("y", "selector"),
}
_ONE_OF: Final = frozenset({"wait", "scroll"})
_URL: Final = PageParam("url", "", "https://example.com/")
Scrape = Callable[[str, str, Action], Awaitable[dict[str, Any]]]
"""A function that reads a page, given its HTML and address, in the formats that the action requests."""


def check_actions(actions: Sequence[Action]) -> None:
    """Reject invalid actions before any of them runs.

    Raises:
        InvalidArgument: An action is invalid; the error names the field.
    """
    if not 1 <= len(actions) <= ACTIONS_MAX:
        raise InvalidArgument("actions", f"must be 1 to {ACTIONS_MAX} actions")
    for number, action in enumerate(actions):
        _check(action, f"actions[{number}]")


def _check(action: Action, at: str) -> None:
    if action.type not in get_args(Kind):
        raise InvalidArgument(f"{at}.type", f"must be one of {', '.join(get_args(Kind))}, not {action.type[:40]}")
    needed = _NEEDS.get(action.type, ())
    given = [name for name in needed if getattr(action, name) is not None]
    if needed and not given:
        raise InvalidArgument(f"{at}.{needed[0]}", f"is required for {action.type}")
    if action.type not in _ONE_OF and len(given) < len(needed):
        missing = next(name for name in needed if name not in given)
        raise InvalidArgument(f"{at}.{missing}", f"is required for {action.type}")
    if action.url is not None:
        try:
            _URL.canonical(action.url)
        except InvalidArgument as exc:
            raise InvalidArgument(f"{at}.url", exc.problem) from exc
    if action.selector is not None:
        _check_selector(action.selector, f"{at}.selector")
    if action.key is not None and action.key not in _KEYS and not (len(action.key) == 1 and action.key.isprintable()):
        raise InvalidArgument(f"{at}.key", f"must be a character or one of {', '.join(_KEYS)}")
    for name in formats_of(action):
        if name not in FORMATS:
            raise InvalidArgument(
                f"{at}.formats", f"must be one or more of {', '.join(FORMATS)}; {name[:40]} is unknown"
            )


def _check_selector(css: str, at: str) -> None:
    from upstreams.web.reading.selectors import parsed  # noqa: PLC0415 - few nodes have a browser

    try:
        parsed(css)
    except ValueError as exc:
        raise InvalidArgument(at, f"is not a CSS selector: {exc}") from exc


def formats_of(action: Action) -> tuple[str, ...]:
    """Return the formats that a scrape requests."""
    return tuple(name.strip().lower() for name in (action.formats or "markdown").split(",") if name.strip())


async def perform(page: BrowserPage, action: Action, scrape: Scrape) -> dict[str, Any]:
    """Run an action and return its result, if it has one.

    Raises:
        UpstreamError, LimitError: The action failed.
    """
    try:
        return await _RUNNERS[action.type](page, action, scrape)
    except CommandRefused as exc:
        raise UpstreamFailed(SOURCE, f"the page navigated away in the meantime ({exc})") from exc


async def _goto(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    assert action.url is not None, "`check_actions` requires it"
    await page.go(_URL.canonical(action.url))
    return {}


async def _click(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    x, y = await _found(page, action, _PLACE)
    await page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    for kind in ("mousePressed", "mouseReleased"):
        await page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    await page.settle()
    return {}


async def _type(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    await _found(page, action, _FOCUS)
    await page.call("Input.insertText", text=action.text)
    return {}


async def _press(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    assert action.key is not None, "`check_actions` requires it"
    code, text = _KEYS.get(action.key, (0, action.key))
    name = " " if action.key == "Space" else action.key
    pressed = {"key": name, "code": action.key, "windowsVirtualKeyCode": code}
    await page.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **pressed)
    await page.call("Input.dispatchKeyEvent", type="keyUp", **pressed)
    await page.settle()
    return {}


async def _wait(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    if action.ms is not None:
        await trio.sleep(action.ms / 1_000)
    if action.selector is not None:
        with trio.move_on_after(WAIT_MS_MAX / 1_000) as waiting:
            await page.wait_for(action.selector)
        if waiting.cancelled_caught:
            raise NotFound("Timed out: no element matched the selector.", reason="selector_absent")
    return {}


async def _scroll(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    if action.selector is not None:
        await _found(page, action, _PLACE)
    else:
        await page.evaluate(f"window.scrollBy(0, {action.y})")
    await page.settle()
    return {}


async def _look(page: BrowserPage, action: Action, scrape: Scrape) -> dict[str, Any]:
    return {"page": await scrape(await page.html(), await page.url(), action)}


async def _picture(page: BrowserPage, action: Action, _scrape: Scrape) -> dict[str, Any]:
    kind, data = await page.picture(whole=action.full_page, kind=action.image)
    return {"screenshot_url": f"data:{kind};base64,{data}"}


async def _found(page: BrowserPage, action: Action, script: str) -> Any:
    """Wait for the action's element, then run a script on it and return the script's value.

    Raises:
        NotFound: No element matched in time.
    """
    assert action.selector is not None, "`check_actions` requires it"
    with trio.move_on_after(APPEAR_S):
        await page.wait_for(action.selector)
        return await page.evaluate(script % orjson.dumps(action.selector).decode())
    raise NotFound("Timed out: no element matched the selector.", reason="selector_absent")


_RUNNERS: Final[dict[str, Callable[[BrowserPage, Action, Scrape], Awaitable[dict[str, Any]]]]] = {
    "goto": _goto,
    "click": _click,
    "type": _type,
    "press": _press,
    "wait": _wait,
    "scroll": _scroll,
    "scrape": _look,
    "screenshot": _picture,
}
