"""Films, series and episodes."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url, nests


def credit(
    *,
    id: Annotated[str | None, "The person's ID on the platform."],  # noqa: A002 - the field's own name
    name: Annotated[str | None, "Name of the person."] = None,
    role: Annotated[str | None, "The person's role, such as director, or the name of the character."] = None,
) -> Record:
    """A person who worked on a film or series."""
    return locals()


@nests(rating="The average rating.")
def title(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The title's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the title's page."],
    kind: Annotated[str | None, "film, series or episode."],
    title: Annotated[str | None, "The title, in the requested language."],
    original_title: Annotated[str | None, "The title in the original language."] = None,
    description: Annotated[str | None, "A summary of the plot."] = None,
    year: Annotated[int | None, "Year of the first release."] = None,
    released_at: Annotated[Instant, "Time of the first release."] = None,
    runtime_minutes: Annotated[int | None, "Length in minutes."] = None,
    genres: Annotated[list[str] | None, "The genres."] = None,
    languages: Annotated[list[str] | None, "The spoken languages."] = None,
    countries: Annotated[list[str] | None, "The countries of production."] = None,
    rating: Annotated[float | None, "The average rating."] = None,
    rating_max: Annotated[int | None, "The highest possible rating."] = None,
    rating_count: Annotated[int | None, "Number of ratings."] = None,
    popularity: Annotated[float | None, "The platform's own measure of popularity."] = None,
    season: Annotated[int | None, "Number of the season, for an episode."] = None,
    episode: Annotated[int | None, "Number of the episode in its season, for an episode."] = None,
    image_url: Annotated[Url, "URL of the poster."] = None,
    people: Annotated[list[Record] | None, Of(credit), "The cast and crew."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A film, series or episode."""
    return {
        "id": id,
        "url": url,
        "kind": kind,
        "title": title,
        "original_title": original_title,
        "description": description,
        "year": year,
        "released_at": released_at,
        "runtime_minutes": runtime_minutes,
        "genres": genres or [],
        "languages": languages or [],
        "countries": countries or [],
        "rating": {"value": rating, "max": rating_max, "count": rating_count},
        "popularity": popularity,
        "season": season,
        "episode": episode,
        "image_url": image_url,
        "people": people or [],
        "ext": ext or {},
    }


TITLE = Archetype("Title", "title", title, lookup_rank=13, roles=(Contract("title"),))
TITLE_LIST = Archetype(
    "TitleList",
    "title",
    title,
    many=True,
    row_kind="item",
    roles=(Contract("title_search", "search", takes=("query",)),),
)
ARCHETYPES = (TITLE, TITLE_LIST)
