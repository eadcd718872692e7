"""The main content of a page: an article, the posts of a thread or a product's description, without boilerplate.

Trafilatura extracts it. Before that, elements whose names mark them as boxes are removed, because Trafilatura is least
precise there. Threads and products, whose text is in several places, are found by the markup of their software. A page
as long as a book is used in full except for menus and boxes, because Trafilatura's time grows with the square of the
number of paragraphs, and such pages have little boilerplate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Final

from lxml import etree, html

from upstreams.content.markup import Element
from upstreams.web.reading.boxes import drop_boxes, hide_names
from upstreams.web.reading.cleaning import as_text, drop, letters_in, outermost
from upstreams.web.reading.library import body_found, flatten_lists, text_found

_POSTS: Final = etree.XPath(
    "//*[@itemprop or @class]"  # a single path, because libxml2 compares the results of several paths with each other
    "[((@itemprop='text' or @itemprop='articleBody') and ancestor::*[contains(@itemtype, 'DiscussionForumPosting')"
    " or contains(@itemtype, 'Question') or contains(@itemtype, 'Answer')]"
    " and not(ancestor::*[contains(@itemtype, 'FAQPage')]))"
    " or contains(concat(' ', @class, ' '), ' js-post-body ')"
    " or (contains(concat(' ', @class, ' '), ' bbWrapper ')"
    " and ancestor::*[contains(concat(' ', @class, ' '), ' message-body ')]"
    "/ancestor::article[contains(concat(' ', @class, ' '), ' message ')])"
    " or (contains(concat(' ', @class, ' '), ' content ')"
    " and ancestor::*[contains(concat(' ', @class, ' '), ' postbody ')])]"
)
_BESIDE: Final = etree.XPath("//*[self::nav or self::aside or ((self::header or self::footer) and parent::body)]")
_POSTS_SHARE_MIN: Final = 0.3
"""The minimum share of the page's characters in the posts of a thread. Questions below an article have a smaller share.
"""
_IS_PRODUCT: Final = etree.XPath(
    "boolean(//meta[@property='og:type'][starts-with(@content, 'product') or @content='og:product']"
    "|//*[contains(@itemtype, 'schema.org/Product')])"
    " and not(//meta[@property='og:type'][@content='article'])"
)
"""Articles do not match, because an article about a product may contain a box for the product."""
_PRODUCT: Final = etree.XPath(
    "//*[(@itemprop='description' and not(self::meta))"
    " or (contains(concat(@class, ' ', @id), 'product') and contains(concat(@class, ' ', @id), 'description'))]"
)
_PRODUCT_FACTS: Final = etree.XPath(
    "descendant-or-self::*[contains(concat(@class, ' ', @id), 'product')][contains(concat(@class, ' ', @id), 'propert')"
    " or contains(concat(@class, ' ', @id), 'specification')]"
)
_PRODUCT_LETTERS_MIN: Final = 150
_FOUND_LETTERS_MIN: Final = 250
"""Below this number of characters, Trafilatura drops structure."""
_SHORT_SHARE_MIN: Final = 0.5
_SHORT_SHARE_MAX: Final = 1.5
"""The minimum and maximum length of the part of a short page that may be used, relative to the text that Trafilatura
found."""
_BOOK_LETTERS_MIN: Final = 500_000
"""A page with at least this many characters counts as a book."""
_BOOK_ELEMENTS_MIN: Final = 20_000
"""A page with at least this many elements counts as a book. Trafilatura takes about 0.1 ms per element."""
_COUNT: Final = etree.XPath("count(descendant::*)")
_WORD = re.compile(r"\w+")
_TITLES_MAX: Final = 10
_HEAD_LINES: Final = 6
"""The number of lines at the start of a text that may contain its title, author and date."""
_HEAD_WORDS_MAX: Final = 12
_TOKEN = re.compile(r"\d+|[^\W\d]+")
_DATE_WORDS: Final = frozenset(
    _WORD.findall(
        "st nd rd th am pm a p m t z utc gmt est edt cst cdt mst mdt pst pdt bst cet cest at on published posted"
        " updated last date ago minute minutes min mins hour hours hrs day days mon monday tue tuesday wed wednesday thu thursday fri friday sat saturday sun sunday jan"
        " january feb february mar march apr april may jun june jul july aug august sep sept september oct october"
        " nov november dec december"
    )
)
_BY = re.compile(r"(?:(?:posted|written|published|reported|story|words|text)\s)?by\b:?", re.IGNORECASE)
_NAME_WORDS: Final = frozenset(("and", "&", "de", "van", "von", "der", "for", "|"))


def main_tree(root: Element, linked_data: Iterable[Element] = ()) -> Element:
    """Return the main content of a page as an HTML tree. The page itself is not modified.

    `linked_data` are the page's linked-data scripts, for pages whose visible text requires JavaScript.
    """
    parts = _parts(root)
    if parts:
        body = html.Element("body")
        for part in parts:
            kept = deepcopy(part)
            kept.tail = None
            body.append(kept)
        return body
    if _is_book(root):
        return _body(without_boxes(root))
    found = body_found(_for_library(root, linked_data))
    if found is None:
        return _body(_cleaned(root))
    return _as_written(root, found) if _is_bare(found) else found


def main_text(root: Element, linked_data: Iterable[Element] = ()) -> str:
    """Return the text of the main content, without title, author and date; `linked_data` as in `main_tree`."""
    if _parts(root):
        return as_text(main_tree(root))
    if _is_book(root):
        return _without_head(as_text(_body(without_boxes(root))), _titles(root))
    found = text_found(_for_library(root, linked_data))
    return _without_head(found, _titles(root)) if found else as_text(_body(_cleaned(root)))


def _is_bare(found: Element) -> bool:
    """Return whether Trafilatura found so little that it returns bare lines, without headings, lists and links."""
    return letters_in(found) < _FOUND_LETTERS_MIN and all(one.tag in ("body", "p") for one in found.iter())


def _as_written(root: Element, found: Element) -> Element:
    """Return the part of a short page that contains the text that was found.

    If no part has a similar length, return `found`.
    """
    tree, found_letters = _body(without_boxes(root)), letters_in(found)
    for part in (*tree.iter("article"), *tree.iter("main"), tree):
        if _SHORT_SHARE_MIN * found_letters <= letters_in(part) <= _SHORT_SHARE_MAX * found_letters:
            if part is tree:
                return tree
            body = html.Element("body")
            body.append(part)
            return body
    return found


def without_boxes(root: Element) -> Element:
    """Return a copy of the page without the boilerplate around its text."""
    tree = deepcopy(root)
    drop(_BESIDE(tree))
    drop_boxes(tree)
    return tree


def _is_book(root: Element) -> bool:
    body = _body(root)
    return letters_in(body) >= _BOOK_LETTERS_MIN or _COUNT(body) >= _BOOK_ELEMENTS_MIN


def _titles(root: Element) -> set[tuple[str, ...]]:
    """Return the words of each title of a page: its first heading, and the titles in its metadata."""
    metadata_titles = root.xpath("//meta[@property='og:title' or @name='twitter:title']/@content")[:_TITLES_MAX]
    named = root.xpath("//title/text()")[:_TITLES_MAX]
    headings = ["".join(one.itertext()) for one in root.xpath("//h1")[:3]]
    return {words for text in (*metadata_titles, *named, *headings) if (words := _words(str(text)))}


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _without_head(text: str, titles: set[tuple[str, ...]]) -> str:
    """Return a text without leading lines for the title, author or date, which are part of the metadata."""
    lines = text.split("\n")
    begin = _index_after_title(lines, titles)
    for line in lines[begin : begin + _HEAD_LINES]:
        if line.strip() and _words(line) not in titles and not _is_of_head(line):
            break
        begin += 1
    return "\n".join(lines[begin:]).strip() or text


def _index_after_title(lines: list[str], titles: set[tuple[str, ...]]) -> int:
    """Return the index of the line after the title; 0 if there is no title near the start.

    A few words, such as the name of a section, may precede the title.
    """
    for place, line in enumerate(lines[:_HEAD_LINES]):
        if _words(line) in titles:
            return place + 1
        if len(_words(line)) > _HEAD_WORDS_MAX:
            break
    return 0


def _is_of_head(line: str) -> bool:
    """Return whether a line contains nothing but a date or an author's name."""
    tokens = _TOKEN.findall(line.lower())
    if not tokens or len(tokens) > _HEAD_WORDS_MAX:
        return False
    if all(token.isdigit() or token in _DATE_WORDS for token in tokens):
        return any(token.isdigit() for token in tokens)
    names = _BY.match(line.strip())
    return names is not None and all(
        one[0].isupper() or one in _NAME_WORDS for one in line.strip()[names.end() :].rstrip(",|").split()
    )


def _parts(root: Element) -> list[Element]:
    """Return the elements with the main content according to their markup: a thread's posts, a product's texts."""
    posts = outermost(_POSTS(root))
    if len(posts) > 1 and sum(map(letters_in, posts)) >= _POSTS_SHARE_MIN * letters_in(_body(root)):
        return posts
    if _IS_PRODUCT(root):
        words = [one for one in outermost(_PRODUCT(root)) if letters_in(one) >= _PRODUCT_LETTERS_MIN][:1]
        facts = [one for one in _PRODUCT_FACTS(root) if letters_in(one) >= _PRODUCT_LETTERS_MIN]
        return words and outermost([*words, *facts])
    return []


def _for_library(root: Element, linked_data: Iterable[Element]) -> Element:
    """Return the page in the form that Trafilatura receives."""
    tree = _cleaned(root)
    _body(tree).extend(map(deepcopy, linked_data))
    return tree


def _cleaned(root: Element) -> Element:
    tree = deepcopy(root)
    drop_boxes(tree)
    hide_names(tree)
    flatten_lists(tree)
    return tree


def _body(root: Element) -> Element:
    found = root.find("body")
    return root if found is None else found
