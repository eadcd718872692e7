"""Parses amounts as people write them (fractions, "1.2K", durations), and JSON inside a text.

A field map uses these functions with `of`: `views=of(short_count, "views")`.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, Final

from upstreams.model.fields import values
from upstreams.model.fields.values import fraction

_TEXT_MAX: Final = 64
_SHORT = re.compile(r"(\d[\d.,\s\u00a0\u202f']*)\s*([KMB])?\b", re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_GAPS = re.compile(r"[\s\u00a0\u202f']")
_ISO_DURATION = re.compile(
    r"P(?:([\d.]+)W)?(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?", re.IGNORECASE | re.ASCII
)
_UNITS_DURATION = re.compile(
    r"(?:(\d+)\s*d(?:ays?)?)?\s*(?:(\d+)\s*h(?:(?:ou)?rs?)?)?"
    r"\s*(?:(\d+)\s*m(?:in(?:ute)?s?)?)?\s*(?:(\d+)\s*s(?:ec(?:ond)?s?)?)?",
    re.IGNORECASE | re.ASCII,
)
_CLOCK_DURATION = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})(?:[.,]\d{1,6})?", re.ASCII)
_PLAIN_DURATION = re.compile(r"(\d{1,7})(?:\.\d{1,6})?|(\d{1,3}(?:,\d{3})+)", re.ASCII)
"""Seconds, with a decimal point or with commas between thousands. Any other use of a comma would be ambiguous."""
_JSON_TEXT_MAX: Final = 1024 * 1024
_DECODER: Final = JSONDecoder(parse_constant=lambda _constant: None, strict=False)
"""NaN and infinity become None, because they are not valid JSON. Raw line breaks in strings are accepted, because some
programs send them."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.ASCII | re.DOTALL,
)
"""An escape in JSON: a surrogate pair, half of a pair, or any other escape."""


def short_count(found: Any) -> int | None:
    """Return a count as people write it: 1.2K, 12 345, 3,4M, "1,234 views"; None if the text does not start with a
    number."""
    if not isinstance(found, str):
        return values.count(found)
    written = _SHORT.match(found.strip()[:_TEXT_MAX])
    if written is None:
        return None
    digits, times = _GAPS.sub("", written[1]), _TIMES[(written[2] or "").lower()]
    if times == 1:
        return values.count(re.sub(r"[.,]", "", digits)) if re.fullmatch(r"\d+|\d{1,3}(?:[.,]\d{3})+", digits) else None
    whole = re.fullmatch(r"(\d+)(?:[.,](\d+))?", digits)
    if whole is None:
        return None
    scaled = int(whole[1] + (whole[2] or "")) * times // 10 ** len(whole[2] or "")
    return values.count(scaled)


def duration(found: Any) -> int | None:
    """Return the whole seconds of a duration (90.5, "5,400", "1:02:03", "PT4M13S", "3h8m33s"); None for other texts."""
    if not isinstance(found, str):
        amount = fraction(found)
        return None if amount is None else values.count(int(amount))
    text = found.strip()[:_TEXT_MAX]
    if (plain := _PLAIN_DURATION.fullmatch(text)) is not None:
        return values.count(int(plain[1] or plain[2].replace(",", "")))
    if (clock := _CLOCK_DURATION.fullmatch(text)) is not None:
        return _on_a_clock(*map(int, clock.groups(default="0")))
    if text[:1] in "Pp" and text[-2:-1].isdigit() and (written := _ISO_DURATION.fullmatch(text)) is not None:
        try:
            return values.count(_seconds_of(written.groups(default="0"), (604_800, 86_400, 3_600, 60, 1)))
        except ValueError:
            return None
    units = _UNITS_DURATION.fullmatch(text) if text[:1].isdigit() else None
    return None if units is None else values.count(_seconds_of(units.groups(default="0"), (86_400, 3_600, 60, 1)))


def _on_a_clock(hours: int, minutes: int, seconds: int) -> int | None:
    """Convert a clock time to seconds. Return None if a part after the first non-zero part is 60 or more."""
    if (hours and minutes >= 60) or ((hours or minutes) and seconds >= 60):
        return None
    return values.count((hours * 60 + minutes) * 60 + seconds)


def whole_json(text: str) -> str:
    """Return JSON in which escaped halves of surrogate pairs, which are not characters, are replaced."""
    if _SURROGATE.search(text) is None:
        return text
    return _ESCAPE.sub(lambda found: found[0] if found["half"] is None else "\N{REPLACEMENT CHARACTER}", text)


def json_text(found: Any) -> Any:
    """Return the JSON value in a text; None if the text is not JSON."""
    if not isinstance(found, str) or len(found) > _JSON_TEXT_MAX:
        return None
    try:
        return _DECODER.decode(whole_json(found))
    except (ValueError, RecursionError):
        return None


def json_at_start(text: str) -> Any:
    """Return the JSON value at the start of a text; None if there is none. The rest of the text is ignored."""
    try:
        return _DECODER.raw_decode(whole_json(text))[0]
    except (ValueError, RecursionError):
        return None


def _seconds_of(numbers: tuple[str, ...], weights: tuple[int, ...]) -> int:
    return int(sum(float(number) * weight for number, weight in zip(numbers, weights, strict=True)))
