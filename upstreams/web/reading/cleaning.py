"""The tree of a page, and the removal of invisible content: scripts, hidden parts, advertisements, embedded images."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urljoin

from lxml import etree, html

from upstreams.content.markup import Element
from upstreams.content.nesting import html_tree
from upstreams.model.errors import NotFound, PageTooCostly, UnexpectedBody
from upstreams.web.reading.selectors import Matching

TAGS_MAX: Final = 300_000
"""The maximum number of start and end tags. The longest real pages have a third of that."""
ATTRIBUTES_MAX: Final = 2_000
"""The maximum number of attributes of one element. A parser compares each attribute with all others."""
_ATTRIBUTES_LETTERS_MIN: Final = 2 * ATTRIBUTES_MAX
_QUOTED = re.compile(r""" "[^"]*" | '[^']*' """, re.VERBOSE)
# A union of paths is avoided, because libxml2 would compare each element of one path with all others.
_UNREAD: Final = etree.XPath(
    "//*[self::script or self::style or self::noscript or self::template or self::base or self::object or self::embed"
    " or self::iframe or self::svg or self::canvas]"
)
_FOR_MACHINES: Final = etree.XPath(
    "descendant::*[@hidden or contains(translate(@style, ' ', ''), 'display:none')"
    " or contains(translate(@style, ' ', ''), 'visibility:hidden')]"
)
_HIDDEN_SHARE_MAX: Final = 0.5
_ADS: Final = etree.XPath(
    "descendant::*[self::ins[contains(@class, 'adsbygoogle')] or self::amp-ad or @data-ad-slot or @data-ad-unit"
    " or @data-google-query-id or starts-with(@id, 'google_ads') or starts-with(@id, 'div-gpt-ad')"
    " or starts-with(@id, 'taboola-') or starts-with(@id, 'outbrain') or @data-testid='ad-slot']"
)
_AD_NAME = re.compile(
    r"(?:^|[\s_-])(?:ad|ads|advert|adverts|advertisement|advertising|adslot|ad-slot|adunit|ad-unit|sponsored|dfp"
    r"|taboola|outbrain|adsense|adsbox|ad-container|ad-wrapper|ad-banner|ad-placement|promoted-content)(?:$|[\s_-])",
    re.IGNORECASE,
)
_HAS_NAME: Final = etree.XPath(
    "descendant::*[self::div or self::aside or self::section or self::figure][@class or @id]"
)
NAME_MAX: Final = 1_000
"""The number of characters of a class or id that are examined. Name patterns scan them several times."""
_AD_LETTERS_MAX: Final = 400
"""An element with more characters counts as content, regardless of its name."""
_TAG = re.compile("<[a-zA-Z]")
_EVENTS = re.compile(r"on\w+", re.IGNORECASE)
_SETS: Final = frozenset(("srcset", "data-srcset"))
_ADDRESSES: Final = _SETS | {"href", "src", "poster", "data-src", "cite"}
_SET_PIECES_MAX: Final = 200
"""The maximum number of candidates of a `srcset` that are examined."""
_BLOCKS: Final = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "button",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "section",
        "select",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
    ]
)
_CELLS: Final = frozenset(("td", "th"))
_BLANKS = re.compile(r"[ \t\r\n\f\u00a0\u200b]+")
_MANY_BREAKS = re.compile(r"\n{3,}")


def page_tree(text: str) -> Element:
    """Return the root of an HTML page.

    Raises:
        NotFound: The page has no element and no text.
        PageTooCostly: The page has too many elements, or too many attributes on one element.
        UnexpectedBody: The page cannot be read, or is nested too deeply.
    """
    _check_size(text)
    parser = html.HTMLParser(encoding="utf-8", recover=True, remove_comments=True, remove_pis=True, no_network=True)
    try:
        root = html_tree(text.replace("\0", "").encode("utf-8", "replace"), parser)
    except (etree.LxmlError, ValueError) as exc:
        raise UnexpectedBody("expected HTML, but it cannot be read") from exc
    if root is None:
        raise NotFound("The page has no text.", reason="empty")
    return root


