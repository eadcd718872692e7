"""Stack Exchange: its records, what its errors mean, where its lists end, and when it asks for a pause."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.platforms.case import drive, recorded
from tests.platforms.drive import Upstream, always, page_of, single_of, told, watched
from tests.platforms.stackexchange import cases
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Backoff
from upstreams.model.steps import Call, Page
from upstreams.platforms.stackexchange import PLATFORM

Json = dict[str, Any]
Params = Mapping[str, str | int]

LISTS: Mapping[str, Params] = {
    "search": {"query": "parsers"},
    "questions": {"tagged": "python"},
    "question/answers": {"id": "11227809"},
    "question/comments": {"id": "11227809"},
    "profile/posts": {"user_id": "22656"},
}
SINGLES: Mapping[str, Params] = {
    "question": {"id": "11227809"},
    "answer": {"id": "11227902"},
    "profile": {"user_id": "22656"},
}
ALL: Mapping[str, Params] = {**LISTS, **SINGLES}


def record(resource: str, params: Params, upstream: Upstream) -> Json:
    return single_of(PLATFORM, resource, params, upstream).record


page = partial(page_of, PLATFORM)


def call_of(resource: str, params: Params, **more: Any) -> tuple[str, Call]:
    """Return the only call that a read makes, with its host and path."""
    made, upstream = watched(always({"items": [{}], "has_more": False}))
    drive(PLATFORM, resource, params, upstream, **more)
    (call,) = made
    return call


def failing(error_id: int, message: str, status: int = 400) -> Upstream:
    return always({"error_id": error_id, "error_message": message, "error_name": "an_error"}, status)


# The recordings


def test_recorded_question_comments_are_read_like_answer_comments() -> None:
    """Goal: check the rows of question/comments, of which there is no recording.

    Method: the comments in a recorded question.
    """
    items = recorded("stackexchange", "questions__page1.json").body["items"]
    for kind, resource in (("comments", "question/comments"), ("answers", "question/answers")):
        rows = [row for item in items for row in item[kind]]
        assert page(resource, {"id": "1"}, always({"items": rows})).records == [cases.comment(row) for row in rows]


def test_missing_owner_has_only_a_name() -> None:
    items = recorded("stackexchange", "search__stackapi_merged.json").body["items"]
    [lost] = [item for item in items if item["owner"]["user_type"] == "does_not_exist"]
    [found] = page("search", {"query": "x"}, always({"items": [lost]})).records
    assert {name for name, value in found["author"].items() if value is not None} == {"display_name"}


# Requests


@pytest.mark.parametrize(
    ("resource", "params", "path", "query"),
    [
        ("search", {"query": "a b"}, "search/advanced", "q=a+b&sort=relevance&order=desc&page=1&pagesize=20"),
        ("questions", {}, "questions", "sort=activity&order=desc&page=1&pagesize=20"),
        (
            "questions",
            {"tagged": "a;b", "sort": "week", "limit": 5},
            "questions",
            "tagged=a%3Bb&sort=week&order=desc&page=1&pagesize=5",
        ),
        ("question", {"id": "7"}, "questions/7", ""),
        ("question/answers", {"id": "7"}, "questions/7/answers", "sort=votes&order=desc&page=1&pagesize=20"),
        ("question/comments", {"id": "7"}, "questions/7/comments", "sort=creation&order=asc&page=1&pagesize=20"),
        ("profile", {"user_id": "7"}, "users/7", ""),
        ("profile/posts", {"user_id": "7"}, "users/7/questions", "sort=creation&order=desc&page=1&pagesize=20"),
    ],
)
def test_read_makes_one_call_with_bodies_on_one_site(resource: str, params: Params, path: str, query: str) -> None:
    host_and_path, call = call_of(resource, params)
    assert host_and_path == f"api.stackexchange.com/2.3/{path}"
    assert sent(call) == set(f"{query}&site=stackoverflow&filter=withbody".lstrip("&").split("&"))
    _, elsewhere = call_of(resource, {**params, "site": "askubuntu"}, credentials={"key": "k((e"})
    assert sent(elsewhere) == sent(call) - {"site=stackoverflow"} | {"site=askubuntu", "key=k%28%28e"}


def sent(call: Call) -> set[str]:
    """Return the members of a call's query."""
    return set(call.target("").partition("?")[2].split("&"))


