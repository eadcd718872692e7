"""GitHub: its recorded exchanges, compared field by field, and handmade bodies for edge cases."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import Upstream, always, told
from tests.platforms.github.asking import ISSUE, REPO, calls_of, page, single
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.refusals import Backoff
from upstreams.platforms.github import PLATFORM

NEXT = '<https://api.github.com/x?q=a,b&per_page=20&page=2>; rel="next", <https://api.github.com/x?page=9>; rel="last"'
RESET = {"x_ratelimit_reset": "1735691400", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}
"""A quota that resets half an hour after the answer was sent."""


# Requests


def test_list_sends_githubs_page_and_size_parameters() -> None:
    [(address, call)] = calls_of("repo/issues", {"url": REPO, "limit": 50, "state": "all"}, [], cursor={"p": 3})
    assert address == "api.github.com/repos/example/project/issues"
    assert call.target("") == "/repos/example/project/issues?state=all&page=3&per_page=50"


def test_github_cursor_replaces_the_page_number() -> None:
    [(_, call)] = calls_of("repo/issues", {"url": REPO}, [], cursor={"c": "Y3Vyc29y=="})
    assert call.target("") == "/repos/example/project/issues?state=open&after=Y3Vyc29y%3D%3D&per_page=20"


@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("repo", "https://gitlab.com/example/project"),
        ("repo", "https://github.com.example.org/example/project"),
        ("repo", "https://github.com/example"),
        ("repo", "https://[github.com/example/project"),
        ("repo", ""),
        ("issue", REPO),
        ("issue", f"{REPO}/issues/seven"),
        ("issue", f"{REPO}/issues/\u0667"),
        ("issue", f"{REPO}/issues/{'9' * 30}"),
        ("repo", "https://github.com/example/a%2Fb"),
        ("repo/top-issues", "https://github.com/example/a%20is:closed"),
        ("issue/comments", f"{REPO}/wiki/7"),
    ],
)
def test_url_of_something_else_is_refused_before_any_call(resource: str, url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        calls_of(resource, {"url": url}, {})
    assert refusal.value.param == "url"


def test_pull_request_is_read_as_an_issue() -> None:
    [(address, _)] = calls_of("issue", {"url": f"{REPO}/pull/7"}, {"number": 7})
    assert address == "api.github.com/repos/example/project/issues/7"


def test_token_is_sent_only_if_configured() -> None:
    assert ("authorization", "Bearer t0ken") in PLATFORM.headers({"token": "t0ken"})
    assert "authorization" not in dict(PLATFORM.headers({}))


def test_searches_use_the_source_with_their_own_quota() -> None:
    empty: dict[str, Any] = {"total_count": 0, "items": []}
    for resource in ("search", "search/repos", "search/users"):
        [(_, call)] = calls_of(resource, {"query": "trio"}, empty)
        assert call.source == "search"
    [(_, call)] = calls_of("repo/top-issues", {"url": REPO}, empty)
    assert call.source == "search"
    assert call.query["q"] == "repo:example/project is:issue is:open"


# Answers


def test_next_page_is_found_after_a_comma_in_the_link_header() -> None:
    assert page("repo/releases", {"url": REPO}, always([], link=NEXT)).next == {"p": 2}


def test_next_link_with_a_cursor_is_followed() -> None:
    link = '<https://api.github.com/repositories/1/issues?per_page=20&after=Y3Vy%3D&page=2>; rel="next"'
    assert page("repo/issues", {"url": REPO}, always([], link=link)).next == {"c": "Y3Vy="}


@pytest.mark.parametrize(
    "link",
    [
        "",
        '<https://api.github.com/x?page=1>; rel="first"',
        "<>",
        "rel=next",
        "<x>; rel=next",
        f'<https://api.github.com/x?page={"9" * 30}>; rel="next"',
    ],
)
def test_page_without_a_next_link_is_the_last(link: str) -> None:
    assert page("repo/releases", {"url": REPO}, always([], link=link)).next is None


def test_search_ends_at_githubs_result_limit() -> None:
    body = {"total_count": 5_000, "incomplete_results": False, "items": []}
    params: Mapping[str, str | int] = {"query": "trio", "limit": 100}
    assert page("search", params, always(body, link=NEXT), cursor={"p": 9}).next == {"p": 10}
    assert page("search", params, always(body, link=NEXT), cursor={"p": 10}).next is None


def test_incomplete_search_has_a_warning() -> None:
    body = {"total_count": 1, "incomplete_results": True, "items": []}
    assert page("search", {"query": "trio"}, always(body)).warnings == (
        "GitHub answered before its search was complete",
    )


def test_author_of_a_deleted_account_is_null() -> None:
    post = single("issue", {"url": ISSUE}, always({"number": 7, "title": "Lost", "user": None}))
    assert post["author"] is None
    [comment] = page("issue/comments", {"url": ISSUE}, always([{"id": 1, "user": None, "body": "gone"}])).records
    assert comment["author"] is None
    assert comment["post_id"] == "7"


def test_text_of_an_issue_without_body_is_its_title() -> None:
    assert single("issue", {"url": ISSUE}, always({"title": "Only this", "body": ""}))["content"]["text"] == "Only this"


def test_pull_request_is_distinguished_from_an_issue() -> None:
    old_issue = {"number": 1, "pull_request": {"html_url": None, "diff_url": None}}
    pull = {"number": 2, "pull_request": {"html_url": f"{REPO}/pull/2"}}
    posts = page("repo/issues", {"url": REPO}, always([old_issue, pull, {"number": 3}])).records
    assert [post["ext"]["is_pr"] for post in posts] == [False, True, False]


def test_label_can_be_a_plain_name() -> None:
    issue = {"number": 1, "labels": ["bug", {"name": "help wanted"}, {"name": None}, None, 5, ""]}
    assert single("issue", {"url": ISSUE}, always(issue))["ext"]["labels"] == ["bug", "help wanted"]


def test_counts_beyond_64_bits_are_null() -> None:
    release = {"id": 1, "assets": [{"download_count": 2**63 - 1}] * 3}
    assert page("repo/releases", {"url": REPO}, always([release])).records[0]["ext"] == {"downloads": None}


def test_downloads_are_summed_over_all_assets() -> None:
    assets = [{"download_count": 3}, {"download_count": 4}]
    releases = [{"assets": assets}, {"assets": []}, {"assets": [*assets, {"name": "uncounted"}]}]
    records = page("repo/releases", {"url": REPO}, always(releases)).records
    assert [record["ext"]["downloads"] for record in records] == [7, 0, None]


def test_readme_may_be_raw_text() -> None:
    article = single("repo/readme", {"url": REPO}, always("# Project\n"))
    assert article["text"] == "# Project\n"
    assert article["url"] == "https://github.com/example/project#readme"


def test_invalid_bytes_in_a_readme_are_replaced() -> None:
    body = {"encoding": "base64", "content": b64encode(b"caf\xe9").decode()}
    assert single("repo/readme", {"url": REPO}, always(body))["text"] == "caf\ufffd"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_readme_is_decoded_by_its_byte_order_mark(encoding: str) -> None:
    body = {"encoding": "base64", "content": b64encode("# Título".encode(encoding)).decode()}
    assert single("repo/readme", {"url": REPO}, always(body))["text"] == "# Título"


def test_oversized_readme_has_no_text() -> None:
    body = {"name": "README.md", "encoding": "none", "content": "", "size": 2_000_000}
    assert single("repo/readme", {"url": REPO}, always(body))["text"] is None


@pytest.mark.parametrize(
    ("resource", "params", "body"),
    [
        ("profile", {"handle": "octocat"}, []),
        ("profile/repos", {"handle": "octocat"}, {"message": "hello"}),
        ("search", {"query": "trio"}, {"total_count": 3}),
        ("repo/readme", {"url": REPO}, [1]),
        ("repo/readme", {"url": REPO}, {"encoding": "base64", "content": "a"}),
        ("profile", {"handle": "octocat"}, "<html>Sorry</html>"),
    ],
)
def test_unexpected_body_is_an_upstream_failure(resource: str, params: Mapping[str, str | int], body: Any) -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, resource, params, always(body))


# Refusals


@pytest.mark.parametrize(
    ("status", "body", "headers", "retry_after_s"),
    [
        (403, {"message": "API rate limit exceeded for 192.0.2.1."}, {"x_ratelimit_remaining": "0"}, None),
        (429, {"message": "API rate limit exceeded"}, {"x_ratelimit_remaining": "0"}, None),
        (403, {"message": "You have exceeded a secondary rate limit"}, {"retry_after": "60"}, 60.0),
        (403, {"message": "You have exceeded a secondary rate limit"}, {"x_ratelimit_remaining": "41"}, None),
        (403, {"message": "You have triggered an abuse detection mechanism"}, {}, None),
        (403, "<html>slow down</html>", {"retry_after": "soon"}, None),
        (403, {"message": "API rate limit exceeded"}, {"x_ratelimit_remaining": "0", **RESET}, 1800.0),
        (429, {"message": "API rate limit exceeded"}, {"x_ratelimit_remaining": "0", "retry_after": "9", **RESET}, 9.0),
        (403, {"message": "You have exceeded a secondary rate limit"}, {"x_ratelimit_remaining": "41", **RESET}, None),
        (429, "", {"retry_after": "Wed, 01 Jan 2025 00:01:00 GMT", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}, 60.0),
        (429, "", {"retry_after": "5"}, 5.0),
    ],
)
def test_throttling_is_detected_by_headers_or_words(
    status: int, body: Any, headers: dict[str, str], retry_after_s: float | None
) -> None:
    with pytest.raises(UpstreamThrottled) as refusal:
        drive(PLATFORM, "search", {"query": "trio"}, always(body, status, **headers))
    assert (refusal.value.source, refusal.value.retry_after_s) == ("search", retry_after_s)


@pytest.mark.parametrize(
    ("headers", "backoff"),
    [
        ({}, None),
        ({"x_ratelimit_remaining": "1", **RESET}, None),
        ({"x_ratelimit_remaining": "0", **RESET}, Backoff(1800.0, "source")),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": RESET["x_ratelimit_reset"]}, None),
        ({"x_ratelimit_remaining": "0", **RESET, "x_ratelimit_reset": "1735689600"}, None),
        ({"x_ratelimit_remaining": "0", **RESET, "x_ratelimit_reset": "soon"}, None),
    ],
)
def test_exhausted_quota_in_a_success_pauses_the_source(headers: dict[str, str], backoff: Backoff | None) -> None:
    assert PLATFORM.rest(told({"login": "ada"}, **headers)) == backoff


def test_403_for_an_insufficient_token_is_a_failure() -> None:
    body = {"message": "Resource not accessible by personal access token"}
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, "repo", {"url": REPO}, always(body, 403, x_ratelimit_remaining="41"))


@pytest.mark.parametrize(
    "message",
    [
        "Resource protected by organization SAML enforcement. You must grant your token access to this organization.",
        "Although you appear to have the correct authorization credentials, the `o` organization has an IP allow list "
        "enabled, and your IP address is not permitted to access this resource.",
        "`o` forbids access via a personal access token (classic). Please use a GitHub App.",
        "Although you appear to have the correct authorization credentials, the `o` organization has enabled OAuth App "
        "access restrictions, meaning that data access to third-parties is limited.",
    ],
)
def test_organization_that_restricts_the_token_is_private(message: str) -> None:
    with pytest.raises(NotFound) as refusal:
        drive(PLATFORM, "repo", {"url": REPO}, always({"message": message}, 403, x_ratelimit_remaining="41"))
    assert refusal.value.reason == "account_private"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"message": "Not Found"}),
        (410, {"message": "Issues are disabled for this repo"}),
        (451, {"message": "Repository access blocked", "block": {"reason": "dmca"}}),
        (403, {"message": "Repository access blocked", "block": {"reason": "tos"}}),
        (409, {"message": "Git Repository is empty."}),
    ],
)
def test_deleted_blocked_or_missing_item_is_not_found(status: int, body: Any) -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, "repo", {"url": REPO}, always(body, status))


def unsearchable(message: str, resource: str = "Search") -> Upstream:
    return always({"message": "Validation Failed", "errors": [{"resource": resource, "message": message}]}, 422)


def test_unsearchable_query_is_an_invalid_argument() -> None:
    with pytest.raises(InvalidArgument, match="longer than 256 characters") as refusal:
        drive(PLATFORM, "search", {"query": "x" * 300}, unsearchable("The search is longer than 256 characters."))
    assert refusal.value.param == "query"


def test_search_in_a_missing_repository_is_not_found() -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, "repo/top-issues", {"url": REPO}, unsearchable("the resources do not exist"))


def test_stale_cursor_is_an_upstream_failure() -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, "repo/issues", {"url": REPO}, unsearchable("bad cursor", "Issue"), cursor={"c": "old"})
