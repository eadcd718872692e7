"""Responses that combine several endpoints, and the legs they are built from (decisions 14)."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.apps import app as app_record
from upstreams.model.archetypes.code import release
from upstreams.model.archetypes.code import repository as repository_record
from upstreams.model.archetypes.knowledge import article as article_record
from upstreams.model.archetypes.knowledge import page as page_record
from upstreams.model.archetypes.media import collection as collection_record
from upstreams.model.archetypes.people import author as author_record
from upstreams.model.archetypes.posts import comment as comment_record
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record
from upstreams.model.archetypes.shape import computed as computed_record


def dossier(
    *,
    repository: Annotated[Record | None, Of(repository_record), "The repository."],
    article: Annotated[Record | None, Of(article_record), "The readme of the repository."],
    releases: Annotated[list[Record] | None, Of(release), "The latest releases; null if they could not be read."],
    top_issues: Annotated[
        list[Record] | None, Of(post_record), "The open issues with the most reactions; null if they could not be read."
    ],
) -> Record:
    """A repository with its readme, releases and top issues."""
    return locals()


def movement(
    *,
    repos_seen: Annotated[int | None, "Repositories that were examined: the 100 most recently pushed to."],
    repos_pushed_30d: Annotated[int | None, "Examined repositories pushed to in the last 30 days."],
    repos_pushed_365d: Annotated[int | None, "Examined repositories pushed to in the last 365 days."],
    own_repos_created_365d: Annotated[
        int | None, ("Examined repositories, without forks, created in the last 365 days.")
    ],
    own_repos_stars: Annotated[int | None, "Stars of the examined repositories, without forks."],
    last_pushed_at: Annotated[Instant, "Time of the most recent push."],
) -> Record:
    """Activity in an account's repositories."""
    return locals()


def pace_of_profile(
    *,
    author: Annotated[Record | None, Of(author_record), "The account."],
    velocity: Annotated[
        Record | None, Of(movement), ("Activity in the account's repositories; null if they could not be read.")
    ],
) -> Record:
    """An account and the activity in its repositories."""
    return locals()


def resolved(
    *,
    platform: Annotated[str, "The platform's slug, or oembed if the host described the page."],
    endpoint: Annotated[
        str, ("The path of the endpoint that returns the record, or the URL of the host's oEmbed service.")
    ],
    archetype: Annotated[str, "Name of the archetype of the response."],
    params: Annotated[Record, "The parameters that return the same record from this endpoint."],
) -> Record:
    """The endpoint that a URL resolves to."""
    return locals()


def looked_up(
    *,
    resolved: Annotated[Record | None, Of(resolved), "The endpoint that returned the record."],
    post: Annotated[Record | None, Of(post_record), "The post, if the URL belongs to one."] = None,
    app: Annotated[Record | None, Of(app_record), "The app, if the URL belongs to one."] = None,
    collection: Annotated[
        Record | None, Of(collection_record), ("The album, playlist or podcast, if the URL belongs to one.")
    ] = None,
    repository: Annotated[Record | None, Of(repository_record), "The repository, if the URL belongs to one."] = None,
    article: Annotated[Record | None, Of(article_record), "The article, if the URL belongs to one."] = None,
    author: Annotated[Record | None, Of(author_record), "The account, if the URL belongs to one."] = None,
    comment: Annotated[Record | None, Of(comment_record), "The comment, if the URL belongs to one."] = None,
    page: Annotated[Record | None, Of(page_record), "The web page, if no platform covers the URL."] = None,
    computed: Annotated[
        Record | None, Of(computed_record), "Fields computed from the record, if there are any."
    ] = None,
) -> Record:
    """The record at a URL. Only the field of its kind is set."""
    return locals()


DOSSIER = Archetype("RepositoryDossier", "", dossier, has_legs=True)
VELOCITY = Archetype("ProfileVelocity", "", pace_of_profile, has_legs=True)
LOOKUP = Archetype("Lookup", "", looked_up, has_legs=True)