def _check_size(text: str) -> None:
    """Reject a page before it is parsed. If an attribute evades this count, the CPU limit applies instead."""
    if text.count("<") > TAGS_MAX:
        raise PageTooCostly(f"The page has more than {TAGS_MAX} tags.")
    for tag in text.split(">"):
        if len(tag) > _ATTRIBUTES_LETTERS_MIN:
            begin = _TAG.search(tag)
            if begin and len(_QUOTED.sub("", tag[begin.start() :]).split(None, ATTRIBUTES_MAX + 1)) > ATTRIBUTES_MAX:
                raise PageTooCostly(f"An element of the page has more than {ATTRIBUTES_MAX} attributes.")


def drop(elements: Iterable[Element]) -> None:
    """Remove elements from their tree, but keep the text after each element.

    The texts after several adjacent elements are joined only once, at the end.
    """
    before: Element | None = None
    parent: Element | None = None
    tails: list[str] = []
    for element in elements:
        above = element.getparent()
        if above is None:
            continue
        previous = element.getprevious()
        if tails and (previous is not before or above is not parent):
            _add_text(before, parent, tails)
            previous = element.getprevious()
        if element.tail:
            before, parent = previous, above
            tails.append(element.tail)
        above.remove(element)
    if tails:
        _add_text(before, parent, tails)


def _add_text(before: Element | None, parent: Element | None, tails: list[str]) -> None:
    """Insert texts after an element, or at the beginning of its parent, and clear the list."""
    if before is not None:
        before.tail = (before.tail or "") + "".join(tails)
    elif parent is not None:
        parent.text = (parent.text or "") + "".join(tails)
    tails.clear()


def drop_unread(root: Element) -> None:
    """Remove what browsers never show.

    Text that is hidden only until scripts run is kept, because most of it is content.
    """
    drop(_UNREAD(root))
    if hidden := _FOR_MACHINES(root):
        letters = letters_of_all(root)
        drop([one for one in hidden if letters[one] <= _HIDDEN_SHARE_MAX * letters[root]])


def drop_ads(root: Element) -> None:
    """Remove elements whose markup or name says that they are advertisements."""
    drop(_ADS(root))
    named = [one for one in _HAS_NAME(root) if _AD_NAME.search(name_of(one))]
    if named:
        letters = letters_of_all(root)
        drop([one for one in named if letters[one] <= _AD_LETTERS_MAX])


def name_of(element: Element) -> str:
    """Return the class and the id of an element, which usually describe its purpose."""
    return f"{element.get('class', '')[:NAME_MAX]} {element.get('id', '')[:NAME_MAX]}"


def drop_embedded_images(root: Element) -> None:
    """Remove images whose data is embedded in the page."""
    for element in root.iter("img", "source", "image"):
        for name in ("src", "srcset", "data-src"):
            if (element.get(name) or "").lstrip()[:5].lower() == "data:":
                del element.attrib[name]
    drop([one for one in root.iter("img") if not (one.get("src") or one.get("srcset") or one.get("data-src"))])


def keep_only(root: Element, selectors: Iterable[str], matching: Matching) -> Element:
    """Return a body with the selected elements, in document order.

    Elements inside another selected element are skipped.
    """
    matching.forget()
    chosen = {one for css in selectors for one in matching.found(root, css)}
    body = html.Element("body")
    for element in outermost([one for one in root.iter() if one in chosen]):
        element.tail = None
        body.append(element)
    return body


def drop_selected(root: Element, selectors: Iterable[str], matching: Matching) -> None:
    """Remove the selected elements."""
    for css in selectors:
        matching.forget()
        drop(matching.found(root, css))


