"""Repositories and their releases."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url


def owner(
    *,
    username: Annotated[str | None, "The account's name."],
    avatar_url: Annotated[Url, "The address of its picture."] = None,
    type: Annotated[str | None, "What kind of account it is: User or Organization."] = None,  # noqa: A002 - the field's own name
) -> Record:
    """The owner of a repository."""
    return locals()


def repository(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: Annotated[str | None, "The platform's own id of the repository."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page."],
    full_name: Annotated[str | None, "Owner and name with a slash between."],
    name: Annotated[str | None, "Its name."],
    owner: Annotated[Record | None, Of(owner), "The account that it belongs to."],
    description: Annotated[str | None, "One line about it."] = None,
    homepage: Annotated[str | None, "The website that it names."] = None,
    language: Annotated[str | None, "The programming language of most of it."] = None,
    topics: Annotated[list[str] | None, "The topics that it is filed under."] = None,
    license: Annotated[str | None, "Its licence, as SPDX names it."] = None,  # noqa: A002 - the field's own name
    stars: Annotated[int | None, "Accounts that starred it."] = None,
    forks: Annotated[int | None, "Copies of it."] = None,
    watchers: Annotated[int | None, "Accounts that are told of everything in it."] = None,
    open_issues: Annotated[
        int | None, "Open issues, with open pull requests where the platform counts those too."
    ] = None,
    size_kb: Annotated[int | None, "Its size in kilobytes."] = None,
    default_branch: Annotated[str | None, "The branch that is shown first."] = None,
    archived: Annotated[bool | None, "Whether it is read only."] = None,
    fork: Annotated[bool | None, "Whether it is a copy of another one."] = None,
    created_at: Annotated[Instant, "The time since when it exists."] = None,
    updated_at: Annotated[Instant, "The time of the last change of its description."] = None,
    pushed_at: Annotated[Instant, "The time of the last push."] = None,
) -> Record:
    """One code repository."""
    return locals()


def release(
    *,
    id: Annotated[str | None, "The platform's own id of the release."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "Its page."],
    tag: Annotated[str | None, "The tag that it was made from."],
    name: Annotated[str | None, "Its title."],
    text: Annotated[str | None, "Its notes."],
    prerelease: Annotated[bool | None, "Whether it is marked as not ready for production."] = None,
    author: Annotated[str | None, "The name of the account that made it."] = None,
    published_at: Annotated[Instant, "The time of its publication."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One release of a repository; `author` is a username."""
    ext = ext or {}
    return locals()


REPOSITORY = Archetype("Repository", "repository", repository)
REPOSITORY_LIST = Archetype("RepositoryList", "repository", repository, many=True)
RELEASE_LIST = Archetype("ReleaseList", "release", release, many=True)
