"""Captions as programs and people write them, through a whole node: they are read, or a free 404 is returned."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from tests.cases.files import ABSENT, case, needs_cases
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer, json_answer
from upstreams.content.captions import CUES_MAX, read_captions
from upstreams.model.errors import UnexpectedBody

HOST = "tube.example.org"
TRACK = {"language": {"id": "en"}, "captionPath": "/lazy-static/en.vtt"}
WORDLESS = (
    b"", b"WEBVTT", b"WEBVTT\n\n", b"WEBVTT\n\nNOTE nothing\n", b"WEBVTT\n\n00:01.000 --> 00:02.000\n\n",
    b"WEBVTT\n\n00:01.000 --> 00:02.000\n<i></i>\n", b"\r\n \n",
    "WEBVTT\n\n00:01.000 --> 00:02.000\n\u200b\u266a\n".encode(),
    b"WEBVTT\n\nwords without times",
)  # fmt: skip


async def transcript(node: OpenNode, raw: bytes, number: int) -> Answered:
    answers = {
        f"{HOST}/api/v1/videos/{number}/captions": json_answer({"data": [TRACK]}),
        f"{HOST}/lazy-static/en.vtt": ScriptedAnswer(200, raw, {"content-type": "text/vtt"}),
    }
    node.upstream.script = lambda asked: answers.get(asked, ABSENT)
    return await node.get(f"/v1/peertube/video/transcript?id={number}&instance={HOST}")


def texts(raw: str) -> list[str]:
    return [cue["text"] for cue in read_captions(raw.encode())["cues"]]


@needs_cases
async def test_every_caption_file_is_read(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number, (name, words) in enumerate({"blank_inside": "Warm words", "tight_arrow": "no blanks"}.items()):
            answer = await transcript(node, case(f"{name}.vtt"), number)
            assert (answer.status, answer.json["data"]["transcript"]) == (200, words), answer.json


@pytest.mark.critical
async def test_captions_without_words_return_a_free_404(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number, raw in enumerate(WORDLESS):
            answer = await transcript(node, raw, number)
            assert (answer.status, answer.json["credits_used"]) == (404, 0), raw
            assert answer.json["error"]["details"]["reason"] == "no_captions", answer.json
        await node.assert_sound()
        assert (await node.money())[0] == 100_000


CUE = "00:01.000 --> 00:02.000"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"WEBVTT\n{CUE}\na\n\n{CUE}\nb", ["a", "b"]),
        (f"WEBVTT\n\n{CUE}\n\n\na\n\n{CUE}\nb", ["a", "b"]),
        (f"WEBVTT\n\n{CUE}\n\nNOTE x\n\n{CUE}\nb", ["b"]),
        (f"WEBVTT\n\n{CUE}\n\nname\n{CUE}\nb", ["b"]),
        (f"WEBVTT\n\n{CUE}\nNOTE is a word\n\nNOTE\nis not\n", ["NOTE is a word"]),
        (f"WEBVTT\n\n{CUE}\na\n{CUE}\nb", ["a", "b"]),
        ("WEBVTT\n\n00:01 --> 00:02\na\n\n00:00:02.5-->00:00:03.25align:start\nb", ["a", "b"]),
        ("1\n00:00:01 --> 00:00:02\n{\\an8}a {b}\n", ["a {b}"]),
        (f"WEBVTT\n\n{CUE}\n\u266a\n\n{CUE}\nb", ["\u266a", "b"]),
        ("WEBVTT\n\n00:01.000-->00:02.000 align:start\na\n\n00:01.000\t-->\t00:02.000\nb", ["a", "b"]),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:00:02,000 --> 00:00:03,000\nb\n", ["a", "b"]),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n2\n00:00:02,000 --> 00:00:03,000\nb\n", ["a", "b"]),
        (f"WEBVTT\r\n\r\n{CUE}\r\na\u2028\u2028b\r\n\r\n", ["a\u2028\u2028b"]),
        (f"WEBVTT\r\r{CUE}\ra\r\r{CUE}\rb\r", ["a", "b"]),
        (f"WEBVTT X\n\nSTYLE\n::cue {{}}\n\nREGION\nid:a\n\n7\n{CUE}\n<v Ann>&lt;a&gt; <b>b</b></v>", ["<a> b"]),
    ],
)
def test_captions_are_read_in_any_form(raw: str, expected: list[str]) -> None:
    assert texts(raw) == expected


def cues(*each: str) -> str:
    blocks = (f"00:{at:02}.000 --> 00:{at + 1:02}.000\n{text}\n\n" for at, text in enumerate(each))
    return "WEBVTT\n\n" + "".join(blocks)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (("a b", "a b\nc d", "c d", "c d\ne f", "e f\ng"), "a b c d e f g"),
        (("one", "one\ntwo", "two\nthree", "three\nfour"), "one two three four"),
        (("a\nb", "a\nb\nc", "b\nc\nd"), "a b c d"),
        (("so", "so we", "so we went", "so we went home"), "so we went home"),
        (("<c>so</c> we", "so we\nwent"), "so we went"),
    ],
)
def test_rolling_captions_do_not_repeat_their_text(shown: tuple[str, ...], said: str) -> None:
    assert " ".join(texts(cues(*shown))) == said


@pytest.mark.parametrize(
    "shown",
    [
        ("No.", "No.", "No."),
        ("la la", "la la", "oh", "la la"),
        ("No.", "No, never", "x", "y"),
        ("No.", "No. Never.", "x", "y", "z"),
        ("go", "gone", "goner"),
    ],
)
def test_words_spoken_twice_are_kept(shown: tuple[str, ...]) -> None:
    assert texts(cues(*shown)) == list(shown)


def test_long_captions_take_linear_time() -> None:
    started = process_time()
    with pytest.raises(UnexpectedBody):
        read_captions((f"WEBVTT\n\n{CUE}\nx\n\n" + f"{CUE}\nx\n\n" * CUES_MAX).encode())
    read_captions((f"WEBVTT\n\n{CUE}\n" + "x\n" * 300_000 + f"\n{CUE}\nx").encode())
    read_captions((f"WEBVTT\n\n{CUE}\n" + "\n" * 300_000 + " " * 300_000 + "-->").encode())
    assert process_time() - started < 10
