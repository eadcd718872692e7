"""`sluice platforms`: list platforms, make live calls to detect drift, and the commands for authors."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from gateway.cli.authors import check, new, tables
from gateway.cli.run import (
    Refusal,
    config_option,
    json_option,
    known_platforms,
    no_platform,
    read_config,
    run,
    say,
    show,
)
from gateway.config import Config
from gateway.config.secrets import load_secret

if TYPE_CHECKING:
    from upstreams.catalog import Listing
    from upstreams.model.endpoint import Endpoint, Platform

_CALL_S = 30.0


@click.group()
def platforms() -> None:
    """List, try, isolate and reset platforms."""


@platforms.command("list")
@click.argument("slug", required=False)
@json_option
def list_(slug: str | None, as_json: bool) -> None:
    """List all platforms, or the endpoints of one."""
    from upstreams.index import load_indexed

    every = load_indexed()
    if slug is None:
        show([_platform_row(one) for one in every], as_json=as_json)
        return
    found = next((one for one in every if one.slug == slug), None)
    if found is None:
        raise no_platform(slug, known_platforms())
    show([_endpoint_row(found, endpoint) for endpoint in found.endpoints], as_json=as_json)


def _platform_row(platform: Platform) -> dict[str, Any]:
    return {
        "slug": platform.slug,
        "title": platform.title,
        "category": platform.category,
        "endpoints": len(platform.endpoints),
        "checked_on": platform.checked_on or None,
        "docs_url": platform.docs_url or None,
        "terms_url": platform.terms_url or None,
        "maintainer": platform.maintainer or None,
    }


def _endpoint_row(platform: Platform, endpoint: Endpoint) -> dict[str, Any]:
    from gateway.calls.pricing import price_of

    return {
        "id": f"{platform.slug}/{endpoint.resource}",
        "archetype": endpoint.archetype.name,
        "credits": price_of(endpoint).credits,
        "needs": ", ".join(endpoint.needs).replace("|", " or ") or None,
        "summary": endpoint.summary,
    }


@platforms.command("isolate")
@config_option
@click.argument("slug")
@json_option
def isolate(config_path: str | None, slug: str, as_json: bool) -> None:
    """Stop the running node from calling a platform. `platforms reset` allows it again."""
    from gateway.cli.dispatch import operate_on_node

    show(operate_on_node(config_path, "platform.isolate", platform=slug), as_json=as_json)


@platforms.command("reset")
@config_option
@click.argument("slug")
@json_option
def reset(config_path: str | None, slug: str, as_json: bool) -> None:
    """Close a platform's circuits on the running node. Its failure history is cleared."""
    from gateway.cli.dispatch import operate_on_node

    show(operate_on_node(config_path, "platform.reset", platform=slug), as_json=as_json)


@platforms.command("smoke")
@config_option
@click.argument("slug", required=False)
@json_option
def smoke(config_path: str | None, slug: str | None, as_json: bool) -> None:
    """Make a live call to each endpoint. The calls use the example parameters. Exit 1 if one fails.

    Composites only combine calls to other endpoints, so they are skipped unless you name their slug. `drifted` lists
    fields that Sluice reads and that are missing from the platform's response.
    """
    config = read_config(config_path)
    if slug is not None and slug not in config.upstreams.platforms:
        raise no_platform(slug, config.upstreams.platforms)
    results = run(lambda: _smoke_all(config, slug))
    show(results, as_json=as_json)
    if failed := [result["id"] for result in results if result["outcome"] == "failed"]:
        raise Refusal(f"{len(failed)} of {len(results)} endpoints failed: {', '.join(failed)}")


async def _smoke_all(config: Config, slug: str | None) -> list[dict[str, Any]]:
    from gateway.node.sites import open_sites
    from gateway.node.suppliers import open_suppliers
    from upstreams.catalog import Catalog
    from upstreams.composites import composite_slugs
    from upstreams.index import load_indexed

    rng, composites = Random(), {*composite_slugs()} - {"web", slug}
    async with (
        open_suppliers(config, environ=os.environ, rng=rng, now=time.time) as suppliers,
        open_sites(config, load_indexed(), environ=os.environ, rng=rng, chain_of=suppliers.chain) as sites,
    ):
        listings = [each for each in Catalog(sites).all() if slug in (None, each.site.platform.slug)]
        return [_of_others(each) if each.site.platform.slug in composites else await _smoke(each) for each in listings]


