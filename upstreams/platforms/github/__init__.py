"""GitHub: accounts, repositories, releases, issues and search, from its REST API."""

from __future__ import annotations

from upstreams.model.archetypes import (
    ARTICLE,
    AUTHOR,
    AUTHOR_LIST,
    COMMENT,
    COMMENT_LIST,
    DOSSIER,
    POST,
    POST_LIST,
    RELEASE_LIST,
    REPOSITORY,
    REPOSITORY_LIST,
    VELOCITY,
)
from upstreams.model.calls import Get, listing, listing_by, single
from upstreams.model.endpoint import Endpoint, Fallback, Platform, Read
from upstreams.model.params import Credentials, Param
from upstreams.model.refusals import Refusals, Remaining
from upstreams.model.steps import Many
from upstreams.platforms.github import graphql, raw, reads
from upstreams.platforms.github.composites import dossier, velocity
from upstreams.platforms.github.records import author_of, issue_of, lone_comment_of, repository_of
from upstreams.platforms.github.refusals import judge


def _headers(credentials: Credentials) -> tuple[tuple[str, str], ...]:
    fixed = (("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28"))
    token = credentials.get("token")
    return (*fixed, ("authorization", f"Bearer {token}")) if token else fixed


REPO_SORT = Param("sort", "Sort order (default: best match).", "stars", choices=("stars", "forks", "updated"))
STATE = Param("state", "The state of the issues.", "open", default="open", choices=("open", "closed", "all"))


def _by_graphql(read: Read) -> tuple[Fallback, ...]:
    """Return a fallback to GraphQL. It needs a token, because GraphQL rejects anonymous calls."""
    return (Fallback("graphql", read, needs=("token",)),)


_MANY = 50
"""The maximum number of accounts or issues in a single GraphQL query."""
_OF_PROFILES = (
    "bio",
    "display_name",
    "external_url",
    "followers",
    "following",
    "joined_at",
    "location",
    "posts_count",
)
"""Fields that rows of accounts do not contain."""
_NO_README = ("description", "image_url", "language", "updated_at")
"""The fields of a page that a readme does not have."""
PLATFORM = Platform(
    slug="github",
    hosts=("github.com",),
    title="GitHub",
    sources={
        "api": "https://api.github.com",
        "search": "https://api.github.com",  # searches and GraphQL each have a separate quota
        "graphql": "https://api.github.com",
        "raw": "https://raw.githubusercontent.com",
    },
    docs_url="https://docs.github.com/en/rest",
    credentials=("token",),
    social=True,
    headers=_headers,
    revalidates=("token",),
    refusals=Refusals(other=judge),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset"),
    endpoints=(
        single(
            "profile",
            "The public profile of an account.",
            AUTHOR,
            Get("/users/{login}", login=reads.HANDLE),
            author_of,
            fallbacks=_by_graphql(graphql.profile),
            many=Many("handle", _MANY, graphql.profiles, needs=("token",)),
        ),
        listing(
            "profile/repos",
            "An account's repositories, most recently updated first.",
            REPOSITORY_LIST,
            Get("/users/{login}/repos", login=reads.HANDLE, sort="updated"),
            reads.REPOS,
            collect=500,
            never=("watchers",),
        ),
        single(
            "repo",
            "One repository.",
            REPOSITORY,
            Get("/repos/{+repo}", repo=reads.REPO_URL),
            repository_of,
            fallbacks=_by_graphql(graphql.repo),
        ),
        Endpoint(
            "repo/readme",
            "A repository's readme, as text.",
            ARTICLE,
            reads.readme,
            (reads.REPO_URL,),
            description="A repository's readme, as text. If the API is unavailable, the file is looked up under "
            "its usual names and returned without id and size.",
            never=_NO_README,
            fallbacks=(Fallback("raw", raw.readme),),
        ),
        listing(
            "repo/releases",
            "Releases of a repository, newest first.",
            RELEASE_LIST,
            Get("/repos/{+repo}/releases", repo=reads.REPO_URL),
            reads.RELEASES,
            fallbacks=_by_graphql(graphql.releases),
        ),
        listing(
            "repo/issues",
            "Issues and pull requests in a repository.",
            POST_LIST,
            Get("/repos/{+repo}/issues", repo=reads.REPO_URL, state=STATE),
            reads.ISSUES,
        ),
        listing_by(
            "repo/top-issues",
            "Open issues in a repository, most reactions first.",
            POST_LIST,
            reads.top_issues,
            reads.FOUND_ISSUES,
            params=(reads.REPO_URL,),
        ),
        single(
            "issue",
            "One issue or pull request.",
            POST,
            reads.ISSUE,
            issue_of,
            fallbacks=_by_graphql(graphql.issue),
            many=Many("url", _MANY, graphql.issues, needs=("token",)),
        ),
        listing("issue/comments", "Comments on an issue.", COMMENT_LIST, reads.ISSUE_COMMENTS, reads.COMMENTS),
        single("comment", "One comment on an issue.", COMMENT, reads.ONE_COMMENT, lone_comment_of),
        listing(
            "search",
            "Search for issues and pull requests.",
            POST_LIST,
            reads.SEARCH_ISSUES,
            reads.FOUND_ISSUES,
            newest={"sort": "created"},
        ),
        listing(
            "search/repos",
            "Search for repositories.",
            REPOSITORY_LIST,
            Get("/search/repositories", q=reads.QUERY, sort=REPO_SORT).via("search"),
            reads.FOUND_REPOS,
            never=("watchers",),
        ),
        listing(
            "search/users",
            "Search for accounts.",
            AUTHOR_LIST,
            Get("/search/users", q=reads.QUERY).via("search"),
            reads.FOUND_USERS,
            never=_OF_PROFILES,
        ),
        Endpoint(
            "repo/dossier",
            "A repository with its readme, releases and open issues.",
            DOSSIER,
            dossier,
            (reads.REPO_URL,),
            "advanced",
            never=tuple(f"article.{field}" for field in _NO_README),
        ),
        Endpoint(
            "user/profile-velocity",
            "An account and its recent activity.",
            VELOCITY,
            velocity,
            (reads.HANDLE,),
            "advanced",
            never=tuple(f"author.{field}" for field in author_of.unfilled),
        ),
    ),
)
