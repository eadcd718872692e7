"""`sluice platforms`: the registry, and one live call an endpoint to see whether a platform has drifted."""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING, Any

import click

from billing.prices import credits_for
from gateway.cli.run import Refusal, config_option, json_option, read_config, run, show
from gateway.config import Config

if TYPE_CHECKING:
    from upstreams.catalog import Listing

_CALL_S = 30.0


@click.group()
def platforms() -> None:
    """List, try, isolate and reset platforms."""


@platforms.command("list")
@click.argument("slug", required=False)
@json_option
def list_(slug: str | None, as_json: bool) -> None:
    """List every platform and endpoint."""
    from upstreams.platforms import load_platforms

    rows = [
        {
            "id": f"{platform.slug}/{endpoint.resource}",
            "archetype": endpoint.archetype.name,
            "credits": credits_for(endpoint.tier),
            "needs": ", ".join(endpoint.needs) or None,
            "summary": endpoint.summary,
        }
        for platform in load_platforms()
        if slug in (None, platform.slug)
        for endpoint in platform.endpoints
    ]
    if not rows:
        raise Refusal(f"there is no platform {slug}", exit_code=2)
    show(rows, as_json=as_json)


@platforms.command("isolate")
@config_option
@click.argument("slug")
@json_option
def isolate(config_path: str | None, slug: str, as_json: bool) -> None:
    """Keep the running node from calling a platform. `platforms reset` lets it again."""
    from gateway.cli.dispatch import operate_on_node

    show(operate_on_node(config_path, "platform.isolate", platform=slug), as_json=as_json)


@platforms.command("reset")
@config_option
@click.argument("slug")
@json_option
def reset(config_path: str | None, slug: str, as_json: bool) -> None:
    """Close a platform's circuits on the running node. Its failures are forgotten."""
    from gateway.cli.dispatch import operate_on_node

    show(operate_on_node(config_path, "platform.reset", platform=slug), as_json=as_json)


@platforms.command("smoke")
@config_option
@click.argument("slug", required=False)
@json_option
def smoke(config_path: str | None, slug: str | None, as_json: bool) -> None:
    """Make a live call to each endpoint. It has the example parameters; exit 1 when one fails."""
    config = read_config(config_path)
    if slug is not None and slug not in config.upstreams.platforms:
        raise Refusal(f"there is no platform {slug}", exit_code=2)
    results = run(lambda: _smoke_all(config, slug))
    show(results, as_json=as_json)
    if failed := [result["id"] for result in results if result["outcome"] == "failed"]:
        raise Refusal(f"{len(failed)} of {len(results)} endpoints failed: {', '.join(failed)}")


async def _smoke_all(config: Config, slug: str | None) -> list[dict[str, Any]]:
    from gateway.node.sites import open_sites
    from upstreams.catalog import Catalog
    from upstreams.platforms import load_platforms

    rng = Random()
    async with open_sites(config, load_platforms(), environ=os.environ, rng=rng) as sites:
        listings = [each for each in Catalog(sites).all() if slug in (None, each.site.platform.slug)]
        return [await _smoke(listing) for listing in listings]


async def _smoke(listing: Listing) -> dict[str, Any]:
    import trio

    from limits.errors import LimitError
    from upstreams.fetching.fetch import fetch, plan
    from upstreams.model.errors import UpstreamError
    from upstreams.model.params import Args
    from upstreams.model.steps import Page
    from upstreams.sandbox.rehearse import example_values

    if not listing.available:
        return {"id": listing.id, "outcome": "skipped", "detail": f"needs {', '.join(listing.endpoint.needs)}"}
    args = Args(example_values(listing.endpoint), credentials=listing.site.credentials, now_at=time.time())
    try:
        fetched = await fetch(plan(listing.site, listing.endpoint, args), trio.current_time() + _CALL_S)
    except (UpstreamError, LimitError) as exc:
        return {"id": listing.id, "outcome": "failed", "detail": str(exc)}
    result = fetched.result
    detail = f"{len(result.records)} rows" if isinstance(result, Page) else "1 record"
    return {"id": listing.id, "outcome": "ok", "detail": f"{detail} by {fetched.source} in {fetched.took_s:.2f} s"}
