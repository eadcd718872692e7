"""Batches: one call that reads many items of one kind (decisions 14). A batch is declared by the role of its endpoints.

Planning makes no calls. `plan_rows` finds the endpoint and the values for each input, or the reason why it has none.
`plan_legs` groups the rows that one call to the upstream can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from upstreams.composites.addresses import Addresses, Destination, Resolution
from upstreams.fetching.site import Site
from upstreams.model.archetypes import Record
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Value
from upstreams.model.roles import Role

_MANY: Final = " (many)"
COUNTS: Final = ("views", "likes", "comments", "shares", "saves")


@dataclass(frozen=True, slots=True)
class Batch:
    """One kind of batch: `POST /v1/{platform}/{resource}`."""

    platform: str
    resource: str
    role: Role
    """The role of the endpoints from which rows are read."""
    rows_max: int
    cost_credits: int = 1
    rows_a_cost: int = 1
    """The number of rows that `cost_credits` buys. It is above 1 if several rows need only one upstream call."""
    form: Literal["whole", "counts", "words"] = "whole"
    """Which part of a record each row contains."""

    @property
    def path(self) -> str:
        """Return the path of the batch's route."""
        return f"/v1/{self.platform}/{self.resource}"


POST_STATS: Final = Batch("prism", "post-stats", "post", 100, form="counts")
PROFILES: Final = Batch("prism", "profiles", "profile", 50)
COMMENT_LOOKUP: Final = Batch("prism", "comment-lookup", "comment", 25, cost_credits=2)
TRANSCRIPTS: Final = tuple(
    Batch(slug, "transcripts", "transcript", 100, cost_credits=3, form="words") for slug in ("peertube", "youtube")
)
VIDEOS: Final = Batch("youtube", "videos", "post", 1_000, cost_credits=5, rows_a_cost=50)
CHANNELS: Final = Batch("youtube", "channels", "profile", 1_000, cost_credits=5, rows_a_cost=50)


class BatchInput(NamedTuple):
    """One input: a URL, a name on a platform, or a comment's id and its post's URL."""

    shown: Any
    """The input exactly as it was sent. Its row in the response repeats it."""
    url: str | None = None
    platform: str | None = None
    name: str | None = None
    values: Mapping[str, Value] = MappingProxyType({})
    """Other parameters for reading the record."""


class Row(NamedTuple):
    """The plan for a row: its destination, or the reason why it has none."""

    item: BatchInput
    destination: Destination | None
    problem: InvalidArgument | None = None


@dataclass(frozen=True, slots=True)
class BatchLeg:
    """Rows that are read together. `places` are their indexes. A single row is read with the endpoint's own read."""

    site: Site
    endpoint: Endpoint
    """A copy of the endpoint that reads the rows of this leg."""
    values: Mapping[str, Value]
    places: tuple[int, ...]
    names: tuple[str, ...] = ()
    """The values that identify the rows, in the order of `places`. Empty for a single row."""

    @property
    def resource(self) -> str:
        """The resource that the rows belong to."""
        return self.endpoint.resource.removesuffix(_MANY)


def plan_rows(batch: Batch, items: Sequence[BatchInput], sites: Mapping[str, Site], addresses: Addresses) -> list[Row]:
    """Return the plan for each row, in the order of the inputs."""
    rows = []
    for item in items:
        try:
            rows.append(Row(item, _destination(batch, item, sites, addresses)))
        except InvalidArgument as exc:
            rows.append(Row(item, None, exc))
    return rows


def _destination(batch: Batch, item: BatchInput, sites: Mapping[str, Site], addresses: Addresses) -> Destination:
    if item.url is None:
        destination = _by_name(batch, item, sites)
    elif batch.role != "comment":
        destination = _by_address(batch.role, item.url, addresses)
    elif item.name is None:
        destination = _first_destination(addresses.find(item.url, "comment"), "comment")
    else:
        destination = _comment_of(_by_address("post", item.url, addresses), item.name)
    if item.platform is not None and item.platform != destination.platform.slug:
        raise InvalidArgument(
            "platform", f"is {item.platform[:60]}, but the URL belongs to {destination.platform.slug}"
        )
    site = sites.get(destination.platform.slug)
    if site is None or not site.offers(destination.endpoint):
        raise InvalidArgument("platform", f"{destination.platform.slug} is not served by this node")
    return destination


def _by_address(role: Role, url: str, addresses: Addresses) -> Destination:
    """Return the endpoint with a role for a URL. A post's URL is not accepted as the URL of its author."""
    return _first_destination(addresses.find(url), role)


def _first_destination(found: Resolution, role: Role) -> Destination:
    playing = ((one, one.platform.playing(role)) for one in found.destinations)
    named = [one for one, endpoint in playing if endpoint and endpoint.resource == one.endpoint.resource]
    if not named:
        raise InvalidArgument("url", f"is not the URL of a {role}")
    return named[0]


def _comment_of(post: Destination, comment_id: str) -> Destination:
    """Return the endpoint for a comment that is identified by its id and its post.

    Three values are tried, and the first one that the endpoint accepts is used: the post's value, a slash and the id;
    the host, a slash and the id; or the id alone.
    """
    endpoint = post.platform.playing("comment")
    if endpoint is None:
        raise InvalidArgument("platform", f"{post.platform.slug} does not offer comments")
    subject = str(next(post.values[name] for name in post.endpoint.named_by if name in post.values))
    at_host = () if endpoint.located is None else (f"{subject.partition('/')[0]}/{comment_id}",)
    named = (f"{subject}/{comment_id}", *at_host, comment_id)
    others = {name: value for name, value in post.values.items() if name not in post.endpoint.named_by}
    return Destination(post.platform, endpoint, _first_accepted(endpoint, endpoint.named_by, named, others))


