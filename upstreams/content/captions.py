"""Captions of videos, WebVTT, as JSON-like values: `{"cues": [{"text", "start_ms", "end_ms"}]}`, without tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from upstreams.content.charset import text_of
from upstreams.model import fields
from upstreams.model.errors import UnexpectedBody

CUES_MAX: Final = 20_000
_CLOCK = r"(?:(\d{1,4}):)?([0-5]?\d):([0-5]?\d)[.,](\d{3})"
_TIMING = re.compile(rf"[ \t]*{_CLOCK}[ \t]+-->[ \t]+{_CLOCK}(?:[ \t].*)?", re.ASCII)
_TAG = re.compile(r"</?[a-z0-9:.][^<>]{0,200}>", re.IGNORECASE)


def read_captions(raw: bytes, content_type: str = "") -> fields.Json:
    """Return the cues of a file, in its order; those that say nothing are left out.

    Raises:
        UnexpectedBody: it is no such file, or too much of one.
    """
    lines = text_of(raw, content_type).lstrip("\ufeff").splitlines()
    if not lines or not lines[0].startswith("WEBVTT"):
        raise UnexpectedBody("captions were due, and something else came")
    cues: list[fields.Json] = []
    for cue in _cues(lines):
        if len(cues) == CUES_MAX:
            raise UnexpectedBody(f"captions of at most {CUES_MAX} cues were due")
        cues.append(cue)
    return {"cues": cues}


def _cues(lines: list[str]) -> Iterator[fields.Json]:
    times: re.Match[str] | None = None
    words: list[str] = []
    for line in (*lines, ""):
        if times is None:
            times = _TIMING.fullmatch(line)
        elif line.strip():
            words.append(_TAG.sub("", line).strip())
        else:
            if text := fields.plain(" ".join(filter(None, words))):
                clock = times.groups(default="0")
                yield {"text": text, "start_ms": _milliseconds(clock[:4]), "end_ms": _milliseconds(clock[4:])}
            times, words = None, []


def _milliseconds(clock: tuple[str, ...]) -> int:
    hours, minutes, seconds, thousandths = map(int, clock)
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000 + thousandths
