"""GitLab's peculiarities: URLs that include the host, two kinds of paging, system notes, restricted accounts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import drive
from tests.platforms.drive import Upstream, page_of, single_of, told
from tests.platforms.gitlab.cases import ADA, SAID, TICKET, TOOLS, WHOLE
from upstreams.model.errors import InvalidArgument, NotFound, UpstreamError, UpstreamFailed, UpstreamThrottled
from upstreams.model.steps import Answer, Call, Page
from upstreams.platforms.gitlab import PLATFORM
from upstreams.platforms.gitlab.reads import ISSUE_URL, REPO_URL

ISSUE = ("issue/comments", {"issue": "ada/tools#7", "limit": 2})


def by_path(asked: list[str], **answers: Answer) -> Upstream:
    """Return an upstream that chooses its answer by the last segment of the path."""

    def upstream(host_and_path: str, call: Call) -> Answer:
        asked.append(f"{host_and_path}?{call.target('').partition('?')[2]}")
        return answers[host_and_path.rpartition("/")[2].replace("22", "account")]

    return upstream


def page(resource: str, params: dict[str, Any], upstream: Upstream, **more: Any) -> Page:
    return page_of(PLATFORM, resource, params, upstream, **more)


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("https://gitlab.com/gitlab-org/gitlab", "gitlab.com/gitlab-org/gitlab"),
        ("git@Git.Example.org:group/Sub/tools.git", "git.example.org/group/sub/tools"),
        ("https://git.example.org/group/sub/tools/-/tree/main?ref=x", "git.example.org/group/sub/tools"),
        ("ssh://git@gitlab.com/ada/tools.js.git", "gitlab.com/ada/tools.js"),
    ],
)
def test_project_spellings_are_normalized(spelled: str, canonical: str) -> None:
    assert REPO_URL.canonical(spelled) == canonical


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("https://gitlab.com/ada/tools/-/issues/7#note_90", "gitlab.com/ada/tools/7"),
        ("gitlab.com/ada/tools/issues/7", "gitlab.com/ada/tools/7"),
        ("https://git.example.org/a/b/c/-/work_items/7?x=1", "git.example.org/a/b/c/7"),
    ],
)
def test_issue_spellings_are_normalized(spelled: str, canonical: str) -> None:
    assert ISSUE_URL.canonical(spelled) == canonical


@pytest.mark.parametrize(
    ("resource", "url"),
    [
        ("repo", "https://gitlab.example.org:8443/a/b"),
        ("repo", "gitlab.example.org:8443/a/b"),
        ("repo", "ssh://git@gitlab.example.org:2222/a/b.git"),
        ("issue", "https://gitlab.example.org:8443/a/b/-/issues/7"),
        ("issue", "gitlab.example.org:8443/a/b/-/issues/7"),
    ],
)
def test_url_with_a_port_is_refused(resource: str, url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        drive(PLATFORM, resource, {"url": url}, by_path([]))
    assert refusal.value.param == "url"


@pytest.mark.parametrize("spelled", ["https://gitlab.com/ada", "gitlab.com/ada/tools/-/issues/x", "../x", "a"])
def test_url_without_an_issue_is_refused(spelled: str) -> None:
    with pytest.raises(InvalidArgument):
        ISSUE_URL.canonical(spelled)


def test_issue_is_read_from_the_host_in_its_url() -> None:
    asked: list[str] = []
    url = "https://git.example.org/a/b/tools/-/issues/7"
    drive(PLATFORM, "issue", {"url": url}, by_path(asked, **{"7": told(TICKET)}))
    assert asked == ["git.example.org/api/v4/projects/a%2Fb%2Ftools/issues/7?"]


def test_relative_image_url_uses_the_requested_host() -> None:
    listed = told([{**TICKET, "author": {**ADA, "avatar_url": "/uploads/a.png"}}])
    found = page("repo/issues", {"url": "git.example.org/a/b"}, by_path([], issues=listed))
    assert found.records[0]["author"]["avatar_url"] == "https://git.example.org/uploads/a.png"


@pytest.mark.parametrize(("header", "following"), [("2", {"p": 2}), ("", None)])
def test_next_page_header_is_empty_on_the_last_page(header: str, following: Any) -> None:
    """System notes are removed from a page, so the page may be short although the list continues."""
    notes = told([SAID, {**SAID, "id": 91, "system": True}], x_next_page=header)
    found = page(*ISSUE, by_path([], notes=notes))
    assert ([one["id"] for one in found.records], found.next) == (["90"], following)


@pytest.mark.parametrize(
    ("number", "limit", "following"),
    [(499, 100, {"p": 500}), (500, 100, None), (1665, 30, {"p": 1666}), (1666, 30, None)],
)
def test_list_ends_at_the_maximum_offset(number: int, limit: int, following: Any) -> None:
    """GitLab still links to the next page, but returns 405 for it."""
    projects = told([TOOLS], x_next_page=str(number + 1))
    found = page("search", {"query": "x", "limit": limit}, by_path([], projects=projects), cursor={"p": number})
    assert found.next == following


@pytest.mark.parametrize(
    ("link", "following", "asks"),
    [("id_before=4711&pagination=keyset", {"c": "4711"}, "id_before=4711"), ("page=2&per_page=20", {"p": 2}, "page=2")],
)
def test_account_projects_use_keyset_or_page_paging(link: str, following: Any, asks: str) -> None:
    asked: list[str] = []
    projects = told([TOOLS], link=f'<https://gitlab.com/api/v4/users/22/projects?{link}>; rel="next"')
    upstream = by_path(asked, users=told([ADA]), projects=projects)
    found = page("profile/repos", {"handle": "ada"}, upstream)
    assert found.next == following
    page("profile/repos", {"handle": "ada"}, upstream, cursor=found.next)
    assert asks in asked[-1]


def profile(answer: Answer) -> dict[str, Any]:
    result = single_of(PLATFORM, "profile", {"handle": "@Ada"}, by_path([], users=told([ADA]), account=answer))
    return result.record


@pytest.mark.parametrize("status", [401, 403, 404])
def test_restricted_account_is_read_from_the_search_result(status: int) -> None:
    words = {401: "401 Unauthorized", 403: "403 Forbidden", 404: "404 User Not Found"}
    kept = profile(told({"message": words[status]}, status))
    assert (kept["username"], kept["bio"]) == ("ada", None)
    assert profile(told(WHOLE))["bio"] == "Reads."


@pytest.mark.parametrize(("status", "refusal"), [(429, UpstreamThrottled), (500, UpstreamFailed)])
def test_failed_account_read_does_not_use_the_search_result(status: int, refusal: type[UpstreamError]) -> None:
    with pytest.raises(refusal):
        profile(told({"message": "no"}, status))


@pytest.mark.parametrize(("status", "message"), [(401, "401 Unauthorized"), (403, "403 Forbidden")])
def test_restricted_item_is_private(status: int, message: str) -> None:
    with pytest.raises(NotFound) as refusal:
        page("repo/issues", {"repo": "ada/tools"}, by_path([], issues=told({"message": message}, status)))
    assert refusal.value.reason == "account_private"


@pytest.mark.parametrize(
    ("body", "kind"), [("Forbidden\n", "text/plain"), ("<html><title>403 Forbidden</title></html>", "text/html")]
)
def test_proxy_403_is_a_failure(body: str, kind: str) -> None:
    with pytest.raises(UpstreamFailed):
        page("repo/issues", {"repo": "ada/tools"}, by_path([], issues=told(body, 403, content_type=kind)))


def test_older_servers_send_topics_as_tags() -> None:
    old = {name: value for name, value in TOOLS.items() if name != "topics"} | {"tag_list": ["old"]}
    found = page("search", {"query": "x"}, by_path([], projects=told([TOOLS, old])))
    assert [one["topics"] for one in found.records] == [["parsers"], ["old"]]
