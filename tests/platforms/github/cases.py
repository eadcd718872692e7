"""GitHub's recordings that belong to an endpoint, and the records that the field tables expect from them.

These recordings belong to none: `org_members__*`, `repo_stargazers__*`, `user_followers__*`, `user_starred__*`
(accounts and repositories that an account lists), `releases_latest.json`, `repo_commits__*`, `repo_pulls__*`,
`repo_tags__*` and `rate_limit.json`.
"""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from typing import Any

from tests.platforms.case import Case
from tests.platforms.table import at, below, ident, table
from tests.platforms.table import each as each_of
from upstreams.model import archetypes as make
from upstreams.model.errors import NotFound, UpstreamFailed, UpstreamThrottled

Record = dict[str, Any]

BYLINE: dict[str, Any] = {
    "id": ident("id"),
    "username": "login",
    "avatar_url": "avatar_url",
    "url": "html_url",
}
byline = table(make.byline, **BYLINE)
author = table(
    make.author,
    **BYLINE,
    display_name="name",
    bio="bio",
    followers="followers",
    following="following",
    posts_count="public_repos",
    joined_at="created_at",
    location="location",
    external_url="blog",
    ext={name: name for name in ("company", "twitter_username", "type", "public_gists")},
)
_OWNER = {"username": "login", "avatar_url": "avatar_url", "type": "type"}
_SAME = ("full_name", "name", "description", "homepage", "language", "topics", "default_branch", "archived", "fork")
_REPOSITORY = {
    **{name: name for name in (*_SAME, "created_at", "updated_at", "pushed_at")},
    "url": "html_url",
    "license": "license.spdx_id",
    "stars": "stargazers_count",
    "forks": "forks_count",
    "watchers": "subscribers_count",
    "open_issues": "open_issues_count",
    "size_kb": "size",
}


def repository(repo: Any) -> Record:
    owner = {field: at(repo["owner"], path) for field, path in _OWNER.items()}
    return {"id": str(repo["id"]), **{field: at(repo, path) for field, path in _REPOSITORY.items()}, "owner": owner}


issue = table(
    make.post,
    id=ident("number"),
    url="html_url",
    text=lambda entry: "\n\n".join(filter(None, (entry["title"], entry["body"]))),
    author=below("user", byline),
    likes="reactions.total_count",
    comments="comments",
    published_at="created_at",
    ext={
        "node": ident("id"),
        **{name: name for name in ("state", "state_reason", "closed_at")},
        "labels": each_of("labels", "name"),
        "is_pr": lambda entry: at(entry, "pull_request.html_url") is not None,
    },
)
_COMMENT = table(
    make.comment,
    id=ident("id"),
    url="html_url",
    text="body",
    author=below("user", byline),
    likes="reactions.total_count",
    published_at="created_at",
)
release = table(
    make.release,
    id=ident("id"),
    url="html_url",
    tag="tag_name",
    name="name",
    text="body",
    prerelease="prerelease",
    author="author.login",
    published_at="published_at",
    ext={"downloads": lambda entry: sum(asset["download_count"] for asset in entry["assets"])},
)
readme = table(
    make.article,
    id="sha",
    url="html_url",
    title="name",
    text=lambda file: b64decode(file["content"]).decode(),
    ext={"path": "path", "size_bytes": "size"},
)


def comment(entry: Any, post_id: str) -> Record:
    return {**_COMMENT(entry), "post_id": post_id}


def each(record: Any, body: Any) -> list[Record]:
    return [record(entry) for entry in body]


def found(record: Any, body: Any) -> list[Record]:
    return each(record, body["items"])


def profile(login: str, file: str, name: str) -> Case:
    return Case(name, "profile", {"handle": login}, {f"api.github.com/users/{login}": file}, author)


def repo(full_name: str, file: str, name: str) -> Case:
    url = f"https://github.com/{full_name}"
    return Case(name, "repo", {"url": url}, {f"api.github.com/repos/{full_name}": file}, repository)


def issues(file: str, name: str, *, has_more: bool) -> Case:
    return Case(
        name,
        "repo/issues",
        {"url": "https://github.com/openframeworks/openFrameworks"},
        {"api.github.com/repos/openframeworks/openFrameworks/issues": file},
        partial(each, issue),
        has_more,
    )


def releases(file: str, name: str) -> Case:
    return Case(
        name,
        "repo/releases",
        {"url": "https://github.com/PyGithub/PyGithub", "limit": 10},
        {"api.github.com/repos/PyGithub/PyGithub/releases": file},
        partial(each, release),
        has_more=True,
    )


def search(what: str, query: str, file: str, name: str, *, has_more: bool, total: int) -> Case:
    resource, path, record = {
        "issues": ("search", "issues", issue),
        "repos": ("search/repos", "repositories", repository),
        "users": ("search/users", "users", author),
    }[what]
    answers = {f"api.github.com/search/{path}": file}
    return Case(name, resource, {"query": query}, answers, partial(found, record), has_more, total)


