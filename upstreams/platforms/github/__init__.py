"""GitHub: accounts, repositories, releases, issues and search, from its REST API."""

from __future__ import annotations

from upstreams.model.archetypes import (
    ARTICLE,
    AUTHOR,
    AUTHOR_LIST,
    COMMENT_LIST,
    DOSSIER,
    POST,
    POST_LIST,
    RELEASE_LIST,
    REPOSITORY,
    REPOSITORY_LIST,
    VELOCITY,
)
from upstreams.model.endpoint import Collect, Endpoint, Fallback, Platform, Read
from upstreams.model.params import Credentials, Param, collected, limit
from upstreams.platforms.github import graphql, raw
from upstreams.platforms.github.composites import dossier, velocity
from upstreams.platforms.github.reads import (
    comments,
    issue,
    issues,
    profile,
    readme,
    releases,
    repo,
    repos,
    repos_by,
    search,
    top_issues,
    users_by,
)
from upstreams.platforms.github.refusals import backoff, judge


def _headers(credentials: Credentials) -> tuple[tuple[str, str], ...]:
    fixed = (("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28"))
    token = credentials.get("token")
    return (*fixed, ("authorization", f"Bearer {token}")) if token else fixed


HANDLE = Param("handle", "The account's login.", "octocat", required=True, length_max=64)
REPO_URL = Param(
    "url", "The repository's address, or owner/name.", "https://github.com/python-trio/trio", type="url", required=True
)
ISSUE_URL = Param(
    "url", "The issue's address.", "https://github.com/python-trio/trio/issues/1", type="url", required=True
)
QUERY = Param("query", "What to search for; GitHub's qualifiers work.", "structured concurrency", required=True)
ISSUE_SORT = Param(
    "sort", "Order; best match when absent.", "created", choices=("created", "updated", "comments", "reactions")
)
REPO_SORT = Param("sort", "Order; best match when absent.", "stars", choices=("stars", "forks", "updated"))
STATE = Param("state", "Which issues.", "open", default="open", choices=("open", "closed", "all"))
LIMIT = limit(100)


def _by_graphql(read: Read) -> tuple[Fallback, ...]:
    """GraphQL answers nobody without a token."""
    return (Fallback("graphql", read, needs=("token",)),)


PLATFORM = Platform(
    slug="github",
    title="GitHub",
    sources={
        "api": "https://api.github.com",
        "search": "https://api.github.com",  # searches have a quota of their own, and so has GraphQL
        "graphql": "https://api.github.com",
        "raw": "https://raw.githubusercontent.com",
    },
    docs_url="https://docs.github.com/en/rest",
    credentials=("token",),
    social=True,
    headers=_headers,
    judge=judge,
    backoff=backoff,
    endpoints=(
        Endpoint(
            "profile",
            "One account's public profile.",
            AUTHOR,
            profile,
            (HANDLE,),
            cache_ttl_s=900,
            fallbacks=_by_graphql(graphql.profile),
        ),
        Endpoint(
            "profile/repos",
            "An account's repositories, last updated first.",
            REPOSITORY_LIST,
            repos,
            (HANDLE, collected(500, default=30)),
            collect=Collect(per_page=100),
        ),
        Endpoint("repo", "One repository.", REPOSITORY, repo, (REPO_URL,), fallbacks=_by_graphql(graphql.repo)),
        Endpoint(
            "repo/readme",
            "A repository's readme as text.",
            ARTICLE,
            readme,
            (REPO_URL,),
            description="A repository's readme as text. While the API is away the file is read under its usual names, "
            "without its id and size.",
            fallbacks=(Fallback("raw", raw.readme),),
        ),
        Endpoint(
            "repo/releases",
            "A repository's releases, newest first.",
            RELEASE_LIST,
            releases,
            (REPO_URL, LIMIT),
            fallbacks=_by_graphql(graphql.releases),
        ),
        Endpoint(
            "repo/issues", "A repository's issues and pull requests.", POST_LIST, issues, (REPO_URL, STATE, LIMIT)
        ),
        Endpoint(
            "repo/top-issues", "The open issues with the most reactions.", POST_LIST, top_issues, (REPO_URL, LIMIT)
        ),
        Endpoint(
            "issue", "One issue or pull request.", POST, issue, (ISSUE_URL,), fallbacks=_by_graphql(graphql.issue)
        ),
        Endpoint("issue/comments", "An issue's comments.", COMMENT_LIST, comments, (ISSUE_URL, LIMIT), cache_ttl_s=300),
        Endpoint("search", "Issues by query.", POST_LIST, search, (QUERY, ISSUE_SORT, LIMIT), cache_ttl_s=120),
        Endpoint(
            "search/repos", "Repositories.", REPOSITORY_LIST, repos_by, (QUERY, REPO_SORT, LIMIT), cache_ttl_s=120
        ),
        Endpoint("search/users", "Accounts by query.", AUTHOR_LIST, users_by, (QUERY, LIMIT), cache_ttl_s=120),
        Endpoint("repo/dossier", "A repository and what surrounds it.", DOSSIER, dossier, (REPO_URL,), "advanced"),
        Endpoint("user/profile-velocity", "An account and its pace.", VELOCITY, velocity, (HANDLE,), "advanced"),
    ),
)
