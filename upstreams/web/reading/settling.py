"""Adapts a page to what a visitor sees: image addresses, quotation marks, an article in `<aside>`.

Browsers and scripts decide these details. Readers of pages rely on the names of elements and attributes, so these are
changed to match the result.
"""

from __future__ import annotations

import re
from itertools import islice
from operator import itemgetter
from typing import Final

from lxml import etree

from upstreams.content.markup import Element
from upstreams.web.reading.cleaning import images_of, letters_in, outermost

_LAZY: Final = (
    "data-src", "data-lazy-src", "data-original", "data-original-src", "data-lazy", "data-actualsrc", "data-hi-res-src",
    "data-full-src", "data-img-src", "data-image", "data-echo",
)  # fmt: skip
"""Attributes in which scripts store the address of an image until it is shown."""
_LAZY_SETS: Final = ("srcset", "data-srcset", "data-lazy-srcset", "data-original-set")
_EMPTY: Final = ("#", "//:", "data:", "about:", "blob:")
"""Beginnings (in lower case) of addresses that do not lead to a file of a site."""
_SOURCES_MAX: Final = 20
_IMAGE = re.compile(r"\S+\.(?:avif|gif|jpe?g|png|svg|webp)(?:[?#]\S*)?", re.IGNORECASE)
_ADDRESS_MAX: Final = 4_096
_NAME_MAX: Final = 100
"""The number of characters at the end of an address that are searched for a file name."""
_PLACEHOLDER = re.compile(
    r"(?:^|[/_.-])(?:1x1|blank|dummy|empty|gr[ae]y|lazy|lazyload|loading|pixel|placeholder|spacer|transparent)"
    r"(?:[_.-][\w.-]*)?\.(?:gif|jpe?g|png|svg|webp)$",
    re.IGNORECASE,
)
"""File names of placeholders that are shown until the real image has loaded."""
_ASIDE_TIMES: Final = 3
"""An `<aside>` that has at least this many times as much text as the rest of the page is the article."""
_ASIDE_LETTERS_MIN: Final = 200
_AROUND: Final = frozenset(("nav", "header", "footer", "aside", "a"))


def settle_images(root: Element) -> None:
    """Set the address of each image to the address that a visitor sees."""
    for image in root.iter("img"):
        if not _has_visible_address(image) and (address := _hidden_address(image)):
            image.set("src", address)


def keep_fallbacks(root: Element) -> None:
    """Give an image without an address the address from the adjacent fallback for browsers without scripts."""
    for fallback in root.iter("noscript"):
        found = next(fallback.iter("img"), None)
        address = None if found is None else _address(found.get("src")) or _lazy_address(found)
        beside = (_image_of(one) for one in (fallback.getprevious(), fallback.getnext()))
        bare = next((image for image in beside if image is not None and _has_no_address(image)), None)
        if address and bare is not None:
            bare.set("src", address)


def _image_of(element: Element | None) -> Element | None:
    """Return the image of an element, which is an image or a `<picture>`."""
    return None if element is None or element.tag not in ("img", "picture") else next(element.iter("img"), None)


def _has_no_address(image: Element) -> bool:
    """Return whether an image has no address."""
    return not _has_visible_address(image) and not _hidden_address(image)


def _hidden_address(image: Element) -> str | None:
    """Return the address that a script or the browser would choose for an image; None if there is none."""
    return _lazy_address(image) or _from_sources(image)


def _has_visible_address(image: Element) -> bool:
    """Return whether the address of an image is already the one that a visitor sees."""
    own = image.get("src", "").strip()
    if not own or own[:6].lower().startswith(_EMPTY):
        return False
    return not (_is_lazy(image) and (_is_placeholder(own) or "lazy" in image.get("class", "")[:_NAME_MAX].lower()))


def _is_lazy(image: Element) -> bool:
    return any(name[:5] == "data-" or name == "srcset" for name in image.keys())  # noqa: SIM118 - the keys of an element


def _is_placeholder(address: str) -> bool:
    return _PLACEHOLDER.search(address.partition("?")[0][-_NAME_MAX:]) is not None


def _lazy_address(image: Element) -> str | None:
    """Return the address that a script would use, or the largest candidate for the browser."""
    for name in _LAZY:
        if address := _address(image.get(name)):
            return address
    for name in _LAZY_SETS:
        if address := _largest_of(image.get(name, "")):
            return address
    others = (value.strip() for name, value in image.attrib.items() if name.startswith("data-"))
    return next((one for one in others if len(one) <= _ADDRESS_MAX and _IMAGE.fullmatch(one)), None)


def _from_sources(image: Element) -> str | None:
    """Return the address in the `<picture>` around an image.

    An unclosed source element also counts as being around it.
    """
    sources: list[Element] = []
    above = image.getparent()
    while above is not None and above.tag == "source" and len(sources) < _SOURCES_MAX:
        sources.append(above)
        above = above.getparent()
    if above is not None and above.tag == "picture":
        sources.extend(islice(above.iterchildren("source"), _SOURCES_MAX))
    return next((found for one in sources if (found := _lazy_address(one))), None)


def _address(written: str | None) -> str | None:
    address = (written or "").strip()
    is_one = address and address[:5].lower() != "data:" and not any(map(str.isspace, address[:_ADDRESS_MAX]))
    return address if is_one and len(address) <= _ADDRESS_MAX and address[:1] not in "{[" else None


def _largest_of(written: str) -> str | None:
    """Return the address of the largest image in a `srcset`."""
    images = [(address, size) for address, size in images_of(written) if _address(address)]
    return max(images, key=lambda one: _size_of(one[1]), default=(None, ""))[0]


def _size_of(descriptor: str) -> float:
    try:
        return float(descriptor[:-1] or 1)
    except ValueError:
        return 1.0


def mark_quotes(root: Element) -> None:
    """Insert the quotation marks that browsers add to quotes inside sentences.

    Other readers would treat such quotes as blocks.
    """
    for quote in root.iter("q"):
        quote.tag = "span"
        quote.text = f'"{quote.text or ""}'
        if len(quote):
            quote[-1].tail = f'{quote[-1].tail or ""}"'
        else:
            quote.text += '"'


def settle_asides(root: Element) -> None:
    """Turn an `<aside>` into an article if it contains most of the page's text."""
    asides = outermost(root.iter("aside"))
    if not asides:
        return
    own, aside = max(((_text_letters(one), one) for one in asides), key=itemgetter(0))
    if own >= _ASIDE_LETTERS_MIN and not _has_more_around(root, own // _ASIDE_TIMES):
        aside.tag = "article"
        for name in ("class", "id", "role"):  # because of these, other readers would treat it as a box
            aside.attrib.pop(name, None)


def _text_letters(element: Element) -> int:
    """Return the number of characters of an element outside its links."""
    return letters_in(element) - sum(map(letters_in, outermost(element.iter("a"))))


def _has_more_around(root: Element, most: int) -> bool:
    """Return whether a page has more than this many characters outside asides, links and its header and footer."""
    body = root.find("body")
    walk = etree.iterwalk(root if body is None else body, events=("start",))
    letters = 0
    for _, element in walk:
        letters += len((element.tail or "").strip())
        if element.tag in _AROUND:
            walk.skip_subtree()
        else:
            letters += len((element.text or "").strip())
        if letters > most:
            return True
    return False