def test_later_page_is_requested_by_number() -> None:
    _, call = call_of("questions", {"limit": 5}, cursor={"p": 3})
    assert (call.query["page"], call.query["pagesize"]) == (3, 5)


@pytest.mark.parametrize("resource", LISTS)
def test_list_ends_when_has_more_is_false(resource: str) -> None:
    more = page(resource, LISTS[resource], always({"items": [], "has_more": True}), cursor={"p": 3})
    assert (more.records, more.next) == ([], {"p": 4})
    last = page(resource, LISTS[resource], always({"items": [{}], "has_more": False}), cursor={"p": 3})
    assert (len(last.records), last.next) == (1, None)
    assert page(resource, LISTS[resource], always({"items": []})) == Page([])


@pytest.mark.parametrize(
    ("number", "credentials", "following"),
    [(24, {}, {"p": 25}), (25, {}, None), (25, {"key": ""}, None), (25, {"key": "k"}, {"p": 26})],
)
def test_list_without_a_key_ends_at_the_page_limit(
    number: int, credentials: Mapping[str, str], following: Params | None
) -> None:
    body = {"items": [{}], "has_more": True}
    assert page("questions", {}, always(body), cursor={"p": number}, credentials=credentials).next == following


# Answers


def test_texts_are_unescaped_and_bodies_become_plain() -> None:
    item = {
        "question_id": 7,
        "title": "Is &quot;Vec&lt;T&gt;&quot; a &amp; b?",
        "body": "<p>Why <b>not</b>?</p>\n\n<pre><code>a &lt; b\n</code></pre>\n",
        "owner": {"display_name": "M&#225;rcio &lt;3", "profile_image": "https://i.example.com/1?s=128&copy=1"},
        "score": -3,
    }
    found = record("question", {"id": "7"}, always({"items": [item]}))
    assert found["content"]["text"] == 'Is "Vec<T>" a & b?\n\nWhy not?\n\na < b'
    assert found["author"]["display_name"] == "Márcio <3"
    assert found["author"]["avatar_url"] == "https://i.example.com/1?s=128&copy=1"
    assert found["engagement"]["likes"] == -3


@pytest.mark.parametrize(("accepted", "pinned"), [(True, True), (False, False), (None, None)])
def test_accepted_answer_is_pinned(accepted: bool | None, pinned: bool | None) -> None:
    rows = [{"answer_id": 1, "is_accepted": accepted}]
    [found] = page("question/answers", {"id": "7"}, always({"items": rows})).records
    assert found["flags"]["pinned"] is pinned


@pytest.mark.parametrize("counts", [{}, {"question_count": 3}, {"answer_count": 3}])
def test_posts_count_needs_both_counts(counts: Json) -> None:
    assert record("profile", {"user_id": "1"}, always({"items": [counts]}))["posts_count"] is None


# Refusals


@pytest.mark.parametrize("resource", SINGLES)
def test_unknown_number_is_not_found(resource: str) -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, resource, SINGLES[resource], always({"items": [], "has_more": False}))


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("error_id", "message", "refusal"),
    [
        (404, "no method found with this name", NotFound),
        (400, "`key` doesn't match a known application", UpstreamFailed),
        (403, "page above 25 requires access token or app key", UpstreamFailed),
        (402, "access token required", UpstreamFailed),
        (502, "Violation of backoff parameter", UpstreamThrottled),
        (503, "temporarily unavailable", UpstreamThrottled),
        (400, "ids", NotFound),
        (400, "tagged", InvalidArgument),
        (500, "an unexpected error", UpstreamFailed),
        (403, "access denied", UpstreamFailed),
    ],
)
@pytest.mark.parametrize("resource", ["questions", "profile"])
def test_error_id_means_the_same_with_any_status(
    resource: str, error_id: int, message: str, status: int, refusal: type[UpstreamError]
) -> None:
    with pytest.raises(refusal):
        drive(PLATFORM, resource, ALL[resource], failing(error_id, message, status))


