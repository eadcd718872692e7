"""Repairs XML with errors before it is parsed, so that one error does not damage the rest of a document.

libxml2 recovers from an error, but it drops all named references after it, and an unclosed element swallows its
siblings. `repair_xml` rewrites a document in one pass, in linear time:

- Named references and stray ampersands become numeric references. Control characters are removed.
- A `<` that does not start a tag becomes a reference. Attributes in tags are quoted, separated and made unique.
- An end tag without an open element is removed. An element without an end tag ends before the next tag that is not
  HTML, or with its parent element; if it is an HTML element, it ends before any tag. A container such as `<item>` ends
  before the next container of the same name. Elements that are open where a document is truncated end there.

CDATA sections keep their text. Comments, processing instructions and the DOCTYPE are removed; references to short
entities that the DOCTYPE declares are replaced by their text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.entities import html5
from typing import Final

_NAME: Final = r"[A-Za-z_:][\w:.-]*"
_TOKEN = re.compile(
    rf"""
      (?P<section><!\[CDATA\[|<!--)
    | <\?[^<]*?\?> | <\?[^<>]*> | <!\w[^<>]*>
    | </(?P<end>{_NAME})[^<>]*>?
    | <(?P<start>{_NAME})(?<!:)
      (?P<inside>(?:[\s/](?:[^<>"'] | "(?:[^"<]|<(?![A-Za-z/!?]))*+" | '(?:[^'<]|<(?![A-Za-z/!?]))*+' | ["'])*+)?)>
    | <
    """,
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    rf"""(?P<name>{_NAME})(?:\s*=\s*(?:
      "(?P<double>(?:(?!(?<!\s)\s+{_NAME}\s*=\s*["'])[^"])*+)"?
    | '(?P<single>(?:(?!(?<!\s)\s+{_NAME}\s*=\s*["'])[^'])*+)'?
    | (?P<bare>[^\s"'>]+)
    ))?""",
    re.VERBOSE,
)
_ONE_REGULAR = re.compile(rf"""\s+{_NAME}="[^"<&]*"\s*/?""")
_REFERENCE = re.compile(r"&(?:\#(?:(\d+)|[xX]([0-9A-Fa-f]+));?|([A-Za-z_][\w.-]{0,63});)?", re.ASCII | re.VERBOSE)
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[(?P<declared>.*?)\]\s*)?>", re.DOTALL)
_ROOT = re.compile(r"<[A-Za-z_:]")
_ENTITY = re.compile(r"""<!ENTITY\s+([A-Za-z_][\w.-]{0,63})\s+(?:"([^"<%]{0,100})"|'([^'<%]{0,100})')\s*>""", re.ASCII)
_EXPANSION_MAX: Final = 100_000
"""The maximum number of characters that declared entities may add to a document. Further references are left unchanged.
"""
_NO_XML = re.compile("[\0-\x08\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_XML_REFERENCE = re.compile(r"&#\d+;", re.ASCII)
_UNICODE_END: Final = 0x110000
_DIGITS_MAX: Final = 20
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKUP = {"&": "&#38;", "<": "&#60;", ">": "&#62;", '"': "&#34;", "'": "&#39;"}
_XML_NAMES = {"amp": "&#38;", "lt": "&#60;", "gt": "&#62;", "quot": "&#34;", "apos": "&#39;"}
_CONTAINERS = frozenset(("rss", "rdf", "channel", "feed", "item", "entry", "urlset", "sitemapindex", "url", "sitemap"))
_HTML_NAMES = """
    a abbr article b blockquote br center cite code dd del div dl dt em figcaption figure font h1 h2 h3 h4 h5 h6 hr i
    img input ins kbd li ol p pre q s section small span strike strong sub sup table tbody td th thead tr tt u ul video
    wbr
"""
_HTML = frozenset(_HTML_NAMES.split())
_OF_TEXT = _HTML | {
    "title", "description", "summary", "content", "encoded", "subtitle", "tagline", "rights", "copyright",
}  # fmt: skip
"""Elements in which an unclosed tag is text in angle brackets, unless it is an HTML tag."""


def repair_xml(words: str) -> str:
    """Return a document without its errors, as described in the docstring of this module."""
    words = _NO_XML.sub("", words.replace("\x0b", " ").replace("\x0c", " "))
    repair = _Repair(words)
    whole = repair.whole()
    if _SURROGATE.search(whole) is not None:  # references to halves of a surrogate pair
        whole = whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not been found yet."""

    name: str
    low: str
    place: int
    """The index of the element's tag."""
    is_container: bool
    follower: int = 0
    """The index of the inner tag before which the element ends if its own end tag is missing; 0 if there is no such
    tag."""
    between: list[_Open] = field(default_factory=list)
    """The elements of a container that were open at that inner tag. If one of them has an end tag, the inner tag is
    inside the container."""
    is_unclosed: bool = False


class _Repair:
    """Writes the tags of a document and the text after each tag, and keeps track of open elements."""

    def __init__(self, words: str) -> None:
        before_root = _ROOT.search(words)
        begin = words.find("<!DOCTYPE", 0, before_root.start() if before_root else None)
        doctype = _DOCTYPE.match(words, begin) if begin >= 0 else None
        self._words = words
        self._begin = doctype.end() if doctype else 0
        self._entities = _entities(doctype["declared"] or "") if doctype else {}
        self._expansion_left = _EXPANSION_MAX
        self._tags = [""]
        self._texts = [""]
        self._missing_ends: dict[int, list[str]] = {}
        """The missing end tags to write after each text."""
        self._parts: list[str] = []
        self._open: list[_Open] = []
        self._open_by_name: dict[str, list[int]] = {}
        """The depths of the open elements of each name."""
        self._containers: list[int] = []
        """The depths of the open containers."""
        self._holders: list[int] = []
        """The depths of the open elements that are neither containers nor HTML."""
        self._ends_at: dict[str, int] = {}
        """The position of the next section end of each kind."""

    def whole(self) -> str:
        """Return the document."""
        words, place = self._words, self._begin
        while (found := _TOKEN.search(words, place)) is not None:
            self._add_words(words[place : found.start()])
            place = found.end()
            if (name := found["start"]) is not None:
                self._start(name, found["inside"])
            elif (name := found["end"]) is not None:
                self._end(name.lower())
            elif found["section"] is not None:
                place = self._section(found["section"], place)
            elif found[0] == "<":
                self._parts.append("&#60;")
        self._add_words(words[place:])
        self._close_text()
        self._end_all()
        for place, ends in self._missing_ends.items():
            self._texts[place] += "".join(ends)
        return "".join(one for pair in zip(self._tags, self._texts, strict=True) for one in pair)

    def _add_words(self, words: str) -> None:
        if "&" in words:
            words = _REFERENCE.sub(self._character, words)
        self._parts.append(words.replace("]]>", "]]&#62;") if "]]>" in words else words)

    def _character(self, found: re.Match[str]) -> str:
        decimal, hexadecimal, name = found.groups()
        if name is None:
            return _numbered(decimal, hexadecimal)
        if (known := _XML_NAMES.get(name)) is not None:
            return known
        if (value := self._entities.get(name)) is not None and len(value) <= self._expansion_left:
            self._expansion_left -= len(value)
            return value
        characters = html5.get(f"{name};")
        return f"&#38;{found[0][1:]}" if characters is None else _MARKUP.get(characters, characters)

    def _tag(self, written: str) -> None:
        self._close_text()
        self._tags.append(written)
        self._texts.append("")

    def _close_text(self) -> None:
        self._texts[-1] += "".join(self._parts)
        self._parts.clear()

    def _start(self, name: str, inside: str) -> None:
        is_empty = inside.endswith("/")
        if inside and not _is_regular(inside):
            inside = self._attributes(inside.removesuffix("/")) + ("/" if is_empty else "")
        if len(self._tags) == 1:
            self._parts.clear()  # text before the root is not part of the document
        self._tag(f"<{name}{inside}>")
        if is_empty:
            return
        low, depth = name.lower(), len(self._open)
        is_container = not depth or low.rpartition(":")[2] in _CONTAINERS
        opened = _Open(name, low, len(self._tags) - 1, is_container=is_container)
        if is_container or low not in _HTML:
            self._register_follower(opened)
            (self._containers if is_container else self._holders).append(depth)
        self._open.append(opened)
        self._open_by_name.setdefault(low, []).append(depth)

    def _register_follower(self, opened: _Open) -> None:
        """Register this element with the elements that would end before it if their end tags are missing."""
        if self._holders and not (around := self._open[self._holders[-1]]).follower:
            around.follower = opened.place
        if not opened.is_container or not self._containers:
            return
        around = self._open[self._containers[-1]]
        if around.low == opened.low and not around.follower:
            around.follower = opened.place
            around.between = self._open[self._containers[-1] + 1 :]

    def _attributes(self, inside: str) -> str:
        values: dict[str, str] = {}
        for found in _ATTRIBUTE.finditer(inside):
            value = found["double"] or found["single"] or found["bare"] or ""
            if "&" in value:
                value = _REFERENCE.sub(self._character, value)
            values.setdefault(found["name"], value.replace('"', "&#34;").replace("<", "&#60;"))
        return "".join(f' {name}="{value}"' for name, value in values.items())

    def _end(self, low: str) -> None:
        """End the most recent element of this name. Elements outside the open container are ignored."""
        depths = self._open_by_name.get(low)
        within = self._containers[-1] if self._containers else -1
        if not depths or depths[-1] < within:
            return
        self._close_text()
        depth = depths[-1]
        while len(self._open) > depth + 1:
            self._close_missing(self._pop())
        ended = self._pop()
        self._tag(f"</{ended.name}>")

    def _pop(self) -> _Open:
        ended = self._open.pop()
        self._open_by_name[ended.low].pop()
        if ended.is_container:
            self._containers.pop()
        elif ended.low not in _HTML:
            self._holders.pop()
        return ended

    def _close_missing(self, one: _Open) -> None:
        """Write the end of an element whose end tag is missing. The elements inside it must have ended already."""
        one.is_unclosed = True
        if self._is_word(one):
            self._tags[one.place] = f"&#60;{self._tags[one.place][1:-1]}&#62;"
        elif not one.is_container and one.low in _HTML:
            self._add_end_tag(one.place, one)
        else:
            is_followed = one.follower and all(other.is_unclosed for other in one.between)
            self._add_end_tag((one.follower if is_followed else len(self._texts)) - 1, one)

    def _add_end_tag(self, place: int, one: _Open) -> None:
        self._missing_ends.setdefault(place, []).append(f"</{one.name}>")

    def _is_word(self, one: _Open) -> bool:
        """Return whether an unclosed tag is text in angle brackets: `Why <K> is hard`."""
        around = self._open[-1].low.rpartition(":")[2] if self._open else ""
        is_plain = not one.is_container and one.low not in _HTML and self._tags[one.place] == f"<{one.name}>"
        return is_plain and around in _OF_TEXT and ":" not in one.low

    def _end_all(self) -> None:
        """End all elements that are still open. The last ones were truncated, and the others were never closed."""
        is_cut_off = True
        while self._open:
            one = self._pop()
            is_cut_off = is_cut_off and not one.is_container
            if is_cut_off:
                self._add_end_tag(len(self._texts) - 1, one)
            else:
                self._close_missing(one)

    def _section(self, begin: str, place: int) -> int:
        """Write a CDATA section or skip a comment. Return the position at which the text continues."""
        mark = "-->" if begin == "<!--" else "]]>"
        end = self._next_end(mark, place)
        if begin == "<!--":
            return place if end < 0 else end + len(mark)
        if (cut := self._cut(place, end)) >= 0:
            self._parts.append(f"<![CDATA[{self._words[place:cut]}]]>")
            return cut
        self._parts.append(f"<![CDATA[{self._words[place : end if end >= 0 else None]}]]>")
        return end + len(mark) if end >= 0 else len(self._words)

    def _next_end(self, mark: str, place: int) -> int:
        known = self._ends_at.get(mark, 0)
        if mark not in self._ends_at or 0 <= known < place:
            known = self._ends_at[mark] = self._words.find(mark, place)
        return known

    def _cut(self, place: int, end: int) -> int:
        """Return the position of the end tag before which an unclosed section ends; -1 if there is none.

        A section is unclosed if it has no end, or if another section starts before that end.
        """
        another = self._words.find("<![CDATA[", place, None if end < 0 else end)
        if (another < 0 and end >= 0) or not self._open:
            return -1
        return self._words.find(f"</{self._open[-1].name}", place, None if another < 0 else another)


def _is_regular(inside: str) -> bool:
    """Return whether the part of a tag after its name needs no repair."""
    return inside in ("/", " /") or _ONE_REGULAR.fullmatch(inside) is not None


def _entities(declared: str) -> Mapping[str, str]:
    """Return the short texts that a DOCTYPE declares, by entity name.

    Texts that refer to other entities are omitted.
    """
    found: dict[str, str] = {}
    for name, double, single in _ENTITY.findall(declared):
        value = _REFERENCE.sub(_plain_character, double or single)
        if "&" not in _XML_REFERENCE.sub("", value):
            found.setdefault(name, value)
    return found


def _plain_character(found: re.Match[str]) -> str:
    """Return the replacement for a reference in an entity's value. References to other entities are left unchanged."""
    decimal, hexadecimal, name = found.groups()
    return _numbered(decimal, hexadecimal) if name is None else _XML_NAMES.get(name, found[0])


def _numbered(decimal: str | None, hexadecimal: str | None) -> str:
    """Return the replacement for a numeric reference or a stray ampersand.

    Half of a surrogate pair is kept, and characters that are invalid in XML are removed.
    """
    if decimal is None and hexadecimal is None:
        return "&#38;"
    digits = decimal or hexadecimal or ""
    code = int(digits, 10 if decimal else 16) if len(digits) <= _DIGITS_MAX else _UNICODE_END
    if code >= _UNICODE_END:
        return "\N{REPLACEMENT CHARACTER}"
    if 0xD800 <= code <= 0xDFFF:
        return chr(code)
    is_xml = code in (9, 10, 13) or (code >= 32 and code not in (0xFFFE, 0xFFFF))
    return f"&#{code};" if is_xml else ""