def outermost(elements: Iterable[Element]) -> list[Element]:
    """Return the elements in order, without elements that are inside another one of them."""
    chosen = dict.fromkeys(elements)
    inside: dict[Element, bool] = {}
    found = []
    for one in chosen:
        path, is_inside = [], False
        for above in one.iterancestors():
            is_inside = above in chosen or inside.get(above, False)
            if is_inside or above in inside:
                break
            path.append(above)
        inside.update(dict.fromkeys(path, is_inside))
        if not is_inside:
            found.append(one)
    return found


def make_absolute(root: Element, url: str) -> None:
    """Make every address in the page absolute. Remove addresses and attributes that contain scripts."""
    for element in root.iter(etree.Element):
        for name in element.keys():  # noqa: SIM118 - a list, because the loop deletes attributes
            if name in _ADDRESSES:
                _write_in_full(element, name, url)
            elif name[0] in "oO" and _EVENTS.fullmatch(name):
                del element.attrib[name]


def _write_in_full(element: Element, name: str, url: str) -> None:
    written = element.get(name).strip()
    if written[:11].lower() == "javascript:" or written[:9].lower() == "vbscript:":
        del element.attrib[name]
        return
    try:
        element.set(name, _set_in_full(written, url) if name in _SETS else urljoin(url, written))
    except ValueError:
        del element.attrib[name]


def _set_in_full(written: str, url: str) -> str:
    return ", ".join(f"{urljoin(url, address)} {size}".rstrip() for address, size in images_of(written))


def images_of(written: str) -> list[tuple[str, str]]:
    """Return the images of a `srcset`: each address with its width or density, as written."""
    found: list[tuple[str, str]] = []
    is_address = True
    for piece in written.split(None, _SET_PIECES_MAX)[:_SET_PIECES_MAX]:
        word = piece.strip(",")
        if is_address and word:
            found.append((word, ""))
        elif found and word and not found[-1][1]:
            found[-1] = (found[-1][0], word)
        is_address = piece.endswith(",") or (is_address and not word)
    return found


def letters_in(element: Element) -> int:
    """Return the number of characters of an element's text, not counting blanks around its parts."""
    return sum(len(piece.strip()) for piece in element.itertext())


def letters_of_all(root: Element) -> dict[Element, int]:
    """Return `letters_in` for an element and each of its descendants, in one pass."""
    letters: dict[Element, int] = {}
    for element in reversed(list(root.iter())):  # in reverse, descendants come before their ancestors
        own = len((element.text or "").strip()) if isinstance(element.tag, str) else 0
        letters[element] = own + sum(letters[one] + len((one.tail or "").strip()) for one in element)
    return letters


def as_html(element: Element) -> str:
    """Return the HTML of an element, or of a body's content."""
    if element.tag != "body":
        written: str = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
        return written.strip()
    inner = "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)
    return f"{element.text or ''}{inner}".strip()


def as_text(root: Element) -> str:
    """Return the text as a reader sees it: each block on a line, table cells next to each other, code unchanged."""
    pieces: list[str] = []
    _write(root, pieces, in_code=False)
    lines = (_BLANKS.sub(" ", line).strip() if "\0" not in line else line for line in "".join(pieces).split("\n"))
    text = "\n".join(line.replace("\0", "") for line in lines)
    return _MANY_BREAKS.sub("\n\n", text).strip()


def _write(root: Element, pieces: list[str], *, in_code: bool) -> None:
    """Append the parts of a text. A NUL marks a line whose blanks are significant."""
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if element.tag == "pre":
            in_code = event == "start"
        breaks = "\n" if element.tag in _BLOCKS else "\t" if element.tag in _CELLS else ""
        pieces.append(breaks)
        behind = element.text if event == "start" else None if element is root else element.tail
        if behind:
            inside_code = in_code and (event == "start" or element.tag != "pre")
            pieces.append("\0" + behind.replace("\n", "\n\0") if inside_code else _BLANKS.sub(" ", behind))
