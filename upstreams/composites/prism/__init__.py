"""Prism: one call over many platforms (decisions 14 and 18)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from upstreams.composites.addresses import Addresses
from upstreams.composites.prism import insight
from upstreams.composites.prism.comments import DESCRIPTION as COMMENTS
from upstreams.composites.prism.comments import price_span as span
from upstreams.composites.prism.comments import read_comments
from upstreams.composites.prism.lookup import destinations_of, look_up
from upstreams.composites.prism.names import of_names
from upstreams.model.archetypes import LOOKUP
from upstreams.model.archetypes.threads import GATHERED
from upstreams.model.endpoint import Endpoint, Platform, PriceRange
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
    "the page's oEmbed, then the page itself, both as web/scrape does. dry_run=1 tells the endpoint and calls nobody."
)


URL_OF_POST = replace(URL, description="The address of a post, a story, an issue, a question or a video.")
_MAX = Param(
    "max",
    "Comments to read, 1 to 5,000; it decides the price.",
    "200",
    "integer",
    default=1_000,
    minimum=1,
    maximum=5_000,
)
_LIMIT = Param(
    "limit", "Comments to answer with; as many as were read when absent.", "50", "integer", minimum=1, maximum=5_000
)
_REPLIES = Param("replies", "Whether the replies to comments are wanted.", "false", "boolean", default=True)
_SORT = Param("sort", "Order of the answer.", "top", default="recent", choices=("top", "recent"))


def over(platforms: tuple[Platform, ...]) -> Platform:
    """Return prism over these platforms."""
    addresses = Addresses(platforms)
    return Platform(
        slug="prism",
        title="Prism",
        sources={},
        docs_url="https://oembed.com",
        endpoints=(
            Endpoint(
                "lookup",
                "The record of any address.",
                LOOKUP,
                partial(look_up, addresses),
                (URL,),
                lacks={"include": "names extras of the endpoint that answers, and none here has any"},
                description=_LOOKUP,
                preview=partial(destinations_of, addresses),
            ),
            *of_names(platforms),
            Endpoint(
                "comments",
                "All comments on a post of any platform.",
                GATHERED,
                partial(read_comments, addresses),
                (URL_OF_POST, _MAX, _REPLIES, _SORT, _LIMIT),
                price=PriceRange(2, 200, "1 for each page call, at least 2.", span, is_most_usual=False),
                kind="comments",
                description=COMMENTS,
            ),
            *insight.endpoints(platforms),
        ),
    )
