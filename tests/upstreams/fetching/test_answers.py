"""Bodies with small defects. Unambiguous values are read, and nothing else is taken for a value."""

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
from upstreams.model.hidden_errors import IsError, if_false, if_present
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
def test_byte_order_mark_before_json_is_ignored(body: Any, encoding: str) -> None:
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
def test_nonstandard_json_value_does_not_affect_others(raw: bytes, read: Any) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(raw)
    assert body_of(raw) == read


def test_invalid_number_does_not_affect_other_values() -> None:
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
def test_non_json_or_oversized_body_is_a_transient_failure(raw: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="main: expected JSON, got application/json") as failed:
        body_of(raw)
    assert failed.value.passing


@given(st.binary(max_size=200), st.sampled_from([200, 201, 206, 400, 404, 503]))
def test_any_bytes_are_parsed_or_refused(raw: bytes, status: int) -> None:
    for accepts in ("json", "json or text"):
        try:
            body_of(raw, accepts, "text/plain", status)  # type: ignore[arg-type] - mypy widens the tuple's texts
        except UpstreamError:
            continue


@pytest.mark.parametrize("raw", ["# Título".encode("utf-8-sig"), "# Título".encode("utf-16"), "# Título".encode()])
def test_text_is_decoded_by_its_byte_order_mark(raw: bytes) -> None:
    assert body_of(raw, "json or text", "text/plain; charset=utf-8") == "# Título"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [(b"<html>Sorry</html>", "text/html; charset=utf-8"), (b'{"name":"README.md","conte', "application/json")],
)
def test_html_and_broken_json_are_not_accepted_as_text(raw: bytes, kind: str) -> None:
    with pytest.raises(UpstreamFailed, match="expected JSON") as failed:
        body_of(raw, "json or text", kind)
    assert failed.value.passing


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"id":7}'])
def test_status_202_is_a_transient_failure(raw: bytes) -> None:
    with pytest.raises(UpstreamFailed, match="main: the response is not ready yet") as failed:
        body_of(raw, status=202)
    assert failed.value.passing


@pytest.mark.parametrize("row", [b"{}", b"[]", b"0", b'{"a":0}', b'"a"'])
def test_answer_with_too_many_values_is_refused_before_parsing(row: bytes) -> None:
    many = b"[" + b",".join([row] * (VALUES_MAX + 1)) + b"]"
    with pytest.raises(UpstreamFailed, match=f"more than {VALUES_MAX} values") as refused:
        body_of(many)
    assert not refused.value.passing
    few = b"[" + b",".join([row] * (VALUES_MAX // 2 - 1)) + b"]"
    assert len(body_of(few)) == VALUES_MAX // 2 - 1


def test_page_of_long_texts_is_parsed() -> None:
    """Method: a hundred issues of the maximum length at GitHub, with a comma in every fifty characters."""
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
def test_quoted_upstream_text_is_short_and_without_nul(error: UpstreamError) -> None:
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
def test_body_in_the_wrong_form_is_a_failure(form: str, raw: bytes, kind: str) -> None:
    with pytest.raises(UpstreamFailed, match="documented structure") as caught:
        body_of(raw, FORMS[form], kind)
    assert len(str(caught.value)) < 200


def test_html_is_accepted_as_text_or_html() -> None:
    assert body_of(PAGE, TEXT, "text/html") == PAGE.decode()
    assert body_of(PAGE, HTML, "text/html").findtext(".//h1") == "Sorry"
    assert body_of(b"caf\xe9", TEXT, "text/plain; charset=latin-1") == "café"
    assert body_of(b"<a><b>1</b></a>", XML, "text/xml").findtext("b") == "1"


def test_empty_feed_means_no_data_and_page_error_is_judged_by_status() -> None:
    with pytest.raises(NotFound):
        body_of(b"", FEED, "text/xml")
    for status in (404, 410):
        with pytest.raises(NotFound):
            body_of(PAGE, FEED, "text/html", status)
    with pytest.raises(UpstreamFailed, match="status 500"):
        body_of(PAGE, FEED, "text/html", 500)


def test_commas_count_as_values_only_in_json() -> None:
    text = b"," * (VALUES_MAX + 1) * 2
    assert len(body_of(text, TEXT, "text/plain")) == len(text)
    with pytest.raises(UpstreamFailed, match="values"):
        body_of(text, "json or text", "text/plain")


def judged(raw: bytes, judge: Judge, hidden: IsError | None = None) -> Any:
    return read_answer(HttpAnswer(200, {}, raw), "main", 0.0, accepts="json", judge=judge, hidden=hidden).body


def test_hidden_error_is_detected_in_a_member_but_not_in_text() -> None:
    refusals = Refusals(code="error.code", hidden=True, absent=("nothing",))
    assert judged(b'{"title":"error"}', refusals, if_present("error")) == {"title": "error"}
    with pytest.raises(NotFound):
        judged(b'{"error":{"code":"nothing"}}', refusals, if_present("error"))


@pytest.mark.parametrize(
    ("raw", "is_error"),
    [
        (b'{"success": false, "message": "no"}', True),
        (b'{"success":true,"text":"\\"success\\":false"}', False),
        (b'{"success":true,"user":{"success":false}}', False),
        (b'[{"success":false}]', False),
        (b'{"success":false', False),
    ],
)
def test_hidden_error_is_a_false_member_at_the_top(raw: bytes, is_error: bool) -> None:
    assert if_false("success")(raw) == is_error


@pytest.mark.parametrize("raw", [b"null", b"", b" null\n"])
def test_platform_decides_the_meaning_of_no_data(raw: bytes) -> None:
    with pytest.raises(UpstreamThrottled):
        judged(raw, lambda answer: UpstreamThrottled(answer.source) if answer.body is None else None)
    with pytest.raises(NotFound, match="returned no data"):
        judged(raw, by_status)
