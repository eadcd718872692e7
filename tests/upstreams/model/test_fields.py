"""Getters for JSON from upstreams return a plain value or None, whatever the input."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.model.errors import UnexpectedBody
from upstreams.model.fields import (
    HTML_MAX,
    ROWS_MAX,
    count,
    decoded,
    flag,
    ident,
    instant,
    joined,
    number,
    obj,
    part,
    parts,
    plain,
    rows,
    text,
    texts,
    total_of,
)

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z", re.ASCII)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
KINDS: dict[Callable[[dict[str, Any], str], object], type] = {
    part: dict, parts: list, text: str, number: int, count: int, flag: bool, ident: str, texts: list, instant: str
}  # fmt: skip


@given(JSON)
def test_getters_never_raise_and_keep_their_type(value: Any) -> None:
    for getter, kind in KINDS.items():
        found = getter({"a": value}, "a")
        assert found is None or type(found) is kind
        assert getter({}, "a") in (None, {}, [])


@given(LEAVES)
def test_getter_values_can_be_encoded_as_json(value: Any) -> None:
    for getter in (number, count, flag, instant):
        orjson.dumps(getter({"a": value}, "a"))


@given(JSON)
def test_body_of_another_type_raises_unexpected_body(value: Any) -> None:
    for reader, kind in ((obj, dict), (rows, list)):
        if isinstance(value, kind):
            assert isinstance(reader(value), kind)
        else:
            with pytest.raises(UnexpectedBody):
                reader(value)


def test_rows_of_another_type_are_skipped() -> None:
    assert rows([{"a": 1}, None, 3, "x", {"b": 2}]) == [{"a": 1}, {"b": 2}]
    assert parts({"items": [{"a": 1}, None]}, "items") == [{"a": 1}]
    assert texts({"tags": ["a", 1, None, "", "b"]}, "tags") == ["a", "b"]


def test_missing_is_none_and_empty_is_empty() -> None:
    assert texts({}, "tags") is None
    assert texts({"tags": []}, "tags") == []
    assert text({"bio": ""}, "bio") is None
    assert number({"likes": 0}, "likes") == 0
    assert flag({"pinned": False}, "pinned") is False
    assert flag({"pinned": None}, "pinned") is None


@given(JSON)
def test_count_is_not_negative(value: Any) -> None:
    found, told = {"a": value}, number({"a": value}, "a")
    assert count(found, "a") == (told if told is not None and told >= 0 else None)


def test_negative_count_falls_through_to_the_next_name() -> None:
    assert count({"a": -1, "b": 5}, "a", "b") == 5
    assert count({"a": -1, "b": "0"}, "a", "b") == 0
    assert count({"a": -1}, "a") is None


@given(st.lists(st.none() | st.integers(0, 2**63 - 1)))
def test_total_sums_known_counts_within_64_bits(counts: list[int | None]) -> None:
    told = [one for one in counts if one is not None]
    total = total_of(counts)
    assert total == (sum(told) if told and sum(told) < 2**63 else None)
    orjson.dumps(total)


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_bytes_are_decoded_by_their_byte_order_mark(words: str, encoding: str) -> None:
    assert decoded(words.encode(encoding)) == words.removeprefix("\ufeff" if encoding == "utf-8" else "")


@given(st.binary())
def test_invalid_bytes_are_replaced(raw: bytes) -> None:
    assert isinstance(decoded(raw), str)


def test_first_name_with_a_value_wins() -> None:
    assert text({"a": "", "b": "x", "c": "y"}, "a", "b", "c") == "x"
    assert number({"a": None, "b": True, "c": 0, "d": 4}, "a", "b", "c", "d") == 0
    assert ident({"a": None, "b": 17}, "a", "b") == "17"
    assert instant({"a": "soon", "b": -1, "c": 0}, "a", "b", "c") == "1970-01-01T00:00:00Z"
    assert flag({"a": False, "b": True}, "a", "b") is True
    assert flag({"a": False, "b": None}, "a", "b") is False
    assert text({"c": "x"}, "a", "b", "c") == "x"


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        (5, 5),
        (5.0, 5),
        ("5", 5),
        ("-5", -5),
        ("00", 0),
        *((bad, None) for bad in (5.5, "5.5", "", "--5", "+5", "5 ", "1,000", True, float("nan"), float("inf"), 1e300)),
        (2**63 - 1, 2**63 - 1),
        *((bad, None) for bad in (2**63, "9" * 19, "9" * 5_000, [5])),
    ],
)
def test_number_parses_upstream_values(sent: Any, whole: int | None) -> None:
    assert number({"n": sent}, "n") == whole


@pytest.mark.parametrize(
    ("sent", "iso"),
    [
        ("2020-01-31T12:00:00Z", "2020-01-31T12:00:00Z"),
        ("2020-01-31T12:00:00.123456Z", "2020-01-31T12:00:00.123Z"),
        ("2020-01-31T12:00:00.000Z", "2020-01-31T12:00:00Z"),
        ("2020-01-31T12:00:00.500Z", "2020-01-31T12:00:00.500Z"),
        ("2020-01-31T12:00:00.5Z", "2020-01-31T12:00:00.500Z"),
        ("2020-01-31T12:00:00.000456Z", "2020-01-31T12:00:00.000Z"),
        ("2020-01-31T12:00:00,123456Z", "2020-01-31T12:00:00.123Z"),
        ("2020-01-31T12:00:00+02:00", "2020-01-31T10:00:00Z"),
        ("2020-01-31 12:00:00", "2020-01-31T12:00:00Z"),
        ("2020-01-31", "2020-01-31T00:00:00Z"),
        ("2020-W05-5T12:00:00Z", "2020-01-31T12:00:00Z"),
        ("2020-01-31T120000,5Z", "2020-01-31T12:00:00.500Z"),
        (1_580_472_000, "2020-01-31T12:00:00Z"),
        (1_580_472_000.9, "2020-01-31T12:00:00Z"),
        *(
            (bad, None)
            for bad in ("2020-02-30T12:00:00Z", "2020-01-31T25:00:00Z", "xxxx-xx-xxTxx:xx:xxZ", "", "yesterday")
        ),
        *((bad, None) for bad in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00", -1, 1_580_472_000_000)),
        *((bad, None) for bad in (float("nan"), float("inf"), True, {"seconds": 1})),
    ],
)
def test_timestamp_parses_upstream_values(sent: Any, iso: str | None) -> None:
    assert instant({"at": sent}, "at") == iso


ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=ZONES).filter(lambda moment: 1 < moment.year < 9999))
def test_timestamp_in_any_zone_is_converted_to_utc(moment: datetime) -> None:
    found = instant({"at": moment.isoformat()}, "at")
    assert found is not None
    assert ISO.fullmatch(found)
    assert timedelta(0) <= moment - datetime.fromisoformat(found) < timedelta(milliseconds=1)


NEAR_TIMES = st.from_regex(r"\A[0-9]{4}-?[0-9W]{2}-?[0-9]{1,2}[T ][0-9:,.]{0,12}(Z|[+-][0-9:]{4,5})?\Z")


@given(st.text() | NEAR_TIMES | st.integers() | st.floats())
def test_timestamp_is_always_valid(sent: Any) -> None:
    found = instant({"at": sent}, "at")
    if found is not None:
        assert ISO.fullmatch(found)
        assert datetime.fromisoformat(found).tzinfo == UTC


# HTML


@pytest.mark.parametrize(
    ("html", "said"),
    [
        (None, None),
        ("", ""),
        ("plain\n text ", "plain\n text "),
        ("<p>One</p><p>Two<br>three</p>", "One\n\nTwo\nthree"),
        ("<p>a</p>\n\n\n<p>b</p>", "a\n\nb"),
        ("Tom &amp; Jerry &lt;b&gt; &#39;x&#x27; &hellip;", "Tom & Jerry <b> 'x' …"),
        ("<a href=\"https://a.example/?q=1>2\" title='x > y'>link</a>!", "link!"),
        ("<P CLASS=x>Upper</P>", "Upper"),
        ("<ul><li>one</li><li>two</li></ul>", "one\n\ntwo"),
        ("<tr><td>a</td><td>b</td></tr>", "a b"),
        ("a<script>alert('<p>')</script>b<style>p{}</style>c", "abc"),
        ("a<SCRIPT src=x>alert(1)</SCRIPT>b", "ab"),
        ("a<!-- <p>hidden</p> -->b<!-->c", "abc"),
        ("<!DOCTYPE html><p>x", "x"),
        ("1 < 2 and 3 > 2 <3", "1 < 2 and 3 > 2 <3"),
        ("<![foo[bar]]>x", "x"),
        ("<?php echo 1 ?>x", "x"),
        ("text <a href='unclosed", "text"),
        ("text <!-- unclosed", "text"),
        ("text <script>unclosed", "text"),
        ("<p></p>", None),
        ("&#0;&#xd800;&#x110000;", "\ufffd\ufffd\ufffd"),
        ("&#" + "9" * 10_000 + ";x", "\ufffdx"),
        ("&notanentity;", "¬anentity;"),
        ("&amp;lt;p&amp;gt; &amp&quot;; &not&lt;", '&lt;p&gt; &"; ¬<'),
    ],
)
def test_html_becomes_plain_text(html: str | None, said: str | None) -> None:
    assert plain(html) == said


PIECES = st.sampled_from(
    ["<", ">", "</", "/>", "<!", "<!--", "-->", "<![", "<?", "<p", "<a href=", '"', "'", "=", "&", "&#", ";", "script"]
)


@given(st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_any_html_is_accepted(html: str) -> None:
    said = plain(html)
    assert said is None or "\ud800" not in said


@given(st.text(st.characters(exclude_characters="<&\r", exclude_categories=["Cs"])))
def test_text_inside_markup_is_kept_except_line_whitespace(said: str) -> None:
    def lines(text: str | None) -> list[str]:
        return [line.strip() for line in (text or "").split("\n") if line.strip()]

    assert lines(plain(f"<div><b>{said}</b><!-- x --></div>")) == lines(said)


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<a b='", '<a b="', "<a b=", "<!--", "<!", "<script>", "<script ", "</", "&", "&#", "="]
)
def test_megabyte_of_unclosed_markup_takes_linear_time(piece: str) -> None:
    """Goal: no scan takes quadratic time, which would be minutes here. Method: tags that are never closed."""
    plain("<a " + piece * (1_000_000 // len(piece)))


def test_title_and_body_are_joined_by_a_blank_line() -> None:
    assert joined("Title", "Body") == "Title\n\nBody"
    assert joined("Title", None) == joined(None, "Title") == joined("Title", "") == "Title"
    assert joined(None, None) is None


def test_list_longer_than_a_page_is_refused() -> None:
    assert len(rows([{}] * ROWS_MAX)) == ROWS_MAX
    with pytest.raises(UnexpectedBody, match=f"at most {ROWS_MAX}"):
        rows([{}] * (ROWS_MAX + 1))


def test_oversized_markup_is_refused() -> None:
    assert plain("<p>" + "x" * (HTML_MAX - 3)) == "x" * (HTML_MAX - 3)
    assert plain("x" * (HTML_MAX + 1)) == "x" * (HTML_MAX + 1)
    with pytest.raises(UnexpectedBody, match=f"at most {HTML_MAX}"):
        plain("<p>" + "x" * HTML_MAX)
