"""Bodies that are not quite what they should be: what is plain is read, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.content import FEED, HTML, TEXT, XML
from upstreams.fetching.answers import VALUES_MAX, Accepts, read_answer
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Judge, Refusals, by_status
from upstreams.transport.http import HttpAnswer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def body_of(raw: bytes, accepts: Accepts = "json", kind: str = "application/json", status: int = 200) -> Any:
    came = HttpAnswer(status, {"content-type": kind}, raw)
    return read_answer(came, "main", 0.0, accepts=accepts, judge=by_status).body


@given(JSON.filter(lambda body: isinstance(body, dict | list)), st.sampled_from(["utf-8-sig", "utf-16"]))
def test_a_byte_order_mark_before_json_is_no_harm(body: Any, encoding: str) -> None:
    text = json.dumps(body, ensure_ascii=False)
    assert body_of(text.encode(encoding)) == json.loads(text)


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b'{"id":7,"text":"cut \\ud83d"}', {"id": 7, "text": "cut \N{REPLACEMENT CHARACTER}"}),
        (b'[{"id":1,"a":"\\ude00\\ud83d\\ude00"}]', [{"id": 1, "a": "\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}"}]),
        (b'{"id":7,"n":' + b"9" * 4_000 + b"}", {"id": 7, "n": float("inf")}),
        (b'{"id":7,"n":-1e999}', {"id": 7, "n": float("-inf")}),
        (b'[{"id":18446744073709551615,"n":Infinity}]', [{"id": 2**64 - 1, "n": float("inf")}]),
    ],
)
def test_a_value_that_strict_json_has_not_takes_no_other_with_it(raw: bytes, read: Any) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(raw)
    assert body_of(raw) == read


def test_a_number_that_is_none_is_read_beside_the_others() -> None:
    body = body_of(b'{"id":7,"n":NaN}')
    assert body["id"] == 7
    assert body["n"] != body["n"]


@pytest.mark.parametrize(
    "raw",
    [
        b"NaN",
        b'"\\ud83d"',
        b'{"id":7',
        b'[{"id":7},{"i',
        b"{'id': 7}",
        b'{"id":7}{"id":8}',
        b"[" * 100_000,
        b"[" * 5_000 + b"]" * 5_000,
        b'["' + b"x" * 2_000_000 + b'","\\ud83d"]',
        b"callback([])",
        b"\xef\xbb\xbf",
    ],
)
def test_what_is_no_json_or_too_much_of_it_is_a_failure_that_may_pass(raw: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="main: expected JSON, got application/json") as failed:
        body_of(raw)
    assert failed.value.passing


@given(st.binary(max_size=200), st.sampled_from([200, 201, 206, 400, 404, 503]))
def test_whatever_the_bytes_are_they_are_read_or_refused(raw: bytes, status: int) -> None:
    for accepts in ("json", "json or text"):
        try:
            body_of(raw, accepts, "text/plain", status)  # type: ignore[arg-type] - mypy widens the tuple's texts
        except UpstreamError:
            continue


@pytest.mark.parametrize("raw", ["# Título".encode("utf-8-sig"), "# Título".encode("utf-16"), "# Título".encode()])
def test_a_text_is_read_as_its_mark_says(raw: bytes) -> None:
    assert body_of(raw, "json or text", "text/plain; charset=utf-8") == "# Título"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [(b"<html>Sorry</html>", "text/html; charset=utf-8"), (b'{"name":"README.md","conte', "application/json")],
)
def test_what_is_no_text_is_not_taken_for_one(raw: bytes, kind: str) -> None:
    with pytest.raises(UpstreamFailed, match="expected JSON") as failed:
        body_of(raw, "json or text", kind)
    assert failed.value.passing


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"id":7}'])
def test_an_answer_that_is_still_being_made_is_a_failure_that_may_pass(raw: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="main: the answer is not ready yet") as failed:
        body_of(raw, status=202)
    assert failed.value.passing


@pytest.mark.parametrize("row", [b"{}", b"[]", b"0", b'{"a":0}', b'"a"'])
def test_an_answer_of_more_values_than_any_page_has_is_refused_before_it_is_parsed(row: bytes) -> None:
    many = b"[" + b",".join([row] * (VALUES_MAX + 1)) + b"]"
    with pytest.raises(UpstreamFailed, match=f"more than {VALUES_MAX} values") as refused:
        body_of(many)
    assert not refused.value.passing
    few = b"[" + b",".join([row] * (VALUES_MAX // 2 - 1)) + b"]"
    assert len(body_of(few)) == VALUES_MAX // 2 - 1


def test_a_page_of_long_texts_is_read_whole() -> None:
    """Method: a hundred issues at GitHub's limit, with a comma every fifty characters."""
    body = ("one clause of a sentence of ordinary length is here, " * 3_000)[:65_536]
    page = [{"id": number, "body": body} for number in range(100)]
    assert body_of(orjson.dumps(page)) == page


