"""Responses that combine several endpoints, and the legs they are built from (decisions 14)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from upstreams.model.archetypes.code import release
from upstreams.model.archetypes.code import repository as repository_record
from upstreams.model.archetypes.knowledge import article as article_record
from upstreams.model.archetypes.knowledge import page
from upstreams.model.archetypes.people import author as author_record
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, computed


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


def lookup_of(archetypes: Iterable[Archetype]) -> Archetype:
    """Return the archetype of lookups: a field for each kind of record to which a URL can lead, lowest rank first."""
    kinds = sorted((one for one in archetypes if one.lookup_rank), key=lambda one: one.lookup_rank)
    fields = {
        "resolved": Annotated[Record | None, Of(resolved), "The endpoint that returned the record."],
        **{one.key: Annotated[Record | None, Of(one.make), _leads_to(one)] for one in kinds},
        "page": Annotated[Record | None, Of(page), "The web page, if no platform covers the URL."],
        "computed": Annotated[Record | None, Of(computed), "Fields computed from the record, if there are any."],
    }

    def looked_up(**record: Record | None) -> Record:
        """The record at a URL. Only the field of its kind is set."""
        return {**dict.fromkeys(fields), **record}

    looked_up.__annotations__ = fields
    return Archetype("Lookup", "", looked_up, has_legs=True)


def _leads_to(kind: Archetype) -> str:
    """Return the meaning of the field of a kind. It ends with the first line of the constructor's docstring."""
    record = (kind.make.__doc__ or "").partition("\n")[0]
    return f"Set if the URL leads to {record[:1].lower()}{record[1:]}"


DOSSIER = Archetype("RepositoryDossier", "", dossier, has_legs=True, roles=(Contract("dossier", of="repository"),))
VELOCITY = Archetype("ProfileVelocity", "", pace_of_profile, has_legs=True)
ARCHETYPES = (DOSSIER, VELOCITY)
