"""Decisions 14: keywords match as whole words, in every script."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.jobs.cohorts import matching
from scheduler.jobs.cohorts.matching import Keywords, normalized
from tests.spec.keyword_pairs import Pair, pairs

ROWS = pairs()


@pytest.mark.parametrize("script", sorted({row.script for row in ROWS}))
async def test_keyword_matches_the_texts_in_the_table(script: str) -> None:
    wrong = [row for row in ROWS if row.script == script and await contains(row.keyword, row.text) != row.contains]
    assert wrong == []


def test_table_has_200_pairs_in_ten_scripts_with_both_outcomes() -> None:
    counts = Counter(row.script for row in ROWS)
    assert len(ROWS) >= 200
    assert len(counts) >= 10
    assert {(row.script, row.contains) for row in ROWS} == {(script, one) for script in counts for one in (True, False)}
    assert len(set(ROWS)) == len(ROWS)


async def contains(keyword: str, text: str) -> bool:
    normal = normalized(keyword)
    return await Keywords([normal]).found_in(text) == [normal]


# The same rules implemented again, character by character, with Unicode character names.

SPACELESS = ("CJK ", "HIRAGANA ", "BOPOMOFO ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "IDEOGRAPHIC ITERATION")
UNSEEN = {"\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufe0f"}
LEADING = {*"เแโใไ", *"ເແໂໃໄ", "\u17d2", "\u1039"}
FOLLOWING = {*"ะาๅำ", *"ະາຳ", *"ぁぃぅぇぉっゃゅょゎゕゖー々ゝゞ"}
PARTICLES = matching._PARTICLES.split("|")
ENDINGS = matching._ENDINGS.split("|")


def slow_normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", "".join(one.casefold() for one in unicodedata.normalize("NFKC", text)))
    words, word = list[str](), ""
    for one in unicodedata.normalize("NFKC", folded) + " ":
        if one in UNSEEN:
            continue
        if one.isspace():
            words += [word] if word else []
            word = ""
        else:
            word += one
    return " ".join(words)


def kind_of(one: str) -> str:
    """Return the kind of a character: spaceless script, Katakana, Hangul, other letter, mark or digit, or none."""
    name = unicodedata.name(one, "")
    if one == "ー" or name.startswith("KATAKANA LETTER"):
        return "katakana"
    if name.startswith("HANGUL "):
        return "hangul"
    if unicodedata.category(one)[0] not in "LMN" and one != "_":
        return "none"
    return "spaceless" if name.startswith(SPACELESS) else "spaced"


def continues_word(before: str, after: str) -> bool:
    """Return whether two adjacent characters belong to one word."""
    first, second = kind_of(before), kind_of(after)
    return first == second and first in ("spaced", "katakana", "hangul")


def slow_contains(keyword: str, text: str) -> bool:
    words, wanted = slow_normal(text), slow_normal(keyword)
    for begin in range(len(words) - len(wanted) + 1):
        end = begin + len(wanted)
        if words[begin:end] == wanted and begins_at(words, begin) and ends_at(words, end):
            return True
    return False


def begins_at(words: str, begin: int) -> bool:
    if begin == 0:
        return True
    before, first = words[begin - 1], words[begin]
    if kind_of(first) == "spaceless":
        return before not in LEADING
    return not continues_word(before, first)


def ends_at(words: str, end: int) -> bool:
    if end == len(words):
        return True
    last, after = words[end - 1], words[end]
    if kind_of(last) == "spaceless":
        return after not in FOLLOWING and unicodedata.category(after)[0] != "M"
    if kind_of(last) == "katakana" and unicodedata.category(after)[0] == "M":
        return False
    if kind_of(last) == "hangul":
        tails = ["", *PARTICLES, *(one + other for one in PARTICLES for other in ENDINGS)]
        ends = [end + len(tail) for tail in tails if words.startswith(tail, end)]
        return any(at == len(words) or kind_of(words[at]) != "hangul" for at in ends)
    return not continues_word(last, after)


ALPHABET = "aAb1_ é\u0301ßжЖ漢京すきゃーカメ한국은는이กาเ้ລາເក្្កကာ္ कि\u200b#.-'ﬁＡ①"
WORDS = st.text(ALPHABET, min_size=1, max_size=3)
TEXTS = st.text(ALPHABET, max_size=16)


@given(WORDS, TEXTS, TEXTS)
async def test_compiled_keywords_match_naive_search(keyword: str, before: str, after: str) -> None:
    if not normalized(keyword):
        return
    for text in (before, before + keyword + after, f"{before} {keyword} {after}"):
        assert normalized(text) == slow_normal(text)
        assert await contains(keyword, text) == slow_contains(keyword, text), (keyword, text)


@given(st.text(), st.text(min_size=1))
async def test_normalization_is_idempotent_and_texts_match_themselves(text: str, keyword: str) -> None:
    normal = normalized(keyword)
    assert normalized(normal) == normal
    if normal:
        assert await contains(keyword, keyword)
        assert await contains(keyword, f"{text} {keyword} .") or not normalized(f"{text} {keyword} .").startswith(
            normalized(text)
        )


async def test_overlapping_keywords_are_all_found() -> None:
    keywords = Keywords([normalized(one) for one in ("new york", "york city", "city", "York", "yor")])
    assert await keywords.found_in("New York City") == ["new york", "york city", "city", "york"]


async def test_text_of_any_length_is_searched_for_each_keyword() -> None:
    text = "aa" * 60_000
    keywords = Keywords(["a", "aa", "a a", "aab"])
    assert await keywords.found_in(text) == []
    assert await keywords.found_in(f"{text} aa") == ["aa"]


def test_table_contains_a_keyword_that_equals_its_text() -> None:
    assert Pair("Latin", "acme", "acme", contains=True) in ROWS
