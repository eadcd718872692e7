"""GitHub's stand-in: composites with and without optional legs, walks to the last page, and failures on request."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.platforms.case import NOW_AT, drive, from_sandbox
from tests.platforms.drive import Upstream, always, single_of, told
from tests.platforms.github.asking import REPO, page, single
from upstreams.model.errors import NotFound, UpstreamFailed
from upstreams.model.steps import Answer, Call
from upstreams.platforms.github import PLATFORM


def partly(*working: str) -> Upstream:
    """Return the stand-in, on which only calls succeed whose path ends like one of `working`."""
    sandbox = from_sandbox()

    def upstream(host_and_path: str, call: Call) -> Answer:
        return sandbox(host_and_path, call) if host_and_path.endswith(working) else told("", 502)

    return upstream


def test_dossier_lists_its_legs_and_tolerates_missing_optional_ones() -> None:
    whole = single_of(PLATFORM, "repo/dossier", {"url": REPO}, from_sandbox())
    assert [leg.endpoint for leg in whole.legs] == [
        "github/repo",
        "github/repo/readme",
        "github/repo/releases",
        "github/repo/top-issues",
    ]
    assert (len(whole.record["releases"]), len(whole.record["top_issues"])) == (5, 10)
    half = single_of(PLATFORM, "repo/dossier", {"url": REPO}, partly("/example/project", "/readme"))
    assert half.record["article"] == whole.record["article"]
    assert (half.record["releases"], half.record["top_issues"]) == (None, None)
    assert [bool(leg.answer) for leg in half.legs] == [True, True, False, False]


def test_dossier_without_its_repository_is_refused() -> None:
    with pytest.raises(UpstreamFailed):
        drive(PLATFORM, "repo/dossier", {"url": REPO}, partly("/readme"))


def test_velocity_counts_recent_activity() -> None:
    repos = [
        {"pushed_at": "2024-12-20T00:00:00Z", "created_at": "2024-06-01T00:00:00Z", "stargazers_count": 5},
        {"pushed_at": "2024-03-01T00:00:00Z", "created_at": "2020-01-01T00:00:00Z", "stargazers_count": 2},
        {"pushed_at": "2021-01-01T00:00:00Z", "created_at": "2024-12-01T00:00:00Z", "fork": True},
    ]

    def upstream(host_and_path: str, _call: Call) -> Answer:
        return told(repos if host_and_path.endswith("/repos") else {"id": 1, "login": "octocat"})

    assert single("user/profile-velocity", {"handle": "octocat"}, upstream)["velocity"] == {
        "repos_seen": 3,
        "repos_pushed_30d": 1,
        "repos_pushed_365d": 2,
        "own_repos_created_365d": 1,
        "own_repos_stars": 7,
        "last_pushed_at": "2024-12-20T00:00:00Z",
    }
    alone = single_of(PLATFORM, "user/profile-velocity", {"handle": "octocat"}, partly("/octocat"), now_at=NOW_AT)
    assert alone.record["velocity"] is None


def test_velocity_without_repositories_keeps_the_profile() -> None:
    def upstream(host_and_path: str, _call: Call) -> Answer:
        return told({"message": "odd"} if host_and_path.endswith("/repos") else {"id": 1, "login": "octocat"})

    found = single_of(PLATFORM, "user/profile-velocity", {"handle": "octocat"}, upstream)
    assert (found.record["author"]["id"], found.record["velocity"]) == ("1", None)
    assert [bool(leg.answer) for leg in found.legs] == [True, False]


def test_velocity_of_unknown_activity_is_null() -> None:
    def upstream(host_and_path: str, _call: Call) -> Answer:
        return told([{"id": 5}, {"id": 6}] if host_and_path.endswith("/repos") else {"id": 1})

    assert single("user/profile-velocity", {"handle": "octocat"}, upstream)["velocity"] == {
        "repos_seen": 2,
        "repos_pushed_30d": None,
        "repos_pushed_365d": None,
        "own_repos_created_365d": None,
        "own_repos_stars": None,
        "last_pushed_at": None,
    }


@pytest.mark.parametrize(
    ("resource", "params"), [("repo/dossier", {"url": REPO}), ("user/profile-velocity", {"handle": "octocat"})]
)
def test_composite_of_a_missing_subject_is_not_found(resource: str, params: Mapping[str, str | int]) -> None:
    with pytest.raises(NotFound):
        drive(PLATFORM, resource, params, always({}))


# The stand-in


def test_sandbox_issue_is_the_same_in_every_call() -> None:
    for post in page("repo/issues", {"url": REPO, "state": "closed"}, from_sandbox()).records:
        assert post == single("issue", {"url": post["url"]}, from_sandbox())
        assert post["ext"]["state"] == "closed"
