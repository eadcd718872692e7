"""Getters for JSON from upstreams. Each one returns a plain value or None, and never guesses.

A getter tries its names in order. There are about twenty calls per record, mostly with one name, so the first name is
tried without a loop, which saves a third of the time.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import unescape
from typing import Any, TypeVar

from upstreams.model.errors import TooLarge, UnexpectedBody
from upstreams.model.fields import values

Json = dict[str, Any]
T = TypeVar("T")
ROWS_MAX = 1_000
"""The maximum number of rows on a page. We never request more than 100 rows from a platform."""
WHOLE_MAX = 20_000
"""The maximum number of rows in a list that an upstream sends whole and that is split into pages here."""
HTML_MAX = 1024 * 1024
"""The maximum length of a text with markup, in characters. Reading a longer text in one go would delay other requests.
"""


def obj(value: Any) -> Json:
    """Return `value`, which must be an object.

    Raises:
        UnexpectedBody: The value is not an object.
    """
    if not isinstance(value, dict):
        raise UnexpectedBody(f"expected an object, got {type(value).__name__}")
    return value


def rows(value: Any, most: int = ROWS_MAX) -> list[Json]:
    """Return the objects in `value`, which must be a list. Entries that are not objects are skipped.

    Raises:
        UnexpectedBody: The value is not a list, or has more than `most` entries.
    """
    if not isinstance(value, list):
        raise UnexpectedBody(f"expected a list, got {type(value).__name__}")
    if len(value) > most:
        raise TooLarge(f"expected a list of at most {most} entries, got {len(value)}")
    return [entry for entry in value if isinstance(entry, dict)]


def part(value: Json, name: str) -> Json:
    """Return the object under `name`. If there is none, return an empty object, whose members all read as None."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def parts(value: Json, name: str) -> list[Json]:
    """Return the objects in the list under `name`. If there is no list, return an empty one."""
    inner = value.get(name)
    return [entry for entry in inner if isinstance(entry, dict)] if isinstance(inner, list) else []


def _first(getter: Callable[[Json, str], T | None], value: Json, names: tuple[str, ...]) -> T | None:
    for name in names:
        found = getter(value, name)
        if found is not None:
            return found
    return None


def text(value: Json, name: str, *others: str) -> str | None:
    """Return the first non-empty string under these names; an empty string counts as missing."""
    found = value.get(name)
    if isinstance(found, str) and found:
        return found
    return _first(text, value, others) if others else None


def number(value: Json, name: str, *others: str) -> int | None:
    """Return the first whole number under these names, or None if it exceeds 64 bits. Text and 3.0 are accepted too."""
    found = values.number(value.get(name))
    return _first(number, value, others) if found is None and others else found


def count(value: Json, name: str, *others: str) -> int | None:
    """Return the first number under these names that can be a count.

    Negative numbers are placeholders and are skipped.
    """
    found = values.count(value.get(name))
    return _first(count, value, others) if found is None and others else found


