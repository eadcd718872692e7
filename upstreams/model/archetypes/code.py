"""Repositories and their releases."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url


def owner(
    *,
    username: Annotated[str | None, "Username of the account."],
    avatar_url: Annotated[Url, "URL of the avatar."] = None,
    type: Annotated[str | None, "The type of the account: User or Organization."] = None,  # noqa: A002 - the field's own name
) -> Record:
    """The owner of a repository."""
    return locals()


def repository(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The repository's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the repository."],
    full_name: Annotated[str | None, "Owner and name, as `owner/name`."],
    name: Annotated[str | None, "Name of the repository."],
    owner: Annotated[Record | None, Of(owner), "The account that owns the repository."],
    description: Annotated[str | None, "A short description."] = None,
    homepage: Annotated[str | None, "The project's website."] = None,
    language: Annotated[str | None, "The main programming language."] = None,
    topics: Annotated[list[str] | None, "Topics of the repository."] = None,
    license: Annotated[str | None, "SPDX identifier of the license."] = None,  # noqa: A002 - the field's own name
    stars: Annotated[int | None, "Number of stars."] = None,
    forks: Annotated[int | None, "Number of forks."] = None,
    watchers: Annotated[int | None, "Accounts that are notified of all activity."] = None,
    open_issues: Annotated[
        int | None, "Number of open issues, including open pull requests if the platform counts them together."
    ] = None,
    size_kb: Annotated[int | None, "Size in kilobytes."] = None,
    default_branch: Annotated[str | None, "The default branch."] = None,
    archived: Annotated[bool | None, "Whether the repository is read-only."] = None,
    fork: Annotated[bool | None, "Whether the repository is a fork."] = None,
    created_at: Annotated[Instant, "Time of creation."] = None,
    updated_at: Annotated[Instant, "Time of the last change to the repository's metadata."] = None,
    pushed_at: Annotated[Instant, "The time of the last push."] = None,
) -> Record:
    """A code repository."""
    return locals()


def release(
    *,
    id: Annotated[str | None, "The release's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the release."],
    tag: Annotated[str | None, "The Git tag of the release."],
    name: Annotated[str | None, "Title of the release."],
    text: Annotated[str | None, "The release notes."],
    prerelease: Annotated[bool | None, "Whether the release is marked as not ready for production."] = None,
    author: Annotated[str | None, "Username of the author."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A release of a repository; `author` is a username."""
    ext = ext or {}
    return locals()


REPOSITORY = Archetype("Repository", "repository", repository, lookup_rank=40, roles=(Contract("repository"),))
REPOSITORY_LIST = Archetype(
    "RepositoryList",
    "repository",
    repository,
    many=True,
    row_kind="item",
    roles=(
        Contract("repositories", "profile/repos", of="profile"),
        Contract("repository_search", "search/repos", takes=("query",)),
    ),
)
RELEASE_LIST = Archetype("ReleaseList", "release", release, many=True)
ARCHETYPES = (REPOSITORY, REPOSITORY_LIST, RELEASE_LIST)
