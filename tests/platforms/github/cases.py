"""GitHub's recordings that belong to an endpoint, and the records that the field tables expect from them.

These recordings belong to none: `org_members__*`, `repo_stargazers__*`, `user_followers__*`, `user_starred__*`
(accounts and repositories that an account lists), `releases_latest.json`, `repo_commits__*`, `repo_pulls__*`,
`repo_tags__*` and `rate_limit.json`.
"""

from __future__ import annotations

from base64 import b64decode
from functools import partial, reduce
from typing import Any

from tests.platforms.case import Case
from upstreams.model.errors import NotFound, UpstreamFailed, UpstreamThrottled

Record = dict[str, Any]

AUTHOR = {
    "username": "login",
    "display_name": "name",
    "avatar_url": "avatar_url",
    "bio": "bio",
    "followers": "followers",
    "following": "following",
    "posts_count": "public_repos",
    "url": "html_url",
    "joined_at": "created_at",
    "location": "location",
    "external_url": "blog",
}
AUTHOR_EXT = {
    "company": "company",
    "twitter_username": "twitter_username",
    "type": "type",
    "public_gists": "public_gists",
}
REPOSITORY = {
    "url": "html_url",
    "full_name": "full_name",
    "name": "name",
    "description": "description",
    "homepage": "homepage",
    "language": "language",
    "topics": "topics",
    "license": "license.spdx_id",
    "stars": "stargazers_count",
    "forks": "forks_count",
    "watchers": "subscribers_count",
    "open_issues": "open_issues_count",
    "size_kb": "size",
    "default_branch": "default_branch",
    "archived": "archived",
    "fork": "fork",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "pushed_at": "pushed_at",
}
OWNER = {"username": "login", "avatar_url": "avatar_url", "type": "type"}
BYLINE = {"username": "login", "avatar_url": "avatar_url", "url": "html_url"}
RELEASE = {
    "url": "html_url",
    "tag": "tag_name",
    "name": "name",
    "text": "body",
    "prerelease": "prerelease",
    "author": "author.login",
    "published_at": "published_at",
}


def at(body: Any, path: str) -> Any:
    """Return the value at a dotted path, or None if the path does not exist or leads to an empty text."""
    found = reduce(lambda inner, name: inner.get(name) if isinstance(inner, dict) else None, path.split("."), body)
    return None if found == "" else found


def by(table: dict[str, str], body: Any) -> Record:
    """Return the record that the field table defines."""
    return {field: at(body, path) for field, path in table.items()}


def author(user: Any) -> Record:
    unsent = dict.fromkeys(("verified", "likes_count", "private"))
    return {"id": str(user["id"]), **unsent, **by(AUTHOR, user), "ext": by(AUTHOR_EXT, user)}


def repository(repo: Any) -> Record:
    return {"id": str(repo["id"]), **by(REPOSITORY, repo), "owner": by(OWNER, repo["owner"])}


def byline(user: Any) -> Record | None:
    if user is None:
        return None
    return {"id": str(user["id"]), "display_name": None, "verified": None, **by(BYLINE, user)}


def issue(entry: Any) -> Record:
    return {
        "id": str(entry["number"]),
        "url": entry["html_url"],
        "content": {
            "text": entry["title"] + (f"\n\n{entry['body']}" if entry["body"] else ""),
            "media_urls": [],
            "thumbnail_url": None,
            "duration_seconds": None,
        },
        "author": byline(entry["user"]),
        "engagement": {
            "views": None,
            "likes": at(entry, "reactions.total_count"),
            "comments": entry["comments"],
            "shares": None,
            "saves": None,
        },
        "flags": dict.fromkeys(("pinned", "deleted", "nsfw", "spoiler")),
        "published_at": entry["created_at"],
        "ext": {
            "node": str(entry["id"]),
            "state": entry["state"],
            "state_reason": entry.get("state_reason"),
            "labels": [label["name"] for label in entry["labels"]],
            "closed_at": entry["closed_at"],
            "is_pr": at(entry, "pull_request.html_url") is not None,
        },
    }


def comment(entry: Any, post_id: str) -> Record:
    return {
        "id": str(entry["id"]),
        "url": entry.get("html_url"),
        "parent_id": None,
        "post_id": post_id,
        "text": entry["body"],
        "author": byline(entry["user"]),
        "engagement": {"likes": at(entry, "reactions.total_count"), "replies": None},
        "flags": {"pinned": None, "deleted": None},
        "published_at": entry["created_at"],
        "replies": [],
    }


def release(entry: Any) -> Record:
    downloads = sum(asset["download_count"] for asset in entry["assets"])
    return {"id": str(entry["id"]), **by(RELEASE, entry), "ext": {"downloads": downloads}}


def readme(file: Any) -> Record:
    return {
        "id": file["sha"],
        "url": file["html_url"],
        "title": file["name"],
        "text": b64decode(file["content"]).decode(),
        "description": None,
        "image_url": None,
        "language": None,
        "updated_at": None,
        "ext": {"path": file["path"], "size_bytes": file["size"]},
    }


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