@pytest.mark.parametrize(
    "error",
    [
        UpstreamFailed("main", "x" * 10_000_000),
        NotFound("x" * 10_000_000),
        InvalidArgument("query", "x" * 10_000_000),
        UpstreamFailed("main", "a\0b"),
    ],
)
def test_what_an_error_quotes_of_an_upstream_is_short_and_holds_no_nul(error: UpstreamError) -> None:
    assert len(str(error)) < 1_000
    assert "\0" not in str(error)


FORMS = {"feed": FEED, "xml": XML, "html": HTML, "text": TEXT}
PAGE = b"<!DOCTYPE html><html><body><h1>Sorry</h1>"


@pytest.mark.parametrize(
    ("form", "raw", "kind"),
    [
        ("feed", PAGE, "text/html"),
        ("feed", b'{"error":1}', "application/json"),
        ("feed", b"<rss>" + b"<i/>" * 300_000, "text/xml"),
        ("xml", b"not found", "text/plain"),
        ("xml", b"<", "text/xml"),
        ("html", b"<p>" * 300_000, "text/html"),
    ],
)
def test_a_body_that_is_not_of_its_form_is_a_failure(form: str, raw: bytes, kind: str) -> None:
    with pytest.raises(UpstreamFailed, match="documented structure") as caught:
        body_of(raw, FORMS[form], kind)
    assert len(str(caught.value)) < 200


def test_a_page_is_taken_where_text_or_html_is_accepted() -> None:
    assert body_of(PAGE, TEXT, "text/html") == PAGE.decode()
    assert body_of(PAGE, HTML, "text/html").findtext(".//h1") == "Sorry"
    assert body_of(b"caf\xe9", TEXT, "text/plain; charset=latin-1") == "café"
    assert body_of(b"<a><b>1</b></a>", XML, "text/xml").findtext("b") == "1"


def test_an_empty_feed_is_nothing_and_a_refusal_of_a_page_is_judged_by_its_status() -> None:
    with pytest.raises(NotFound):
        body_of(b"", FEED, "text/xml")
    for status in (404, 410):
        with pytest.raises(NotFound):
            body_of(PAGE, FEED, "text/html", status)
    with pytest.raises(UpstreamFailed, match="status 500"):
        body_of(PAGE, FEED, "text/html", 500)


def test_commas_are_values_of_json_only() -> None:
    text = b"," * (VALUES_MAX + 1) * 2
    assert len(body_of(text, TEXT, "text/plain")) == len(text)
    with pytest.raises(UpstreamFailed, match="values"):
        body_of(text, "json or text", "text/plain")


def judged(raw: bytes, judge: Judge, hidden: bytes = b"") -> Any:
    return read_answer(HttpAnswer(200, {}, raw), "main", 0.0, accepts="json", judge=judge, hidden=hidden).body


def test_an_error_with_a_good_status_is_a_member_of_the_body_and_no_text_in_it() -> None:
    refusals = Refusals(code="error.code", hidden=True, absent=("nothing",))
    assert judged(b'{"title":"error"}', refusals, b'"error"') == {"title": "error"}
    with pytest.raises(NotFound):
        judged(b'{"error":{"code":"nothing"}}', refusals, b'"error"')


@pytest.mark.parametrize("raw", [b"null", b"", b" null\n"])
def test_what_no_data_means_is_the_platforms_to_say(raw: bytes) -> None:
    with pytest.raises(UpstreamThrottled):
        judged(raw, lambda answer: UpstreamThrottled(answer.source) if answer.body is None else None)
    with pytest.raises(NotFound, match="without data"):
        judged(raw, by_status)
