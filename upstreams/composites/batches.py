"""Batches: many things of one kind with one call (decisions 14), declared over roles.

Planning is pure: `plan_rows` finds for each input its endpoint and values, or why there is none, and `plan_legs` puts
together the rows that one call of the upstream can answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from upstreams.composites.addresses import Addresses, Destination
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
    """The role of the endpoints that its rows are read by."""
    rows_max: int
    cost_credits: int = 1
    rows_a_cost: int = 1
    """The rows that this is the price of: more than one where they are billed by the upstream's calls."""
    form: Literal["whole", "counts"] = "whole"
    """The part of a record that a row has."""

    @property
    def path(self) -> str:
        """The path of its route."""
        return f"/v1/{self.platform}/{self.resource}"


POST_STATS: Final = Batch("prism", "post-stats", "post", 100, form="counts")
PROFILES: Final = Batch("prism", "profiles", "profile", 50)
VIDEOS: Final = Batch("youtube", "videos", "post", 1_000, cost_credits=5, rows_a_cost=50)
CHANNELS: Final = Batch("youtube", "channels", "profile", 1_000, cost_credits=5, rows_a_cost=50)


class BatchInput(NamedTuple):
    """One input: an address, or a name on a platform."""

    shown: Any
    """The input as it was sent, which the row repeats."""
    url: str | None = None
    platform: str | None = None
    name: str | None = None


class Row(NamedTuple):
    """The plan of a row: its destination, or the reason why it has none."""

    item: BatchInput
    destination: Destination | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class BatchLeg:
    """Rows that are read together, by their places; one that is alone is read by the endpoint's own read."""

    site: Site
    endpoint: Endpoint
    """As it is read for this leg."""
    values: Mapping[str, Value]
    places: tuple[int, ...]
    names: tuple[str, ...] = ()
    """The value that names each row, where they are several."""

    @property
    def resource(self) -> str:
        """The resource that the rows are of."""
        return self.endpoint.resource.removesuffix(_MANY)


def plan_rows(batch: Batch, items: Sequence[BatchInput], sites: Mapping[str, Site], addresses: Addresses) -> list[Row]:
    """The plan of each row, in the order of the inputs."""
    rows = []
    for item in items:
        try:
            rows.append(Row(item, _destination(batch, item, sites, addresses)))
        except InvalidArgument as exc:
            rows.append(Row(item, None, exc.problem))
    return rows


def _destination(batch: Batch, item: BatchInput, sites: Mapping[str, Site], addresses: Addresses) -> Destination:
    if item.url is not None:
        found = [
            one
            for one in addresses.find(item.url).destinations
            if (playing := one.platform.playing(batch.role)) and playing.resource == one.endpoint.resource
        ]
        if not found:
            raise InvalidArgument("url", f"is no {batch.role}'s address")
        destination = found[0]
    else:
        destination = _by_name(batch, item, sites)
    site = sites.get(destination.platform.slug)
    if site is None or not site.offers(destination.endpoint):
        raise InvalidArgument("platform", f"{destination.platform.slug} cannot be called by this node")
    return destination


def _by_name(batch: Batch, item: BatchInput, sites: Mapping[str, Site]) -> Destination:
    slug, name = item.platform or batch.platform, item.name or ""
    site = sites.get(slug)
    endpoint = None if site is None else site.platform.playing(batch.role)
    if site is None or endpoint is None:
        raise InvalidArgument("platform", f"{slug[:60]} has no {batch.role} to read")
    many = endpoint.many
    param = many.param if many is not None and item.platform is None else _name_of(endpoint)
    return Destination(site.platform, endpoint, {param: endpoint.canonical({param: name})[param]})


def _name_of(endpoint: Endpoint) -> str:
    """The parameter that takes a handle."""
    return "handle" if "handle" in endpoint.named_by else endpoint.named_by[0]


def plan_legs(rows: Sequence[Row], sites: Mapping[str, Site]) -> list[BatchLeg]:
    """The calls that the rows need, by the order of their first rows."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        if row.destination is not None:
            groups.setdefault(_group(row.destination, sites, place), []).append(place)
    legs = []
    for places in groups.values():
        destination = rows[places[0]].destination
        assert destination is not None, "only rows that lead somewhere are in a group"
        site, many = sites[destination.platform.slug], destination.endpoint.many
        size = 1 if many is None else many.size
        for begin in range(0, len(places), size):
            chunk = tuple(places[begin : begin + size])
            legs.append(_leg(site, destination.endpoint, [rows[place] for place in chunk], chunk))
    return legs


def plan_each(rows: Sequence[Row], sites: Mapping[str, Site], places: Sequence[int]) -> list[BatchLeg]:
    """A leg for each of these rows alone, which a call for many of them was refused."""
    found = ((place, rows[place].destination) for place in places)
    return [
        _leg(sites[one.platform.slug], one.endpoint, [rows[place]], (place,)) for place, one in found if one is not None
    ]


def _group(destination: Destination, sites: Mapping[str, Site], place: int) -> tuple[Any, ...]:
    """The key of rows that can be read together; its own place for one that cannot."""
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
    """The most that these rows cost (decisions 17)."""
    callable_rows = sum(1 for row in rows if row.destination is not None)
    return -(-callable_rows // batch.rows_a_cost) * batch.cost_credits


def part_of(batch: Batch, record: Record, include: Sequence[str]) -> Record:
    """The part of a record that a row has."""
    if batch.form == "whole":
        return record
    engagement = record["engagement"]
    return {
        "id": record["id"],
        "url": record["url"],
        "engagement": {name: engagement[name] for name in COUNTS if name in include},
    }