PROFILES = (
    profile("jacquev6", "user__jacquev6.json", "an account"),
    profile("ianozsvald", "user__ianozsvald.json", "an account with a biography and a place"),
    profile("nvie", "user__nvie_sparse_2012.json", "an account in the few fields of 2012"),
    profile("octocat", "user_by_id__583231.json", "an account as the call by number gives it"),
    profile("BeaverSoftware", "org__BeaverSoftware.json", "an organization"),
    profile("PyGithubTestOrg", "org__PyGithubTestOrg.json", "an organization without public data"),
)
REPOS = (
    repo("octokit-fixture-org/hello-world", "octokit_get_repository.json", "a repository"),
    repo("JLLeitschuh/security-research", "repo__JLLeitschuh_security_research.json", "a repository of an account"),
    repo("danvk/comparea", "repo__danvk_comparea.json", "a repository of 2015"),
    repo("jacquev6/PyGithub", "repo__fork_jacquev6.json", "a fork"),
    repo("nvie/gitflow", "repo__nvie_gitflow_2012.json", "a repository in the few fields of 2012"),
    repo(
        "transmission-web-control/transmission-web-control",
        "repo__transmission_web_control.json",
        "a repository with topics",
    ),
)
LISTS = (
    Case(
        "an account's repositories",
        "profile/repos",
        {"handle": "jacquev6"},
        {"api.github.com/users/jacquev6/repos": "user_repos__jacquev6.json"},
        partial(each, repository),
        has_more=False,
    ),
    Case(
        "an organization's repositories",
        "profile/repos",
        {"handle": "BeaverSoftware"},
        {"api.github.com/users/BeaverSoftware/repos": "org_repos__BeaverSoftware.json"},
        partial(each, repository),
        has_more=False,
    ),
    Case(
        "a readme",
        "repo/readme",
        {"url": "https://github.com/PyGithub/PyGithub"},
        {"api.github.com/repos/PyGithub/PyGithub/readme": "repo_readme__PyGithub.json"},
        readme,
    ),
    releases(
        "repo_releases__PyGithub_p1.json", "the first page of releases, whose next link names the repository's id"
    ),
    releases("repo_releases__PyGithub_p2.json", "the second page of releases"),
    issues("repo_issues__openFrameworks_p1.json", "the first page of issues", has_more=True),
    issues("repo_issues__openFrameworks_p14_last.json", "the last page of issues", has_more=False),
    Case(
        "an issue's comments",
        "issue/comments",
        {"url": "https://github.com/PyGithub/PyGithub/issues/28"},
        {"api.github.com/repos/PyGithub/PyGithub/issues/28/comments": "issue_comments__PyGithub_28.json"},
        lambda body: [comment(entry, "28") for entry in body],
        has_more=False,
    ),
)
_SAID = {
    "id": 5453167,
    "html_url": "https://github.com/PyGithub/PyGithub/issues/28#issuecomment-5453167",
    "body": "Thank you.",
    "created_at": "2012-05-01T22:03:59Z",
    "user": {"id": 7, "login": "ada", "avatar_url": "https://x.example/7", "html_url": "https://github.com/ada"},
    "reactions": {"total_count": 3},
}
COMMENTS = (
    Case(
        "a comment by its address",
        "comment",
        {"url": "https://github.com/PyGithub/PyGithub/issues/28#issuecomment-5453167"},
        {"api.github.com/repos/PyGithub/PyGithub/issues/comments/5453167": _SAID},
        lambda body: comment(body, "28"),
    ),
)
SEARCHES = (
    search("issues", "sesame", "octokit_search_issues.json", "issues by a word", has_more=False, total=2),
    search("issues", "is:issue", "search_issues__saltstack.json", "issues of 2014", has_more=False, total=6),
    search("repos", "doesnotexist", "search_repos__empty.json", "a search without results", has_more=False, total=0),
    search("repos", "github", "search_repos__github_python_p1.json", "repositories", has_more=True, total=2723),
    search("users", "location:Berlin", "search_users__berlin_p1.json", "accounts", has_more=True, total=6038),
    search("users", "location:Berlin", "search_users__berlin_p2.json", "accounts, page 2", has_more=True, total=6038),
)
REFUSALS = (
    Case(
        "an account that does not exist",
        "profile",
        {"handle": "ThisUserShouldReallyNotExist"},
        {"api.github.com/users/ThisUserShouldReallyNotExist": "error_404_user.json"},
        refused=NotFound,
    ),
    Case(
        "a used-up quota, which GitHub tells with 403",
        "profile",
        {"handle": "jacquev6"},
        {"api.github.com/users/jacquev6": "error_403_rate_limit_anonymous.json"},
        refused=UpstreamThrottled,
    ),
    Case(
        "a token that GitHub does not know",
        "profile",
        {"handle": "jacquev6"},
        {"api.github.com/users/jacquev6": "error_401_bad_credentials.json"},
        refused=UpstreamFailed,
    ),
    Case(
        "a failure of GitHub's",
        "repo",
        {"url": "PyGithub/PyGithub"},
        {"api.github.com/repos/PyGithub/PyGithub": "error_502.json"},
        refused=UpstreamFailed,
    ),
    Case(
        "a failure told in HTML",
        "profile",
        {"handle": "jacquev6"},
        {"api.github.com/users/jacquev6": "error_503_non_json.json"},
        refused=UpstreamFailed,
    ),
)
REDIRECTS = (
    Case(
        "a renamed repository, at the address that GitHub names",
        "repo",
        {"url": "https://github.com/protoncoin/protoncoin"},
        {
            "api.github.com/repos/protoncoin/protoncoin": "redirect_301_repo_renamed.json",
            "api.github.com/repositories/112116543": "octokit_get_repository.json",
        },
        lambda _moved, body: repository(body),
    ),
    Case(
        "a moved repository",
        "repo",
        {"url": "https://github.com/ReDASers/Phishing-Detection"},
        {
            "api.github.com/repos/ReDASers/Phishing-Detection": "redirect_301_repo.json",
            "api.github.com/repositories/146139403": "repo__danvk_comparea.json",
        },
        lambda _moved, body: repository(body),
    ),
)
CASES = (*PROFILES, *REPOS, *LISTS, *COMMENTS, *SEARCHES, *REFUSALS, *REDIRECTS)
