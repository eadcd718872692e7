"""Trafilatura, and the structures that it would lose: code with its language, ordered lists, nested lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lxml import html

from upstreams.content.markup import Element
from upstreams.web.reading.cleaning import NAME_MAX, drop

_NO_LANGUAGE: Final = "none"
_LANGUAGE = re.compile(r"(?:^|\s)(?:lang(?:uage)?|highlight|brush)[-:]\s?(?:source-)?([\w+#.-]{1,30})")
_WORD_TAGS: Final = frozenset(("p", "a", "i", "strong", "h1", "h2", "h3", "h4", "h5", "h6"))
_NESTED: Final = (
    "descendant::*[self::ul or self::ol][parent::li or parent::ul or parent::ol][not(descendant::ul or descendant::ol)]"
)
_LIST_DEPTH_MAX: Final = 12
_LIST_MARK: Final = re.compile(r"(ul|ol)-(\d{1,2})")
"""The mark of an item from a nested list: the kind of the list, and the nesting depth."""


def text_found(tree: Element) -> str:
    """Return the main text of a page, or an empty text. The page is modified."""
    from trafilatura import extract  # noqa: PLC0415 - needed only to read pages

    return extract(tree, include_comments=False, with_metadata=False, output_format="txt") or ""


def body_found(tree: Element) -> Element | None:
    """Return the body of the main content as HTML, or None. The page is modified."""
    from trafilatura import bare_extraction  # noqa: PLC0415 - as above
    from trafilatura.htmlprocessing import convert_to_html  # noqa: PLC0415 - as above

    _mark_code(tree)
    for one in tree.iter("figcaption"):  # Trafilatura does not support it
        one.tag = "p"
    found = bare_extraction(
        tree,
        include_comments=False,
        with_metadata=False,
        output_format="html",
        include_links=True,
        include_images=True,
        include_formatting=True,
    )
    if found is None:
        return None
    assert not isinstance(found, dict), "only `as_dict` would return a dict"
    body: Element = found.body
    code = [(one, one.get("lang")) for one in body.iter("code")]
    lists = [(one, one.get("rend"), [(item, item.get("rend")) for item in one]) for one in body.iter("list")]
    convert_to_html(body)
    for one, language in code:
        _restore_code(one, language)
    for one, kind, items in lists:
        _restore_list(one, kind, items)
    return body


def flatten_lists(tree: Element) -> None:
    """Move the items of a nested list after its parent item and mark them, because Trafilatura would lose them."""
    for one in tree.iter("li"):
        one.attrib.pop("rend", None)
    for _ in range(_LIST_DEPTH_MAX):
        nested = tree.xpath(_NESTED)
        if not nested:
            break
        for inner in nested:
            parent = inner.getparent()
            before = parent if parent.tag == "li" else inner
            for one in reversed(inner.findall("li")):
                kind, depth = (one.get("rend") or f"{inner.tag}-0").split("-")
                one.set("rend", f"{kind}-{int(depth) + 1}")
                before.addnext(one)
        drop(nested)


def _mark_code(tree: Element) -> None:
    """Mark each code block with its language, so that the library recognizes it as code. Keep only its text."""
    for one in tree.iter("code"):
        one.attrib.pop("lang", None)
    for block in list(tree.iter("pre")):
        for line in block.iter("br"):
            line.tail = f"\n{line.tail or ''}"
        language, text, tail = _language(block), "".join(block.itertext()), block.tail
        block.clear()
        block.set("lang", language)
        block.text, block.tail = text, tail


def _language(block: Element) -> str:
    """Return the language named in the class of a code block, of the code inside it, or of a box around it."""
    around = list(block.iterancestors("div"))[:2]
    names = (one.get("class", "")[:NAME_MAX] for one in (*block.iter("code"), block, *around))
    return next((found[1] for name in names if (found := _LANGUAGE.search(name))), _NO_LANGUAGE)


def _restore_code(element: Element, language: str | None) -> None:
    is_inside = element.getparent().tag in _WORD_TAGS
    if language is None and (is_inside or "\n" not in "".join(element.itertext())):
        element.tag = "code"
        return
    if language and language != _NO_LANGUAGE:
        inner = html.Element("code")
        inner.set("class", f"language-{language}")
        inner.text, element.text = element.text, None
        element.append(inner)


def _restore_list(element: Element, kind: str | None, items: Iterable[tuple[Element, str | None]]) -> None:
    """Restore a list to its original kind, and move the items of nested lists back."""
    element.tag = "ol" if kind == "ol" else "ul"
    open_lists = [element]
    for item, mark in items:
        was_in = _LIST_MARK.fullmatch(mark or "")
        depth = min(int(was_in[2]), len(open_lists)) if was_in else 0
        del open_lists[depth + 1 :]
        if was_in is None or depth == 0:
            continue
        before = item.getprevious() if depth == 1 else open_lists[depth - 1][-1]
        if before is None or before.tag != "li":
            continue
        if len(open_lists) == depth or open_lists[depth].tag != was_in[1]:
            open_lists[depth:] = [html.Element(was_in[1])]
            before.append(open_lists[depth])
        open_lists[depth].append(item)
