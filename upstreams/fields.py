"""Reading JSON that somebody else wrote: every getter gives the plain value or None, and never invents one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

from upstreams.errors import UnexpectedBody

Json = dict[str, Any]
_INTEGER_MAX = 2**63 - 1
"""Above it a JSON number is no longer read alike everywhere, nor written by every encoder."""
_DIGITS_MAX = 20
_YEAR_10000_S = 253_402_300_800


def obj(value: Any) -> Json:
    """`value` as an object.

    Raises:
        UnexpectedBody: it is something else.
    """
    if not isinstance(value, dict):
        raise UnexpectedBody(f"an object was due, {type(value).__name__} came")
    return value


def rows(value: Any) -> list[Json]:
    """`value` as a list of objects; entries of another kind are left out.

    Raises:
        UnexpectedBody: it is not a list.
    """
    if not isinstance(value, list):
        raise UnexpectedBody(f"a list was due, {type(value).__name__} came")
    return [entry for entry in value if isinstance(entry, dict)]


def part(value: Json, name: str) -> Json:
    """The object under `name`, or an empty one: what is read from it is then None."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def parts(value: Json, name: str) -> list[Json]:
    """The objects of the list under `name`, or none."""
    inner = value.get(name)
    return [entry for entry in inner if isinstance(entry, dict)] if isinstance(inner, list) else []


def text(value: Json, *names: str) -> str | None:
    """The first non-empty string under one of `names`; an empty one counts as not sent."""
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def number(value: Json, *names: str) -> int | None:
    """The first whole number under one of `names`, also one sent as text or as 3.0; beyond 64 bits it is none."""
    for name in names:
        whole = _whole(value.get(name))
        if whole is not None and -_INTEGER_MAX <= whole <= _INTEGER_MAX:
            return whole
    return None


def _whole(found: Any) -> int | None:
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if isinstance(found, str) and found.removeprefix("-").isdecimal() and len(found) <= _DIGITS_MAX:
        return int(found)
    return None


def flag(value: Json, *names: str) -> bool | None:
    """True when one of `names` is true, False when one is false, None when none was sent."""
    found = [value[name] for name in names if isinstance(value.get(name), bool)]
    return any(found) if found else None


def ident(value: Json, *names: str) -> str | None:
    """The first id under one of `names` as a string, whether it came as a number or as text (decisions 3)."""
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
    return None


def texts(value: Json, name: str) -> list[str] | None:
    """The strings of the list under `name`, or None when it was not sent."""
    inner = value.get(name)
    return [entry for entry in inner if isinstance(entry, str)] if isinstance(inner, list) else None


def instant(value: Json, *names: str) -> str | None:
    """The first time under one of `names` as ISO 8601 UTC with `Z`: from Unix seconds or from ISO text."""
    for name in names:
        found = value.get(name)
        iso = _from_iso(found) if isinstance(found, str) else _from_unix(found)
        if iso is not None:
            return iso
    return None


def _from_unix(seconds: Any) -> str | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < _YEAR_10000_S:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _from_iso(found: str) -> str | None:
    try:
        moment = datetime.fromisoformat(found)
        if _is_canonical(found):
            return found
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter where UTC leads out of the years 1 to 9999
        return None
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def _is_canonical(iso: str) -> bool:
    """Whether a readable time is already `2020-01-31T12:00:00Z`: most are, and need not be written anew."""
    return len(iso) == 20 and iso[7] == "-" and iso[10] == "T" and iso[13] == ":" and iso[19] == "Z"


_ATTRIBUTES = r"""(?:[^>=]++|=\s*+(?:"[^"]*+"?|'[^']*+'?)?)*+>?"""
_MARKUP = re.compile(
    rf"""<(?:
      (?P<hidden>script|style)\b{_ATTRIBUTES}.*?(?=</(?P=hidden)|\Z)   # what is no text, up to its end tag
    | (?P<end>/?)(?P<tag>[a-z][a-z0-9]*){_ATTRIBUTES}
    | !--(?:-?>|.*?(?:-->|\Z))
    | [!?][^>]*+>?
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""A tag or a comment. Every branch also matches where the text ends before it is closed (what browsers do with it), so
no start is tried in vain and the time is linear in the length, whatever is sent."""
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|d[dlt]|details|div|fig(ure|caption)|footer|form|h[1-6]|header|hr|li|main|nav"
    "|[ou]l|p|pre|section|summary|table|tr"
)
_CELL = re.compile("t[dh]")
_ENDLESS_REFERENCE = re.compile(r"&#\d{20,};?")
"""A character reference that no character has; int() refuses the longest of them."""


def _in_place_of(markup: re.Match[str]) -> str:
    tag = (markup["tag"] or "").lower()
    if _BLOCK.fullmatch(tag):
        return "" if tag == "br" and markup["end"] else "\n"
    return " " if _CELL.fullmatch(tag) and not markup["end"] else ""


def plain(html: str | None) -> str | None:
    """HTML as plain text: tags gone, entities read, blocks on lines of their own (decisions 3)."""
    if html is None or ("<" not in html and "&" not in html):
        return html
    text_left = _ENDLESS_REFERENCE.sub("\ufffd", _MARKUP.sub(_in_place_of, html))
    lines = [line.strip() for line in unescape(text_left).split("\n")]
    kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    return "\n".join(kept).strip() or None


def joined(*pieces: str | None) -> str | None:
    """A title and a body as one text, a blank line between them; None when neither was sent."""
    return "\n\n".join(piece for piece in pieces if piece) or None