def test_internal_error_with_status_400_is_transient() -> None:
    with pytest.raises(UpstreamFailed, match="error 500: an unexpected error") as refusal:
        drive(PLATFORM, "questions", {}, failing(500, "an unexpected error"))
    assert refusal.value.passing


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("No site found for name `keyboard-pages`", "site"),
        ("site is required", "site"),
        ("tagged", "tagged"),
        ("q", "query"),
        ("page", "cursor"),
        ("pagesize", "limit"),
        ("sort", "sort"),
        ("", "query"),
    ],
)
def test_parameter_error_names_our_parameter(message: str, param: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, "search", {"query": "trio"}, failing(400, message))
    assert refusal.value.param == param
    assert message in refusal.value.problem


@pytest.mark.parametrize(
    ("upstream", "wait_s"),
    [
        (failing(502, "too many requests from this IP, more requests available in 46472 seconds"), 46_472.0),
        (failing(502, "too many requests from this IP"), None),
        (failing(503, "temporarily unavailable"), None),
        (always("<html>Service Unavailable</html>", 503), None),
        (always("<html>Too Many Requests</html>", 429, retry_after="9"), 9.0),
    ],
)
def test_throttling_reports_its_duration_if_known(upstream: Upstream, wait_s: float | None) -> None:
    with pytest.raises(UpstreamThrottled) as refusal:
        drive(PLATFORM, "questions", {}, upstream)
    assert refusal.value.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("body", "backoff"),
    [
        ({"items": [], "backoff": 10}, Backoff(10.0, "method")),
        ({"items": [], "backoff": 10, "quota_remaining": 1}, Backoff(10.0, "method")),
        ({"items": [], "backoff": 10, "quota_remaining": 0}, Backoff(86_400.0, "source")),
        ({"items": [], "quota_remaining": 0}, Backoff(86_400.0, "source")),
        ({"items": [], "quota_remaining": 287}, None),
        ({"items": [], "backoff": 0}, None),
        ({"items": [], "backoff": -3}, None),
        ({"items": []}, None),
        ({"error_id": 400, "error_message": "tagged"}, None),
        ({"items": [], "backoff": None, "quota_remaining": None}, None),
        ([], None),
        ("text", None),
    ],
)
def test_successful_answer_may_pause_its_method_or_source(body: Any, backoff: Backoff | None) -> None:
    assert PLATFORM.rest(told(body)) == backoff


@pytest.mark.parametrize(
    ("date", "for_s"),
    [("Tue, 06 Jan 2026 23:50:00 GMT", 600.0), ("Wed, 07 Jan 2026 00:00:00 GMT", 86_400.0), ("soon", 86_400.0)],
)
def test_exhausted_quota_resets_at_midnight(date: str, for_s: float) -> None:
    assert PLATFORM.rest(told({"items": [], "quota_remaining": 0}, date=date)) == Backoff(for_s, "source")


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/questions", "/questions"),
        ("/questions/11227809", "/questions/{ids}"),
        ("/questions/1;2/answers", "/questions/{ids}/answers"),
        ("/questions/3/answers", "/questions/{ids}/answers"),
        ("/users/22656/questions", "/users/{ids}/questions"),
        ("/search/advanced", "/search/advanced"),
    ],
)
def test_calls_with_different_ids_share_a_method(path: str, method: str) -> None:
    assert PLATFORM.method_of(path) == method


@pytest.mark.parametrize("body", [{}, {"items": None}, {"items": {}}, [], "<html>Sorry</html>", 5])
@pytest.mark.parametrize("resource", ["questions", "profile"])
def test_unexpected_body_is_an_upstream_failure(resource: str, body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, resource, ALL[resource], always(body))


# The stand-in
