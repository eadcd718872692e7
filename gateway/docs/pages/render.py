"""Renders Markdown as HTML: headings with anchor links, scrollable tables, a page in parts. Raw HTML is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from gateway.docs.pages.code_blocks import CodeBlock, are_alike, figure, tabs

_SCROLLED = '<div class="table" tabindex="0" role="group" aria-label="Table">'
_LIST_TABLE = '<div class="table listed">'
_LISTS = (("Name", "Type"), ("Code", "Status", "Retry"))
"""The first columns of tables that are shown as lists. These tables get explicit ARIA roles."""
_ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]+)`")
"""A paragraph that consists of a method and a path."""
_ROLES = {
    "table_open": "table",
    "thead_open": "rowgroup",
    "tbody_open": "rowgroup",
    "tr_open": "row",
    "th_open": "columnheader",
    "td_open": "cell",
}


@dataclass(frozen=True, slots=True)
class PagePart:
    """The section under a second-level heading. The text before the first heading is a part without an anchor."""

    anchor: str
    words: str
    html: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """The title of a page, and its parts in order."""

    title: str
    parts: Sequence[PagePart]

    @property
    def html(self) -> str:
        """Return the whole page."""
        return "".join(part.html for part in self.parts)

    @property
    def outline(self) -> Sequence[PagePart]:
        """Return the parts that have a heading."""
        return [part for part in self.parts if part.anchor]

    def around(self, anchors: Sequence[str]) -> tuple[str, str, str]:
        """Split the page in three: the text before the parts with these anchors, the parts, and the text after them."""
        found = [place for place, part in enumerate(self.parts) if part.anchor in anchors]
        begin, end = (found[0], found[-1] + 1) if found else (len(self.parts), len(self.parts))
        html = [part.html for part in self.parts]
        return "".join(html[:begin]), "".join(html[begin:end]), "".join(html[end:])


class Renderer:
    """Renders documents, and keeps no state between documents."""

    def __init__(self) -> None:
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

    def render(self, text: str) -> Rendered:
        """Render a whole document."""
        tokens = list(_with_figures(self._markdown.parse(text)))
        title, taken = "", set[str]()
        starts = [("", "", 0)]
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                words = _plain(tokens[place + 1])
                anchor = _anchor(words, taken)
                token.attrSet("id", anchor)
                if token.tag == "h1":
                    title = words
                    continue
                _link_to_itself(tokens[place + 1], anchor)
                if token.tag == "h2":
                    starts.append((anchor, words, place))
        for place, token in enumerate(tokens):
            if token.type == "tr_open":
                _anchor_row(tokens, place, taken)
        ends = [place for _, _, place in starts[1:]] + [len(tokens)]
        parts = [
            PagePart(anchor, words, self._html(tokens[begin:end]))
            for (anchor, words, begin), end in zip(starts, ends, strict=True)
        ]
        return Rendered(title, parts)

    def _html(self, tokens: Sequence[Token]) -> str:
        html: str = self._markdown.renderer.render(tokens, self._markdown.options, {})
        # The text cannot contain these tags, because raw HTML is escaped.
        html = html.replace('<table role="table">', f'{_LIST_TABLE}<table role="table">')
        return html.replace("<table>", f"{_SCROLLED}<table>").replace("</table>", "</table></div>")


def _with_figures(tokens: Sequence[Token]) -> Iterator[Token]:
    """Replace code tokens with HTML, and add roles to tables that are shown as lists."""
    blocks: list[CodeBlock] = []
    number = 0
    is_list = False
    for place, token in enumerate(tokens):
        if token.type == "fence":
            blocks.append(CodeBlock(token.info.strip().partition(" ")[0], token.content))
            if place + 1 == len(tokens) or tokens[place + 1].type != "fence":
                number += 1
                html = tabs(blocks, number) if are_alike(blocks) else "".join(map(figure, blocks))
                blocks = []
                yield _html(html)
            continue
        if token.type == "table_open":
            head = [_plain(one) for one in tokens[place : place + 12] if one.type == "inline"]
            is_list = any(tuple(head[: len(names)]) == names for names in _LISTS)
        if is_list and token.type in _ROLES:
            token.attrSet("role", _ROLES[token.type])
        if is_list and token.type == "td_open" and _plain(tokens[place + 1]) == "required":
            token.attrSet("class", "due")
        route = _ROUTE.fullmatch(token.content) if token.type == "inline" else None
        yield token if route is None else _html(_route_html(*route.groups()))


def _html(text: str) -> Token:
    return Token("html_block", "", 0, content=text)


def _route_html(method: str, path: str) -> str:
    name = method.lower()
    return f'<span class="route"><span class="method {name}">{method}</span><code>{escape(path)}</code></span>'


def _link_to_itself(inline: Token, anchor: str) -> None:
    """Turn a heading into a link to itself, unless it contains a link."""
    children = inline.children or []
    if not any(child.type == "link_open" for child in children):
        inline.children = [
            Token("link_open", "a", 1, attrs={"href": f"#{anchor}"}),
            *children,
            Token("link_close", "a", -1),
        ]


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _anchor(words: str, taken: set[str]) -> str:
    """Return a unique anchor for a heading, in lower case with hyphens. Error codes keep their upper case."""
    plain = re.sub(r"[^\w -]", "", words)
    anchor = plain if re.fullmatch(r"[A-Z][A-Z_]+", plain) else plain.lower().replace(" ", "-")
    name, number = anchor, 1
    while name in taken:
        number += 1
        name = f"{anchor}-{number}"
    taken.add(name)
    return name


def _anchor_row(tokens: Sequence[Token], place: int, taken: set[str]) -> None:
    """Give a row an anchor if its first cell is a name. Error codes have headings instead."""
    inline = tokens[place + 2] if place + 2 < len(tokens) else None
    inner = [] if inline is None else [one for one in inline.children or () if one.type != "link_open"]
    if not inner or inner[0].type != "code_inline":
        return
    name = inner[0].content
    if re.fullmatch(r"[\w.-]+", name) and name not in taken and not name.isupper():
        taken.add(name)
        tokens[place].attrSet("id", name)
