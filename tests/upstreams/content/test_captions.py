"""Captions are read as viewers see them, whatever else the file contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.content.captions import CUES_MAX, read_captions
from upstreams.model.errors import UnexpectedBody

FILE = """\ufeffWEBVTT - a title
Kind: captions

NOTE 00:01.000 --> 00:02.000 is no cue
of anybody's

STYLE
::cue { color: red }

1
00:01.500 --> 00:02.000 align:start position:0%
<v Ada>What <i>is</i> it?</v>

01:00:03.000 --> 01:00:04.250
a &lt; b,
<00:00:03.500><c.yellow>and</c> c

00:05.000 --> 00:06.000

00:07.000 --> 00:08.000
the last"""


def test_cues_have_times_and_no_tags() -> None:
    for text in (FILE, FILE.replace("\n", "\r\n")):
        assert read_captions(text.encode())["cues"] == [
            {"text": "What is it?", "start_ms": 1_500, "end_ms": 2_000},
            {"text": "a < b, and c", "start_ms": 3_603_000, "end_ms": 3_604_250},
            {"text": "the last", "start_ms": 7_000, "end_ms": 8_000},
        ]
    assert read_captions(b"WEBVTT") == read_captions(b"") == {"cues": []}


@pytest.mark.parametrize(
    "body", [b"<html>Sorry</html>", b'{"error": 1}', b"WEBVTT\n\n" + b"00:01.000 --> 00:02.000\nx\n\n" * (CUES_MAX + 1)]
)
def test_file_without_captions_or_with_too_many_is_refused(body: bytes) -> None:
    with pytest.raises(UnexpectedBody):
        read_captions(body)


@given(
    st.lists(
        st.sampled_from(("00:01.000 --> 00:02.000", "99:99.999 --> x", "<", "&#0;", "a", "", "-->", "\0")), max_size=20
    )
)
def test_any_lines_are_parsed_without_errors(lines: list[str]) -> None:
    cues = read_captions("\n".join(("WEBVTT", *lines)).encode())["cues"]
    assert all(one["text"] and one["start_ms"] <= one["end_ms"] for one in cues)
