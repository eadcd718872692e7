"""Markdown as HTML: headings with anchors, tables that scroll, and the outline of a page. Raw HTML is text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LANGUAGES = {
    "sh": "Shell",
    "bash": "Shell",
    "console": "Shell",
    "python": "Python",
    "js": "JavaScript",
    "javascript": "JavaScript",
    "json": "JSON",
    "toml": "TOML",
}
_SCROLLED = '<div class="table" tabindex="0" role="group" aria-label="Table">'


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page's HTML, and its second-level headings with their anchors."""

    title: str
    html: str
    outline: Sequence[tuple[str, str]]


class Renderer:
    """Renders documents; it keeps nothing of them."""

    def __init__(self) -> None:
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

    def render(self, text: str) -> Rendered:
        """A whole document."""
        tokens = self._markdown.parse(text)
        title, outline, taken = "", [], set[str]()
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                words = _plain(tokens[place + 1])
                anchor = _anchor(words, taken)
                token.attrSet("id", anchor)
                if token.tag == "h1":
                    title = words
                elif token.tag == "h2":
                    outline.append((anchor, words))
            elif token.type == "tr_open":
                _anchor_row(tokens, place, taken)
            elif token.type == "fence":
                tokens[place] = Token("html_block", "", 0, content=_figure(token))
        html = self._markdown.renderer.render(tokens, self._markdown.options, {})
        # No text can hold a tag: what looks like one is escaped.
        html = html.replace("<table>", f"{_SCROLLED}<table>").replace("</table>", "</table></div>")
        return Rendered(title, html, outline)


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _anchor(words: str, taken: set[str]) -> str:
    """A heading's anchor, as its readers expect it; a code keeps its letters."""
    plain = re.sub(r"[^\w -]", "", words)
    anchor = plain if re.fullmatch(r"[A-Z][A-Z_]+", plain) else plain.lower().replace(" ", "-")
    name, number = anchor, 1
    while name in taken:
        number += 1
        name = f"{anchor}-{number}"
    taken.add(name)
    return name


def _anchor_row(tokens: Sequence[Token], place: int, taken: set[str]) -> None:
    """A row whose first cell is a name can be led to by it; a code has a heading of its own."""
    inline = tokens[place + 2] if place + 2 < len(tokens) else None
    if inline is None or inline.type != "inline" or not inline.children or inline.children[0].type != "code_inline":
        return
    name = inline.children[0].content
    if re.fullmatch(r"[\w.-]+", name) and name not in taken and not name.isupper():
        taken.add(name)
        tokens[place].attrSet("id", name)


def _figure(token: Token) -> str:
    """A block of code, with the name of its language."""
    label = _LANGUAGES.get(token.info.split()[0]) if token.info.strip() else None
    caption = f"<figcaption>{label}</figcaption>" if label else ""
    return f'<figure class="code">{caption}<pre tabindex="0"><code>{escape(token.content)}</code></pre></figure>\n'
