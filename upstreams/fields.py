"""Reading JSON that somebody else wrote: every getter gives the plain value or None, and never invents one."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from upstreams.errors import UnexpectedBody

Json = dict[str, Any]


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
    """The first whole number under one of `names`, also one sent as text or as 3.0."""
    for name in names:
        found = value.get(name)
        if isinstance(found, bool) or found is None:
            continue
        if isinstance(found, int):
            return found
        if isinstance(found, float) and found.is_integer():
            return int(found)
        if isinstance(found, str) and found.lstrip("-").isdecimal() and len(found) < 20:
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
        if isinstance(found, bool) or found is None:
            continue
        if isinstance(found, int | float):
            return _from_unix(found)
        if isinstance(found, str) and (iso := _from_iso(found)) is not None:
            return iso
    return None


def _from_unix(seconds: float) -> str | None:
    if not 0 <= seconds < 253_402_300_800:  # the end of the year 9999
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _from_iso(found: str) -> str | None:
    if len(found) == 20 and found[-1] == "Z" and found[10] == "T":
        return found
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


_BLOCKS = frozenset(("p", "br", "div", "li", "ul", "ol", "pre", "blockquote", "tr", "table", "hr", *["h1", "h2", "h3"]))
_HIDDEN = frozenset(("script", "style"))


class _TextOfHtml(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's own signature
        if tag in _HIDDEN:
            self.hidden += 1
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in _BLOCKS and tag != "br":
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(data)


def plain(html: str | None) -> str | None:
    """HTML as plain text: tags gone, entities read, blocks on lines of their own (decisions 3)."""
    if html is None or ("<" not in html and "&" not in html):
        return html
    reader = _TextOfHtml()
    reader.feed(html)
    reader.close()
    lines = [line.strip() for line in "".join(reader.pieces).split("\n")]
    kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    return "\n".join(kept).strip() or None


def joined(*pieces: str | None) -> str | None:
    """A title and a body as one text, a blank line between them; None when neither was sent."""
    return "\n\n".join(piece for piece in pieces if piece) or None
