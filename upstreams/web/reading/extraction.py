"""Values from a page by a schema of CSS selectors that the caller sends.

    {"title": "h1", "link": "a.more@href", "tags": [".tag"],
     "offers": [{"selector": ".offer", "fields": {"price": ".price", "url": "a@href"}}]}

A text is a selector. It returns the text of the first match, or the attribute whose name follows an at sign. A list
with one entry returns all matches. An object with `fields` returns these fields for the matches of its `selector`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final
from urllib.parse import urljoin

from upstreams.content.charset import text_of
from upstreams.content.markup import Element
from upstreams.model.errors import NotFound
from upstreams.web.reading import cleaning
from upstreams.web.reading.main_content import without_boxes
from upstreams.web.reading.metadata import metadata_of
from upstreams.web.reading.selectors import Matching, compiled
from upstreams.web.reading.walls import wall_of_page

DEPTH_MAX: Final = 4
FIELDS_MAX: Final = 100
FOUND_MAX: Final = 1_000
"""The maximum number of elements that one selector returns."""
_ADDRESSES: Final = frozenset(("href", "src", "action", "poster"))


class SchemaFlaw(ValueError):
    """A schema that cannot be used. The message completes a sentence that begins with the schema's name."""


def check_schema(schema: Any, *, depth: int = 0) -> int:
    """Return the number of fields of a valid schema.

    Raises:
        SchemaFlaw: The schema is invalid; the message is the reason.
    """
    if not isinstance(schema, dict) or not schema:
        raise SchemaFlaw("must be an object whose members are CSS selectors")
    if depth >= DEPTH_MAX:
        raise SchemaFlaw(f"may nest fields at most {DEPTH_MAX} levels deep")
    count = len(schema)
    for name, wanted in schema.items():
        count += _check_field(name, wanted, depth)
    if count > FIELDS_MAX:
        raise SchemaFlaw(f"may have at most {FIELDS_MAX} fields")
    return count


def _check_field(name: str, wanted: Any, depth: int) -> int:
    if isinstance(wanted, list):
        if len(wanted) != 1:
            raise SchemaFlaw(f"has a list at {name[:60]} that does not have exactly one entry")
        wanted = wanted[0]
    if isinstance(wanted, str):
        _check_selector(name, _parted(wanted)[0])
        return 0
    if (
        not isinstance(wanted, dict)
        or wanted.keys() != {"selector", "fields"}
        or not isinstance(wanted["selector"], str)
    ):
        raise SchemaFlaw(f"has neither a selector nor an object with selector and fields at {name[:60]}")
    _check_selector(name, wanted["selector"])
    return check_schema(wanted["fields"], depth=depth + 1)


def _check_selector(name: str, css: str) -> None:
    try:
        compiled(css)
    except ValueError as exc:
        raise SchemaFlaw(f"has the invalid CSS selector {css[:60]!r} at {name[:60]}: {exc}") from exc


def read_extraction(raw: bytes, content_type: str, url: str, sent_to: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a page by `wanted["schema"]`, and the page's metadata.

    With `wanted["only_main_content"]`, the selectors see the page without the boilerplate around its text.

    Raises:
        NotFound: The page is a wall, or has none of the values.
    """
    text = text_of(raw, content_type)
    root = cleaning.page_tree(text)
    metadata = metadata_of(root)
    seen = deepcopy(root)
    cleaning.drop_unread(seen)
    wall = wall_of_page(text, seen, metadata["title"] or "", url=url, sent_to=sent_to)
    if wall is not None:
        raise NotFound(f"The page's host answers with a {wall.replace('_', ' ')} page.", reason=wall)
    base = urljoin(sent_to, next(iter(root.xpath("//base/@href")), ""))
    tree = without_boxes(root) if wanted.get("only_main_content") else root
    found = _Reading(base).object(tree, wanted["schema"])
    if not any(found.values()):
        raise NotFound("No element of the page matches the schema's selectors.", reason="empty")
    return {"extraction": found, "metadata": metadata}


class _Reading:
    """Reads one page, with the base address of its links and a limit on the work of its selectors."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._matching = Matching()

    def object(self, element: Element, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the values that a schema selects inside an element."""
        return {name: self._value(element, wanted) for name, wanted in schema.items()}

    def _value(self, element: Element, wanted: Any) -> Any:
        if isinstance(wanted, list):
            values = (self._one(found, wanted[0]) for found in self._found(element, wanted[0])[:FOUND_MAX])
            return [value for value in values if value is not None]
        found = self._found(element, wanted)
        return next((value for one in found if (value := self._one(one, wanted)) is not None), None)

    def _found(self, element: Element, wanted: Any) -> list[Element]:
        css = wanted["selector"] if isinstance(wanted, dict) else _parted(wanted)[0]
        return self._matching.found(element, css)

    def _one(self, found: Element, wanted: Any) -> Any:
        if isinstance(wanted, dict):
            return self.object(found, wanted["fields"])
        attribute = _parted(wanted)[1]
        if not attribute:
            text = cleaning.as_text(found)
            self._matching.spend_on(text)
            return text or None
        value = found.get(attribute)
        return urljoin(self._base, value.strip()) if value and attribute in _ADDRESSES else value


def _parted(wanted: str) -> tuple[str, str]:
    """Return the selector and the attribute in a text. An at sign in brackets or quotes does not mark an attribute."""
    css, mark, attribute = wanted.rpartition("@")
    is_one = mark and attribute.replace("-", "").replace("_", "").replace(":", "").isalnum()
    return (css.strip() or "*", attribute.strip()) if is_one else (wanted, "")
