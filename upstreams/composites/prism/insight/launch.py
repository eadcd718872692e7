"""The reactions to a launch: threads about it, the comments on them, and the pages that they link to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from upstreams.composites.addresses import canonical_url
from upstreams.composites.legs import Settled, legs_of
from upstreams.composites.params import chosen
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.devtools import read_dossier
from upstreams.composites.prism.insight.mentions import shares, site_of
from upstreams.composites.prism.insight.sweep import Mention, legs_in, mentions_of, phrase_of
from upstreams.composites.prism.insight.talk import read_comments, tones_of, weightiest
from upstreams.composites.prism.insight.tone import summed
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import threads
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args
from upstreams.model.steps import Single, Steps

ECHO_PARTS: Final = ("comments", "blogs", "dossier")
ECHO_METHOD: Final = (
    "Threads with the highest sum of points and comments. Comments are in each platform's order. blogs: pages that "
    "threads link to, on hosts that belong to no platform."
)
_BLOGS: Final = 50


def launch_echo(platforms: Sequence[Platform], threaded: Sequence[Platform], hosts: Sequence[str], args: Args) -> Steps:
    """Return the reactions to a launch. Pages on `hosts` are not blogs, because these hosts belong to platforms."""
    included = chosen(args, "include", ECHO_PARTS)
    window, phrase = days.span(args, "date_from", "date_to", back_days=90), phrase_of(args.text("query"))
    found = yield from sweep.sweep(threaded, phrase, window, rounds=2)
    legs, listed = legs_in(found), weightiest(mentions_of(found))
    opened = listed[: args.number("threads")]
    comments: list[Settled | None] = [None] * len(opened)
    if "comments" in included:
        comments = yield from read_comments(threaded, opened)
        legs += [leg for leg in comments if leg is not None]
    dossier = None
    if "dossier" in included and "repo" in args.values:
        dossier = yield from read_dossier(platforms, args, legs)
    tones = [tone for leg in comments if leg is not None for tone in tones_of(leg.records)]
    numbers = [one.row["post"]["engagement"] for one in listed]
    record = threads.launch_echo(
        query=phrase,
        stories=[_story(one, leg) for one, leg in zip(opened, comments, strict=True)],
        threads_found=len(listed),
        points=sum(one["likes"] or 0 for one in numbers),
        comments=sum(one["comments"] or 0 for one in numbers),
        first_seen_at=min((one.row["post"]["published_at"] for one in listed), default=None),
        sites=shares(site for one in listed if (site := site_of(one)) is not None),
        blogs=blogs_of(listed, hosts) if "blogs" in included else None,
        tone=summed(tones),
        dossier=dossier,
        sources=[one.record() for one in found],
        method=f"{sweep.METHOD} {ECHO_METHOD}",
    )
    return Single(record, legs=legs_of(legs))


def _story(mention: Mention, leg: Settled | None) -> Record:
    is_answered = leg is not None and bool(leg.answer)
    post, rows = mention.row["post"], leg.records if leg is not None else []
    return threads.story(
        platform=mention.platform,
        post=post,
        comments=threads.discussion(items=rows, total=post["engagement"]["comments"]) if is_answered else None,
        tone=summed(tones_of(rows)) if is_answered else None,
    )


def blogs_of(listed: Sequence[Mention], hosts: Sequence[str]) -> list[Record]:
    """Return the linked pages on hosts that belong to no platform, without duplicates, top mentions first."""
    pages: dict[str, Record] = {}
    for one in listed:
        link = one.row["post"]["ext"].get("link")
        key, host = canonical_url(link), site_of(one)
        if key is None or host is None or any(host == own or host.endswith(f".{own}") for own in hosts):
            continue
        if urlsplit(link).path.strip("/"):  # a bare host is the product itself, not an article about it
            pages.setdefault(key, threads.blog(url=link, domain=host))
    return list(pages.values())[:_BLOGS]
