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
    return (Fallback(source="graphql", read=read, needs=("token",)),)


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
    title="GitHub",
    category="code",
    docs_url="https://docs.github.com/en/rest",
    terms_url="https://docs.github.com/en/site-policy/github-terms/github-terms-of-service",
    checked_on="2026-11-21",
    hosts=("github.com",),
    sources={
        "api": "https://api.github.com",
        "search": "https://api.github.com",  # searches and GraphQL each have a separate quota
        "graphql": "https://api.github.com",
        "raw": "https://raw.githubusercontent.com",
    },
    credentials=("token",),
    social=True,
    headers=_headers,
    revalidates=("token",),
    refusals=Refusals(other=judge),
    rest=Remaining("x-ratelimit-remaining", "x-ratelimit-reset"),
    endpoints=(
        single(
            resource="profile",
            summary="The public profile of an account.",
            archetype=AUTHOR,
            call=Get("/users/{login}", login=reads.HANDLE),
            record=author_of,
            fallbacks=_by_graphql(graphql.profile),
            many=Many("handle", _MANY, graphql.profiles, needs=("token",)),
        ),
        listing(
            resource="profile/repos",
            summary="An account's repositories, most recently updated first.",
            archetype=REPOSITORY_LIST,
            call=Get("/users/{login}/repos", login=reads.HANDLE, sort="updated"),
            pages=reads.REPOS,
            collect=500,
            never=("watchers",),
        ),
        single(
            resource="repo",
            summary="One repository.",
            archetype=REPOSITORY,
            call=Get("/repos/{+repo}", repo=reads.REPO_URL),
            record=repository_of,
            fallbacks=_by_graphql(graphql.repo),
        ),
        Endpoint(
            resource="repo/readme",
            summary="A repository's readme, as text.",
            archetype=ARTICLE,
            read=reads.readme,
            params=(reads.REPO_URL,),
            description="A repository's readme, as text. If the API is unavailable, the file is looked up under "
            "its usual names and returned without id and size.",
            never=_NO_README,
            fallbacks=(Fallback(source="raw", read=raw.readme),),
        ),
        listing(
            resource="repo/releases",
            summary="Releases of a repository, newest first.",
            archetype=RELEASE_LIST,
            call=Get("/repos/{+repo}/releases", repo=reads.REPO_URL),
            pages=reads.RELEASES,
            fallbacks=_by_graphql(graphql.releases),
        ),
        listing(
            resource="repo/issues",
            summary="Issues and pull requests in a repository.",
            archetype=POST_LIST,
            call=Get("/repos/{+repo}/issues", repo=reads.REPO_URL, state=STATE),
            pages=reads.ISSUES,
        ),
        listing_by(
            resource="repo/top-issues",
            summary="Open issues in a repository, most reactions first.",
            archetype=POST_LIST,
            read=reads.top_issues,
            pages=reads.FOUND_ISSUES,
            params=(reads.REPO_URL,),
        ),
        single(
            resource="issue",
            summary="One issue or pull request.",
            archetype=POST,
            call=reads.ISSUE,
            record=issue_of,
            fallbacks=_by_graphql(graphql.issue),
            many=Many("url", _MANY, graphql.issues, needs=("token",)),
        ),
        listing(
            resource="issue/comments",
            summary="Comments on an issue.",
            archetype=COMMENT_LIST,
            call=reads.ISSUE_COMMENTS,
            pages=reads.COMMENTS,
        ),
        single(
            resource="comment",
            summary="One comment on an issue.",
            archetype=COMMENT,
            call=reads.ONE_COMMENT,
            record=lone_comment_of,
        ),
        listing(
            resource="search",
            summary="Search for issues and pull requests.",
            archetype=POST_LIST,
            call=reads.SEARCH_ISSUES,
            pages=reads.FOUND_ISSUES,
            newest={"sort": "created"},
        ),
        listing(
            resource="search/repos",
            summary="Search for repositories.",
            archetype=REPOSITORY_LIST,
            call=Get("/search/repositories", q=reads.QUERY, sort=REPO_SORT).via("search"),
            pages=reads.FOUND_REPOS,
            never=("watchers",),
        ),
        listing(
            resource="search/users",
            summary="Search for accounts.",
            archetype=AUTHOR_LIST,
            call=Get("/search/users", q=reads.QUERY).via("search"),
            pages=reads.FOUND_USERS,
            never=_OF_PROFILES,
        ),
        Endpoint(
            resource="repo/dossier",
            summary="A repository with its readme, releases and open issues.",
            archetype=DOSSIER,
            read=dossier,
            params=(reads.REPO_URL,),
            tier="advanced",
            never=tuple(f"article.{field}" for field in _NO_README),
        ),
        Endpoint(
            resource="user/profile-velocity",
            summary="An account and its recent activity.",
            archetype=VELOCITY,
            read=velocity,
            params=(reads.HANDLE,),
            tier="advanced",
            never=tuple(f"author.{field}" for field in author_of.unfilled),
        ),
    ),
)