def _of_others(listing: Listing) -> dict[str, Any]:
    detail = f"combines calls to other endpoints; to try it, run: sluice platforms smoke {listing.site.platform.slug}"
    return {"id": listing.id, "outcome": "skipped", "detail": detail}


async def _smoke(listing: Listing) -> dict[str, Any]:
    import trio

    from limits.errors import LimitError
    from upstreams.fetching.fetch import fetch
    from upstreams.fetching.plan import plan
    from upstreams.model.errors import UpstreamError
    from upstreams.model.params import Args
    from upstreams.model.steps import Page
    from upstreams.sandbox.rehearse import example_values

    if not listing.available:
        return {
            "id": listing.id,
            "outcome": "skipped",
            "detail": f"needs {', '.join(listing.endpoint.needs).replace('|', ' or ')}",
        }
    args = Args(example_values(listing.endpoint), credentials=listing.site.credentials, now_at=time.time())
    try:
        planned = plan(listing.site, listing.endpoint, args, keeps=True)
        fetched = await fetch(planned, trio.current_time() + _CALL_S)
    except (UpstreamError, LimitError) as exc:
        return {"id": listing.id, "outcome": "failed", "detail": str(exc)}
    result = fetched.result
    detail = f"{len(result.records)} rows" if isinstance(result, Page) else "1 record"
    detail = f"{detail} by {fetched.source} in {fetched.took_s:.2f} s"
    if gone := _gone(listing, [body for _, body in fetched.bodies]):
        return {"id": listing.id, "outcome": "drifted", "detail": f"{detail}; gone: {', '.join(gone)}"}
    return {"id": listing.id, "outcome": "ok", "detail": detail}


def _gone(listing: Listing, bodies: list[bytes]) -> list[str]:
    """Return the JSON fields that the sandbox returns for the same request, but the platform does not."""
    import orjson

    from upstreams.sandbox.drift import members_gone
    from upstreams.sandbox.rehearse import rehearsed

    site = listing.site
    others = {slug: other.platform for slug, other in site.others.items()}
    _, invented = rehearsed(site.platform, listing.endpoint, time.time(), others, site.credentials)
    try:
        return members_gone(invented, [orjson.loads(body) for body in bodies])
    except orjson.JSONDecodeError:
        return []


for _command in (new, check, tables):
    platforms.add_command(_command)


@click.command()
@config_option
@click.option("--platform", default=None, help="Only operations of this platform, or of account or utility.")
def openapi(config_path: str | None, platform: str | None) -> None:
    """Print the OpenAPI document. It describes a node with this config, or with the default config."""
    with TemporaryDirectory(prefix="sluice-openapi-") as folder:
        if config_path is None and "SLUICE_CONFIG" not in os.environ and not Path("config.toml").exists():
            config_path = f"{folder}/config.toml"
            Path(config_path).touch()
        config = read_config(config_path)
        say(run(lambda: _document(config, Path(folder), platform)))


async def _document(config: Config, folder: Path, platform: str | None) -> str:
    """Return the document of a node with a temporary store and without listeners."""
    from gateway.node.node import NodeSetting
    from gateway.node.wiring import open_node
    from gateway.observability.logs import open_log
    from upstreams.index import load_indexed

    store, state = replace(config.store, url=f"sqlite:///{folder}/sluice.db"), replace(config.state, url="memory:")
    alone = replace(config, store=store, state=state)
    with open_log("error", access=False) as log:
        setting = NodeSetting(
            config=alone,
            read_config=lambda: alone,
            secrets=load_secret(os.environ, folder),
            environ=os.environ,
            base_url=config.server.public_url(config.server.port),
            log=log,
            platforms=load_indexed(),
            now=time.time,
            rng=Random(),
            keeps_time=False,
        )
        async with open_node(setting) as node:
            known = node.description.reference.platforms
            if platform is not None and platform not in known:
                raise no_platform(platform, known)
            return node.description.documents.document(platform).decode()