def _first_accepted(
    endpoint: Endpoint, names: Sequence[str], texts: Sequence[str], values: Mapping[str, Value]
) -> dict[str, Value]:
    """Return `values`, with the first combination of a parameter name and a text that the endpoint accepts."""
    refusal: InvalidArgument | None = None
    for text, name in product(texts, names):
        try:
            return endpoint.canonical({**values, name: text})
        except InvalidArgument as exc:
            refusal = exc
    assert refusal is not None, "at least one combination was tried"
    raise refusal


def _by_name(batch: Batch, item: BatchInput, sites: Mapping[str, Site]) -> Destination:
    slug, name = item.platform or batch.platform, item.name or ""
    site = sites.get(slug)
    endpoint = None if site is None else site.platform.playing(batch.role)
    if site is not None and endpoint is None and item.platform is None:
        raise InvalidArgument("ids", f"{site.platform.title} has no official API for a video's {batch.role}")
    if site is None or endpoint is None:
        raise InvalidArgument("platform", f"{slug[:60]} does not offer a {batch.role}")
    values = _first_accepted(endpoint, _names_of(endpoint, item), (name,), item.values)
    return Destination(site.platform, endpoint, values)


def _names_of(endpoint: Endpoint, item: BatchInput) -> tuple[str, ...]:
    """Return the parameters that can contain the name in an input."""
    if endpoint.many is not None and item.platform is None:
        return (endpoint.many.param,)
    return ("handle",) if "handle" in endpoint.named_by else endpoint.named_by


def repeats_of(rows: Sequence[Row]) -> dict[int, list[int]]:
    """Return the distinct rows that have a destination, each with the later rows that have the same destination.

    Rows are given by index. A row that repeats an earlier one shares its record and is free.
    """
    first: dict[tuple[Any, ...], int] = {}
    repeats: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        there = row.destination
        if there is None:
            continue
        key = (there.platform.slug, there.endpoint.resource, *sorted(there.values.items()))
        found = first.setdefault(key, place)
        if found == place:
            repeats[place] = []
        else:
            repeats[found].append(place)
    return repeats


def plan_legs(rows: Sequence[Row], sites: Mapping[str, Site]) -> list[BatchLeg]:
    """Return the calls that read the distinct rows, in the order of each call's first row."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place in repeats_of(rows):
        row = rows[place]
        if row.destination is not None:
            groups.setdefault(_group(row.destination, sites, place), []).append(place)
    legs = []
    for places in groups.values():
        destination = rows[places[0]].destination
        assert destination is not None, "only rows with a destination are in a group"
        site, many = sites[destination.platform.slug], destination.endpoint.many
        size = 1 if many is None else many.size
        for begin in range(0, len(places), size):
            chunk = tuple(places[begin : begin + size])
            legs.append(_leg(site, destination.endpoint, [rows[place] for place in chunk], chunk))
    return legs


def plan_each(rows: Sequence[Row], sites: Mapping[str, Site], places: Sequence[int]) -> list[BatchLeg]:
    """Return one leg for each row, to retry rows whose joint call was rejected."""
    found = ((place, rows[place].destination) for place in places)
    return [
        _leg(sites[one.platform.slug], one.endpoint, [rows[place]], (place,)) for place, one in found if one is not None
    ]


def _group(destination: Destination, sites: Mapping[str, Site], place: int) -> tuple[Any, ...]:
    """Return a key that is equal for rows that can be read together. A row that must be read alone has a unique key."""
    slug, endpoint, many = destination.platform.slug, destination.endpoint, destination.endpoint.many
    if many is None or many.param not in destination.values or not _has_all(sites[slug], many.needs):
        return (place,)
    others = sorted((name, value) for name, value in destination.values.items() if name != many.param)
    return slug, endpoint.resource, *others


def _has_all(site: Site, needs: tuple[str, ...]) -> bool:
    return all(map(site.credentials.__contains__, needs))


def _leg(site: Site, endpoint: Endpoint, rows: Sequence[Row], places: tuple[int, ...]) -> BatchLeg:
    values = [row.destination.values for row in rows if row.destination is not None]
    whole = endpoint.with_defaults(values[0])
    many = endpoint.many
    if many is None or len(rows) == 1:
        return BatchLeg(site, endpoint, whole, places)
    names = tuple(str(one[many.param]) for one in values)
    together = replace(
        endpoint,
        resource=endpoint.resource + _MANY,
        read=partial(many.read, tuple(dict.fromkeys(names))),
        fallbacks=(),
        params=(),
    )
    return BatchLeg(site, together, whole, places, names)


def ceiling(batch: Batch, rows: Sequence[Row]) -> int:
    """Return the maximum price of the rows, in credits (decisions 17)."""
    return -(-len(repeats_of(rows)) // batch.rows_a_cost) * batch.cost_credits


def part_of(batch: Batch, record: Record, include: Sequence[str]) -> Record:
    """Return the part of a record that its row contains."""
    if batch.form == "whole":
        return record
    if batch.form == "words":
        return _words_of(record, include)
    engagement = record["engagement"]
    return {
        "id": record["id"],
        "url": record["url"],
        "engagement": {name: engagement[name] for name in COUNTS if name in include},
    }


def _words_of(record: Record, include: Sequence[str]) -> Record:
    """Return a transcript as one text, or as segments with their times."""
    segments = [
        {"start_ms": one["start_ms"], "duration_ms": _duration_ms(one["start_ms"], one["end_ms"]), "text": one["text"]}
        for one in record["transcripts"]
    ]
    return {
        "language": record["ext"].get("language"),
        "transcript": segments if "segments" in include else record["transcript"],
    }


def _duration_ms(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else end_ms - start_ms