def total_of(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the counts that are not None.

    It is None if all counts are None or if the sum exceeds 64 bits.
    """
    total: int | None = None
    for one in counts:
        if one is not None:
            total = one if total is None else total + one
    return total if total is None or total <= values.INTEGER_MAX else None


def flag(value: Json, name: str, *others: str) -> bool | None:
    """Return True if a member is true, False if one is false, or None if the upstream sent neither."""
    found = value.get(name)
    truth = found if isinstance(found, bool) else None
    if truth or not others:
        return truth
    other = flag(value, *others)
    return truth if other is None else other


def ident(value: Json, name: str, *others: str) -> str | None:
    """Return the first id under these names as a string. The upstream may send a number or a text (decisions 3)."""
    found = values.ident(value.get(name))
    return _first(ident, value, others) if found is None and others else found


def texts(value: Json, name: str) -> list[str] | None:
    """Return the non-empty strings in the list under `name`, or None if there is no list."""
    return values.texts(value.get(name))


def instant(value: Json, name: str, *others: str) -> str | None:
    """Return the first time under these names as ISO 8601 UTC with `Z`.

    The upstream may send Unix seconds or ISO text.
    """
    found = values.instant(value.get(name))
    return _first(instant, value, others) if found is None and others else found


_ATTRIBUTES = r"""(?:>|(?:[^>=]++|=\s*+(?:"[^"]*+"?|'[^']*+'?)?)*+>?)"""
_MARKUP = re.compile(
    rf"""<(?:
      [sS](?P<hidden>(?i:cript|tyle))\b{_ATTRIBUTES}.*?(?=</(?i:s(?P=hidden))|\Z)  # hidden text, to its end tag
    | (?P<tag>/?[a-zA-Z][a-zA-Z0-9]*+){_ATTRIBUTES}
    | !--(?:-?>|.*?(?:-->|\Z))
    | [!?][^>]*+>?
    )""",
    re.VERBOSE | re.DOTALL,
)
"""Matches a tag or a comment.

Every branch also matches at the end of the text, as in browsers, if the markup is not closed. Because every attempt
succeeds, the time is linear in the length of any text.
"""
_BLOCKS = """
    address article aside blockquote dd details div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li
    main nav ol p pre section summary table tr ul
"""
_IN_PLACE_OF = {"br": "\n", "td": " ", "th": " "}
_IN_PLACE_OF |= {mark: "\n" for block in _BLOCKS.split() for mark in (block, f"/{block}")}
"""The text that replaces each tag or end tag. Tags that are not listed are removed."""
_INLINE = "a abbr b code em i img kbd small span strong sub sup u"
_USUAL_TAGS = _IN_PLACE_OF | {"br /": "\n", "br/": "\n", "hr /": "\n"}
_USUAL_TAGS |= {mark: "" for tag in _INLINE.split() for mark in (tag, f"/{tag}")}
_USUAL_ATTRIBUTES = re.compile(r"""([a-z]+[1-6]?)(?: [a-z-]+="[^"]*")++ ?/?""").fullmatch
"""A tag whose attributes are all quoted. It ends at the next bracket."""
_REMEMBERED_MAX = 2_000
"""The maximum length in characters of a text whose plain form is cached."""
_FREQUENT_REFERENCES = (
    ("&quot;", '"'), ("&#x27;", "'"), ("&#39;", "'"), ("&#x2F;", "/"), ("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", "\xa0"),
)  # fmt: skip
"""References that are replaced before all others, at a tenth of the cost of `unescape`.

The replacement cannot complete another reference. That takes an ampersand, a letter, a digit or a semicolon, and none
of these references stands for such a character.
"""
_ENDLESS_REFERENCE = re.compile(r"&#\d{20,};?")
"""A numeric reference to a number beyond any character. It is removed first, because int() rejects very long numbers.
"""

_SURROGATES = re.compile(
    r"&#(?:x(d[89ab][0-9a-f]{2})|(5[56]\d{3}));&#(?:x(d[c-f][0-9a-f]{2})|(5[67]\d{3}));", re.IGNORECASE | re.ASCII
)
"""References to the two surrogates of one character, which some JavaScript programs write."""


def plain(html: str | None) -> str | None:
    """Return HTML as plain text: tags removed, references decoded, and blocks on separate lines (decisions 3).

    Raises:
        UnexpectedBody: The text is longer than any text on a platform.
    """
    if html is None or ("<" not in html and "&" not in html):
        return html
    if len(html) <= _REMEMBERED_MAX:
        return _remembered(html)
    if len(html) > HTML_MAX:
        raise UnexpectedBody(f"expected a text of at most {HTML_MAX} characters, got {len(html)}")
    return _plain(html)


def _plain(html: str) -> str | None:
    read = html
    if "<" in read:
        read = _without_usual_tags(html) or _without_markup(html)
    if "&" in read:
        read = _with_references_read(read)
    if "\n" not in read:
        return read.strip() or None
    read = "\n".join(map(str.strip, read.split("\n"))).strip()
    while "\n\n\n" in read:
        read = read.replace("\n\n\n", "\n\n")
    return read or None


_remembered = lru_cache(maxsize=2_048)(_plain)
"""The plain form is cached, because the same bios and posts return with every refresh."""


def _with_references_read(text_left: str) -> str:
    for reference, character in _FREQUENT_REFERENCES:
        text_left = text_left.replace(reference, character)
    if "&" not in text_left:
        return text_left
    if text_left.count("&") == text_left.count("&amp;"):
        return text_left.replace("&amp;", "&")
    return unescape(_SURROGATES.sub(_paired, _ENDLESS_REFERENCE.sub("\ufffd", text_left)))


def _paired(found: re.Match[str]) -> str:
    high, low = (
        int(digits, 16) if digits else int(number) for digits, number in (found.group(1, 2), found.group(3, 4))
    )
    is_pair = 0xD800 <= high <= 0xDBFF and 0xDC00 <= low <= 0xDFFF
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00) if is_pair else found[0]


def _without_usual_tags(html: str) -> str:
    """Like `_without_markup`, at a third of the cost. It returns "" if the text has unusual tags or attributes."""
    first, *others = html.split("<")
    pieces = [first]
    for other in others:
        tag, closed, behind = other.partition(">")
        stands_for = _USUAL_TAGS.get(tag)
        if stands_for is None:
            found = _USUAL_ATTRIBUTES(tag)
            stands_for = _USUAL_TAGS.get(found[1]) if found else None
        if stands_for is None or not closed:
            return ""
        if stands_for:
            pieces.append(stands_for)
        pieces.append(behind)
    return "".join(pieces)


def _without_markup(html: str) -> str:
    """Return the text between the tags, with each tag replaced by the text that stands for it."""
    pieces = _MARKUP.split(html)
    del pieces[1::3]  # from here on, text and tags alternate
    pieces[1::2] = [_IN_PLACE_OF.get(tag.lower(), "") if tag else "" for tag in pieces[1::2]]
    return "".join(pieces)


def decoded(raw: bytes) -> str:
    """Decode bytes as UTF-8, or as UTF-16 if they start with its byte order mark. The mark is removed."""
    encoding = "utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    return raw.decode(encoding, errors="replace")


def any_true(*marks: object) -> bool | None:
    """Return whether one of these values is true; None if all of them are None."""
    known_marks = [mark for mark in marks if mark is not None]
    return any(known_marks) if known_marks else None


def joined(*pieces: str | None) -> str | None:
    """Return a title and a body as one text, separated by a blank line; None if the upstream sent neither."""
    return "\n\n".join(filter(None, pieces)) or None
