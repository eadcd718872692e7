"""Answers of several parts, and the legs that they came by (decisions 14)."""

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
    article: Annotated[Record | None, Of(article_record), "Its readme."],
    releases: Annotated[list[Record] | None, Of(release), "Its latest releases; null where they did not come."],
    top_issues: Annotated[
        list[Record] | None, Of(post_record), "Its open issues with the most reactions; null likewise."
    ],
) -> Record:
    """Everything about a repository at once."""
    return locals()


def movement(
    *,
    repos_seen: Annotated[int | None, "Repositories that were looked at: the 100 pushed to last."],
    repos_pushed_30d: Annotated[int | None, "Those pushed to in the last 30 days."],
    repos_pushed_365d: Annotated[int | None, "Those pushed to in the last 365 days."],
    own_repos_created_365d: Annotated[int | None, "Those that are no copies and were made in the last 365 days."],
    own_repos_stars: Annotated[int | None, "Stars of those that are no copies."],
    last_pushed_at: Annotated[Instant, "The time of the last push to any of them."],
) -> Record:
    """The movement of an account's repositories."""
    return locals()


def pace_of_profile(
    *,
    author: Annotated[Record | None, Of(author_record), "The account."],
    velocity: Annotated[Record | None, Of(movement), "How its repositories move; null where they did not come."],
) -> Record:
    """An account and how its repositories move."""
    return locals()


def resolved(
    *,
    platform: Annotated[str, "The platform's slug; oembed where a page's own host told of it."],
    endpoint: Annotated[str, "The path of the endpoint that answers the address, or the address of the host's oEmbed."],
    archetype: Annotated[str, "The name of its answers' shape."],
    params: Annotated[Record, "The parameters with which it gives the same record."],
) -> Record:
    """The endpoint that an address leads to."""
    return locals()


def looked_up(
    *,
    resolved: Annotated[Record | None, Of(resolved), "The endpoint that answered."],
    post: Annotated[Record | None, Of(post_record), "The post, where the address is one's."] = None,
    app: Annotated[Record | None, Of(app_record), "The app, likewise."] = None,
    collection: Annotated[Record | None, Of(collection_record), "The album, playlist or podcast, likewise."] = None,
    repository: Annotated[Record | None, Of(repository_record), "The repository, likewise."] = None,
    article: Annotated[Record | None, Of(article_record), "The article, likewise."] = None,
    author: Annotated[Record | None, Of(author_record), "The account, likewise."] = None,
    comment: Annotated[Record | None, Of(comment_record), "The comment, likewise."] = None,
    page: Annotated[Record | None, Of(page_record), "The page, where no platform reads it."] = None,
    computed: Annotated[Record | None, Of(computed_record), "What is computed of it, where something is."] = None,
) -> Record:
    """The record of an address: of the kinds, the one that it is."""
    return locals()


DOSSIER = Archetype("RepositoryDossier", "", dossier, has_legs=True)
VELOCITY = Archetype("ProfileVelocity", "", pace_of_profile, has_legs=True)
LOOKUP = Archetype("Lookup", "", looked_up, has_legs=True)
