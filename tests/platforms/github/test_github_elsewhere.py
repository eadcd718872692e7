"""GitHub without its REST API: the readme from a raw file, and all other data from GraphQL."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
import trio

from tests.platforms.case import drive, from_sandbox
from tests.platforms.drive import Upstream, always, page_of, single_of, told, watched
from tests.platforms.github.asking import ISSUE, REPO
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamFailed, UpstreamThrottled
from upstreams.model.params import Args
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.github import PLATFORM, graphql
from upstreams.sandbox.app import Behaviour, Sandbox

Json = dict[str, Any]
_RAW = "raw.githubusercontent.com/example/project/HEAD/"


def single(resource: str, params: Mapping[str, str | int], upstream: Upstream) -> Json:
    result = single_of(PLATFORM, resource, params, upstream, rung_index=1)
    return result.record


def page(upstream: Upstream, **more: Any) -> Page:
    return page_of(PLATFORM, "repo/releases", {"url": REPO}, upstream, rung_index=1, **more)


# The readme


def files(**contents: Answer) -> Upstream:
    """Return a repository with these files. The names are paths, with `_` instead of a dot."""

    def answer(host_and_path: str, _call: Call) -> Answer:
        return contents.get(host_and_path.removeprefix(_RAW).replace(".", "_"), told("404: Not Found", 404))

    return answer


def test_readme_file_is_read_by_name() -> None:
    found = single("repo/readme", {"url": REPO}, files(README_md=told("# A project\n")))
    assert (found["title"], found["text"]) == ("README.md", "# A project\n")
    assert found["url"] == "https://github.com/example/project/blob/HEAD/README.md"
    assert (found["id"], found["ext"]) == (None, {"path": "README.md", "size_bytes": None})


@pytest.mark.parametrize("name", ["README.rst", "README", "readme.md", "docs/README.md"])
def test_readme_may_have_one_of_several_names(name: str) -> None:
    found = single("repo/readme", {"url": REPO}, files(**{name.replace(".", "_"): told("A project\n")}))
    assert found["ext"]["path"] == name


def test_readme_preference_matches_github() -> None:
    upstream = files(**{"_github/README_md": told("# Shown\n"), "README_md": told("# Hidden\n")})
    assert single("repo/readme", {"url": REPO}, upstream)["text"] == "# Shown\n"


@pytest.mark.parametrize(
    ("upstream", "problem"),
    [
        (files(), "found no readme under the usual names"),
        (files(README_md=told("busy", 503), README_rst=told("A project\n")), "status 503"),
        (files(README_md=told("packages/main/README.md")), "documented structure"),
        (files(README_md=told({"a": 1})), "documented structure"),
        (always("slow down", 429), "throttled"),
    ],
    ids=["none", "maybe_other_name", "link", "document", "throttled"],
)
def test_missing_readme_file_is_a_failure(upstream: Upstream, problem: str) -> None:
    with pytest.raises(UpstreamFailed, match=problem):
        single("repo/readme", {"url": REPO}, upstream)


# GraphQL


def data(**found: Any) -> Upstream:
    return always({"data": found})


def errors(kind: str | None, **found: Any) -> Upstream:
    return always({"data": found, "errors": [{"type": kind, "message": f"because of {kind}"}]})


ASKED: list[tuple[str, Mapping[str, str | int], str]] = [
    ("profile", {"handle": "octocat"}, "user"),
    ("repo", {"url": REPO}, "repository"),
    ("repo/releases", {"url": REPO}, "repository"),
    ("issue", {"url": ISSUE}, "repository"),
]


@pytest.mark.parametrize(("resource", "params", "root"), ASKED)
def test_graphql_error_with_a_success_status_is_detected(
    resource: str, params: Mapping[str, str | int], root: str
) -> None:
    for upstream, refusal in (
        (errors("NOT_FOUND", **{root: None}), NotFound),
        (errors("RATE_LIMITED"), UpstreamThrottled),
        (errors("RATE_LIMIT"), UpstreamThrottled),
        (errors("FORBIDDEN", **{root: None}), UpstreamFailed),
        (errors(None), UpstreamFailed),
        (data(**{root: None}), UpstreamFailed),
        (always([]), UpstreamFailed),
        (always({"message": "Bad credentials"}, 401), UpstreamFailed),
    ):
        with pytest.raises(refusal):
            drive(PLATFORM, resource, params, upstream, rung_index=1)


def test_error_next_to_data_omits_only_its_field() -> None:
    upstream = errors("FORBIDDEN", user={"type": "User", "id": 1, "login": "ada", "followers": None})
    found = single("profile", {"handle": "ada"}, upstream)
    assert (found["id"], found["username"], found["followers"]) == ("1", "ada", None)


def test_possibly_moved_issue_is_a_failure_and_not_missing() -> None:
    with pytest.raises(UpstreamFailed, match="the issue was not found here"):
        single("issue", {"url": ISSUE}, errors("NOT_FOUND", repository={"issue": None}))


def test_app_account_is_refused_by_the_graphql_read() -> None:
    with pytest.raises(InvalidArgument):
        next(graphql.profile(Args({"handle": "dependabot[bot]"})))


def test_app_author_has_the_same_name_as_in_rest() -> None:
    author = {"login": "dependabot", "type": "Bot", "id": 5, "html_url": "https://github.com/apps/dependabot"}
    pull = {"type": "PullRequest", "number": 7, "title": "Bump", "pull_state": "MERGED", "user": author}
    found = single("issue", {"url": ISSUE}, data(repository={"issue": pull}))
    assert found["author"]["username"] == "dependabot[bot]"
    assert (found["ext"]["state"], found["ext"]["is_pr"], found["ext"]["node"]) == ("closed", True, None)


def test_app_without_a_name_stays_unnamed() -> None:
    found = {"issue": {"type": "Issue", "number": 7, "user": {"type": "Bot", "login": None, "id": 5}}}
    author = single("issue", {"url": ISSUE}, data(repository=found))["author"]
    assert (author["id"], author["username"]) == ("5", None)


def test_downloads_are_null_without_all_assets() -> None:
    def released(total: int) -> Json:
        assets = {"totalCount": total, "nodes": [{"download_count": 2}, {"download_count": 3}]}
        return {"releases": {"nodes": [{"id": 1, "assets": assets}], "pageInfo": {"hasNextPage": False}}}

    told_of = [page(data(repository=released(total))).records[0]["ext"]["downloads"] for total in (2, 101)]
    assert told_of == [5, None]


@pytest.mark.parametrize("releases", [{}, {"nodes": None}, {"nodes": {}}, None])
def test_unreadable_releases_are_not_an_empty_list(releases: Any) -> None:
    with pytest.raises(UpstreamFailed):
        page(data(repository={"releases": releases}))


def test_releases_continue_at_the_graphql_cursor() -> None:
    place = {"hasNextPage": True, "endCursor": "Y3Vyc29y"}
    asked, answer = watched(data(repository={"releases": {"nodes": [], "pageInfo": place}}))
    assert page(answer).next == {"c": "Y3Vyc29y"}
    page(answer, cursor={"c": "Y3Vyc29y"})
    assert [call.json["variables"]["after"] for _, call in asked] == [None, "Y3Vyc29y"]
    assert {(call.method, call.target("")) for _, call in asked} == {("POST", "/graphql")}


# The stand-in


@pytest.mark.parametrize(
    ("word", "refusal"), [("missing", NotFound), ("throttled", UpstreamThrottled), ("broken", UpstreamFailed)]
)
@pytest.mark.parametrize(("resource", "params", "root"), ASKED)
def test_graphql_sandbox_fails_by_trigger_words(
    resource: str, params: Mapping[str, str | int], root: str, word: str, refusal: type[Exception]
) -> None:
    named = {name: str(value).replace("octocat", word).replace("example", word) for name, value in params.items()}
    with pytest.raises(refusal):
        drive(PLATFORM, resource, named, from_sandbox(), rung_index=1)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"' + b"x" * 70_000 + b'"'])
async def test_graphql_sandbox_refuses_non_queries(body: bytes) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    scope = {"type": "http", "method": "POST", "raw_path": b"/api.github.com/graphql", "query_string": b""}
    await Sandbox(Behaviour(), Random(1))(scope, receive, send)
    assert sent[0]["status"] == 400
