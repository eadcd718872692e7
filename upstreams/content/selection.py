"""Extracts values from an HTML page, as declared in a table of names and places in the page.

    CHANNEL = page(
        title=words(".tgme_channel_info_header_title"),
        items=rows(
            ".tgme_widget_message",
            id=attribute("data-post"),
            text=markup(".tgme_widget_message_text"),
            published_at=attribute("datetime", "time[datetime]"),
        ),
    )

    Call("/s/durov", accepts=CHANNEL)

A place is a CSS selector, matched inside the row in document order. Without a selector, the place is the row itself. A
field map then reads the values like JSON. A row inside another row is part of the outer row, so no element is read for
more than one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from html import escape
from typing import Any

from cssselect import HTMLTranslator
from lxml import etree

from upstreams.content.amounts import json_at_start
from upstreams.content.markup import HTML_TYPES, Element, html_root
from upstreams.model import fields
from upstreams.model.errors import UnexpectedBody
from upstreams.model.steps import Form

Selected = Callable[[Element], Any]
"""Extracts one value from an element."""

ROWS_MAX = fields.ROWS_MAX


def page(**members: Selected) -> Form:
    """Return a response format: an HTML page, with these values extracted."""
    return Form(HTML_TYPES, partial(_read_page, members))


def words(css: str = "") -> Selected:
    """Select the plain text of the first matching element; None if it is empty."""
    return partial(_read_first, _found(css), _words)


def markup(css: str = "") -> Selected:
    """Select the inner HTML of the first matching element, to be read by `html()` in a field map."""
    return partial(_read_first, _found(css), _inside)


def attribute(name: str, css: str = "") -> Selected:
    """Select an attribute of the first matching element that has it."""
    return partial(_read_first, _found(css), lambda element: element.get(name) or None)


def meta(name: str) -> Selected:
    """Select the content of the page's `<meta>` element with this name or property, such as `og:title`."""
    return partial(
        _read_first, _found(f'meta[property="{name}"], meta[name="{name}"]'), lambda one: one.get("content") or None
    )


def every(one: Selected, css: str) -> Selected:
    """Select a list with the result of `one` for each matching element. Results that are None are left out."""
    return partial(_read_every, _found(css), one)


def rows(css: str, **members: Selected) -> Selected:
    """Select a list with an object for each matching element."""
    return partial(_read_rows, _found(css), members)


def embedded(css: str = 'script[type="application/ld+json"]', *, after: str = "") -> Selected:
    """Select the first JSON value in a matching element, starting after a given text: `after="ytInitialData ="`."""
    return partial(_read_first, _found(css), partial(_json_in, after=after))


def _read_page(members: Mapping[str, Selected], raw: bytes, content_type: str) -> fields.Json:
    return _object(members, html_root(raw, content_type))


def _object(members: Mapping[str, Selected], element: Element) -> fields.Json:
    return {name: read(element) for name, read in members.items()}


@lru_cache(maxsize=1_024)
def _found(css: str) -> Callable[[Element], list[Element]]:
    """Return a function that finds the elements of a selector inside an element.

    Selectors are compiled once, when platforms are declared.
    """
    if not css:
        return _itself
    selected = HTMLTranslator().css_to_xpath(css, prefix="descendant::")
    # Limited, because creating objects for very many elements in one step would block other tasks.
    xpath = etree.XPath(f"({selected})[position() <= {ROWS_MAX + 1}]")
    found: Callable[[Element], list[Element]] = xpath
    return found


def _itself(element: Element) -> list[Element]:
    return [element]


def _read_first(found: Callable[[Element], list[Element]], read: Selected, element: Element) -> Any:
    return next((value for one in found(element) if (value := read(one)) is not None), None)


def _read_every(found: Callable[[Element], list[Element]], read: Selected, element: Element) -> list[Any]:
    return [value for one in _outermost(found(element)) if (value := read(one)) is not None]


def _read_rows(
    found: Callable[[Element], list[Element]], members: Mapping[str, Selected], element: Element
) -> list[fields.Json]:
    return [_object(members, one) for one in _outermost(found(element))]


def _outermost(elements: list[Element]) -> Iterator[Element]:
    """Yield the elements that are not inside another one. The given elements must be in document order."""
    if len(elements) > ROWS_MAX:
        raise UnexpectedBody(f"expected at most {ROWS_MAX} elements, got more")
    last: Element = None
    for one in elements:
        if last is None or last not in one.iterancestors(last.tag):
            yield one
            last = one


def _words(element: Element) -> str | None:
    return fields.plain(_inside(element))


def _inside(element: Element) -> str | None:
    inner = "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)
    found = f"{escape(element.text or '', quote=False)}{inner}".strip()
    if len(found) > fields.HTML_MAX:
        raise UnexpectedBody(f"expected markup of at most {fields.HTML_MAX} characters, got {len(found)}")
    return found or None


def _json_in(element: Element, *, after: str) -> Any:
    _, _, script = "".join(element.itertext()).partition(after) if after else ("", "", "".join(element.itertext()))
    return json_at_start(script.lstrip())
