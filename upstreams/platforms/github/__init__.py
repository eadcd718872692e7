"""GitHub: accounts, repositories, releases, issues and search, from its REST API."""

from __future__ import annotations

from upstreams.archetypes import (
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
from upstreams.endpoint import (
    Answer,
    Collect,
    Credentials,
    Endpoint,
    Fallback,
    Param,
    Platform,
    Read,
    by_status,
    collected,
    limit,
)
from upstreams.errors import InvalidArgument, NotFound, UpstreamError, UpstreamThrottled
from upstreams.fields import Json, parts, text
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


def _headers(credentials: Credentials) -> tuple[tuple[str, str], ...]:
    fixed = (("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28"))
    token = credentials.get("token")
    return (*fixed, ("authorization", f"Bearer {token}")) if token else fixed


def _judge(answer: Answer) -> UpstreamError | None:
    """GitHub says with 403 also that it throttles or that a repository is blocked, with 422 what it cannot search."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status in (403, 429) and _throttles(answer, body):
        wait = answer.headers.get("retry-after", "")
        return UpstreamThrottled(answer.source, float(wait) if wait.isdecimal() else None)
    if answer.status == 403 and "block" in body:
        return NotFound("GitHub has blocked access to this repository.")
    if answer.status == 422:
        return _unsearchable(body)
    return by_status(answer)


def _throttles(answer: Answer, body: Json) -> bool:
    message = (text(body, "message") or "").lower()
    told = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    return told or "rate limit" in message or "abuse detection" in message


def _unsearchable(body: Json) -> UpstreamError | None:
    """A search is refused for its wording, or because the repository or account that it names does not exist."""
    problem = next((error for error in parts(body, "errors") if error.get("resource") == "Search"), None)
    if problem is None:
        return None
    message = text(problem, "message") or "the query is not valid"
    if "do not exist" in message:
        return NotFound(message)
    return InvalidArgument("query", f"GitHub cannot search for it: {message}")


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
    social=True,
    headers=_headers,
    judge=_judge,
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
