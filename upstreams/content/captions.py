"""Video captions as JSON-like values without tags: `{"cues": [{"text", "start_ms", "end_ms"}]}`.

WebVTT and SubRip are parsed leniently: a cue may directly follow the header, and a blank line may separate its times
from its words. In rolling captions, each cue repeats the text of the previous one; only the new words are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from upstreams.content.charset import text_of
from upstreams.model import fields
from upstreams.model.errors import UnexpectedBody

CUES_MAX: Final = 20_000
_CLOCK = r"(?:(\d{1,4}):)?([0-5]?\d):([0-5]?\d)(?:[.,](\d{1,3}))?"
_TIMING = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}(?:[^\d:.,].*)?", re.ASCII)
_TAG = re.compile(r"</?[a-z0-9:.][^<>]{0,200}>|\{\\[^{}]{0,200}\}", re.IGNORECASE)
"""A tag, or an override of another format, such as `{\\an8}`."""
_LINE_END = re.compile(r"\r\n?|\n")
_BLOCKS = ("NOTE", "STYLE", "REGION")
"""The first words of blocks that are not cues, such as comments."""
_HEADLESS_LINES: Final = 5
"""SubRip has no header, but one of its first lines contains the times of a cue."""
_ROLLING_SHARE: Final = 4
"""Captions are rolling if more than one of this many cues starts with the end of the previous cue."""
_ROLLED_LINES: Final = 4


class _Cue(NamedTuple):
    """A cue: its times, and its lines as plain text."""

    start_ms: int
    end_ms: int
    lines: list[str]


def read_captions(raw: bytes, content_type: str = "") -> fields.Json:
    """Return the cues of a file, in order; empty cues are skipped.

    Raises:
        UnexpectedBody: The body is not a caption file, or has too many cues.
    """
    lines = _LINE_END.split(text_of(raw, content_type).lstrip("\ufeff"))
    is_headless = any(map(_TIMING.fullmatch, [line for line in lines if line.strip()][:_HEADLESS_LINES]))
    if not (lines[0].startswith("WEBVTT") or is_headless or not any(map(str.strip, lines))):
        raise UnexpectedBody("expected captions, got another format")
    cues: list[_Cue] = []
    for cue in _cues(lines):
        if len(cues) == CUES_MAX:
            raise UnexpectedBody(f"expected captions of at most {CUES_MAX} cues")
        cues.append(cue)
    if not any(letter.isalnum() for cue in cues for line in cue.lines for letter in line):
        return {"cues": []}
    cue_texts = zip(cues, _new_texts([cue.lines for cue in cues]), strict=True)
    return {"cues": [{"text": text, "start_ms": cue.start_ms, "end_ms": cue.end_ms} for cue, text in cue_texts if text]}


def _cues(lines: list[str]) -> Iterator[_Cue]:
    """Yield the cues that have words. Each has its times, and its lines up to a blank line or the next times."""
    times: re.Match[str] | None = None
    words: list[str] = []
    is_first, skips = True, False
    for place, line in enumerate((*lines, "")):
        found = _TIMING.fullmatch(line)
        if found is not None or not line.strip():
            if times is not None and (plain_lines := _plain_lines(words)):
                clock = times.groups()
                yield _Cue(_milliseconds(*clock[:4]), _milliseconds(*clock[4:]), plain_lines)
                times = None
            times, words, is_first, skips = found or times, [], found is None, False
            continue
        skips = skips or (is_first and line.startswith(_BLOCKS))
        is_name = (is_first or line.strip().isdigit()) and _is_name(lines, place)
        if times is not None and not skips and not is_name:
            words.append(line)
        is_first = False


def _is_name(lines: list[str], place: int) -> bool:
    """Return whether a line is the name of the cue whose times are on the next line."""
    return place + 1 < len(lines) and _TIMING.fullmatch(lines[place + 1]) is not None


def _plain_lines(words: list[str]) -> list[str]:
    plain_lines = (fields.plain(_TAG.sub("", line).strip()) for line in words)
    return [" ".join(line.split("\n")) for line in plain_lines if line]


def _new_texts(cues: list[list[str]]) -> list[str]:
    """Return the text of each cue. In rolling captions, repeated text is removed, which may leave a cue empty."""
    texts = [" ".join(lines) for lines in cues]
    repeated = [_repeated(before, text) for before, text in zip([[], *cues], texts, strict=False)]
    rolled = sum(0 < count < len(text) for count, text in zip(repeated, texts, strict=True))
    if rolled * _ROLLING_SHARE <= len(cues):
        return texts
    return [text[count:].strip() for count, text in zip(repeated, texts, strict=True)]


def _repeated(before: list[str], text: str) -> int:
    """Return the length of the start of a text that repeats the end of the previous cue."""
    for first in range(max(0, len(before) - _ROLLED_LINES), len(before)):
        shown = " ".join(before[first:])
        if text.startswith(shown) and text[len(shown) : len(shown) + 1] in ("", " "):
            return len(shown)
    return 0


def _milliseconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> int:
    return ((int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000 + int((fraction or "0").ljust(3, "0"))
