"""Prism: one call over many platforms (decisions 14 and 18)."""

from __future__ import annotations

from functools import partial

from upstreams.composites.addresses import Addresses
from upstreams.composites.prism.lookup import PAGE_SOURCE, destinations_of, look_up
from upstreams.model.archetypes import LOOKUP
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.params import Param

URL = Param(
    "url",
    "The address of a post, an account, a repository, an app, a video or an article.",
    "https://news.ycombinator.com/item?id=8863",
    type="url",
    required=True,
    length_max=2_048,
)
_LOOKUP = (
    "The record of any address: its endpoint is found by the address alone and called. At a host that is no platform's "
    "own the servers are tried whose software has such addresses (Mastodon, Lemmy, Discourse, PeerTube, GitLab), then "
    "the page's oEmbed. With dry_run=1 it tells the endpoint and calls nobody."
)


def over(platforms: tuple[Platform, ...]) -> Platform:
    """Return prism over these platforms."""
    addresses = Addresses(platforms)
    return Platform(
        slug="prism",
        title="Prism",
        sources={PAGE_SOURCE: "https://{host}"},
        docs_url="https://oembed.com",
        endpoints=(
            Endpoint(
                "lookup",
                "The record of any address.",
                LOOKUP,
                partial(look_up, addresses),
                (URL,),
                description=_LOOKUP,
                preview=partial(destinations_of, addresses),
            ),
        ),
    )
