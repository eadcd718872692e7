"""Prism: endpoints that read many platforms with one call (decisions 14 and 18)."""

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
    "The URL of a post, an account, a repository, an app, a video or an article.",
    "https://news.ycombinator.com/item?id=8863",
    type="url",
    required=True,
    length_max=2_048,
)
_LOOKUP = (
    "The record for any URL. The URL alone determines the endpoint to call. If its host belongs to no platform, "
    "software with such URLs is tried first (Mastodon, Lemmy, Discourse, PeerTube, GitLab), then the page's "
    "oEmbed, then the page itself. dry_run=1 returns the endpoint without calling it."
)


URL_OF_POST = replace(URL, description="The URL of a post, story, issue, question or video.")
_MAX = Param(
    "max",
    "Number of comments to read, 1 to 5,000. It determines the price.",
    "200",
    "integer",
    default=1_000,
    minimum=1,
    maximum=5_000,
)
_LIMIT = Param(
    "limit", "Number of comments to return (default: all that were read).", "50", "integer", minimum=1, maximum=5_000
)
_REPLIES = Param("replies", "Whether to include replies to comments.", "false", "boolean", default=True)
_SORT = Param("sort", "Sort order of the response.", "top", default="recent", choices=("top", "recent"))


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
                resource="lookup",
                summary="The record for any URL.",
                archetype=LOOKUP,
                read=partial(look_up, addresses),
                params=(URL,),
                lacks={"include": "requests extras of the endpoint that responds, but no endpoint has any"},
                description=_LOOKUP,
                preview=partial(destinations_of, addresses),
            ),
            *of_names(platforms),
            Endpoint(
                resource="comments",
                summary="All comments on a post on any platform.",
                archetype=GATHERED,
                read=partial(read_comments, addresses),
                params=(URL_OF_POST, _MAX, _REPLIES, _SORT, _LIMIT),
                price=PriceRange(2, 200, "1 per page read, at least 2.", span, is_most_usual=False),
                kind="comments",
                description=COMMENTS,
            ),
            *insight.endpoints(platforms),
        ),
    )
