"""Prints what the program knows about the zines of `zines`, as JSON. Run in a copy of the program that has the file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson

from gateway.api.projection import csv_columns
from gateway.docs.pages.tables import records_markdown
from gateway.docs.schemas import openapi_schemas, schema_of
from scheduler.jobs.discover.searches import searches_of
from scheduler.monitors.metrics.shapes import shape_of
from tests.fakes.platform_fields import FIELDS
from tests.fakes.scripted_recipes import ScriptedRecipes
from upstreams.composites.addresses import Addresses
from upstreams.model.archetypes import ARCHETYPES, LOOKUP
from upstreams.model.archetypes.shape import fields_of
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Args, Param
from upstreams.model.steps import Steps

NUMBER = Param(
    name="id", description="Number.", example="7", required=True, pattern=r"\d+", forms=(r"zines\.example\.org/(\d+)",)
)
QUERY = Param(name="query", description="Words.", example="ink", required=True)


def unread(_args: Args) -> Steps:
    """Never runs."""
    yield from ()
    raise AssertionError


def platform() -> Platform:
    """Return a platform that serves zines."""
    return Platform(
        slug="zines",
        title="Zines",
        hosts=("zines.example.org",),
        sources={"api": "https://zines.example.org"},
        **FIELDS,
        endpoints=(
            Endpoint(resource="issue", summary="One.", archetype=ARCHETYPES["Zine"], read=unread, params=(NUMBER,)),
            Endpoint(
                resource="search", summary="Many.", archetype=ARCHETYPES["ZineList"], read=unread, params=(QUERY,)
            ),
        ),
    )


def found() -> dict[str, Any]:
    """Return everything that follows from the file, by subject."""
    zines, one, many = platform(), ARCHETYPES["Zine"], ARCHETYPES["ZineList"]
    listings: Any = [
        SimpleNamespace(
            id=f"zines/{endpoint.resource}", site=SimpleNamespace(platform=zines), endpoint=endpoint, available=True
        )
        for endpoint in zines.endpoints
    ]
    recipes: Any = ScriptedRecipes()
    searches = searches_of(listings, recipes).of_view("items")
    page, shape = records_markdown(), shape_of(many)
    destination = Addresses((zines,)).find("https://zines.example.org/12").destinations[0]
    return {
        "schema": sorted(schema_of(one, "https://node.test")["$defs"]),
        "openapi": sorted(openapi_schemas([one, many])),
        "csv": [".".join(path) for path in csv_columns(many)],
        "numbers": sorted(path for path, kind in shape.kinds.items() if kind == "number"),
        "lookup": [field.description for field in fields_of(LOOKUP.make) if field.name == "zine"],
        "roles": {role: one.resource for role in ("zine", "zine_search") if (one := zines.playing(role))},
        "cached_s": {endpoint.resource: endpoint.cache_ttl_s for endpoint in zines.endpoints},
        "discover": [(search.id, search.kind, search.key) for search in searches],
        "url": [destination.endpoint.resource, destination.values],
        "docs": [line for line in page.splitlines() if "ine`](/schemas/Zine" in line or line.startswith("## Zine")],
    }


if __name__ == "__main__":
    print(orjson.dumps(found()).decode())
