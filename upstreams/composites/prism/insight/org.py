"""An organization's repositories: a list, totals, and dossiers of the top repositories (decisions 18)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from upstreams.composites.legs import attempt, failure_of, legs_of, named, part_of
from upstreams.composites.params import chosen
from upstreams.composites.prism.insight import days
from upstreams.composites.prism.insight.mentions import shares
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import threads
from upstreams.model.endpoint import Platform
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args, Value
from upstreams.model.steps import Single, Steps

PARTS: Final = ("dossiers", "rollup")
DOSSIER_CREDITS: Final = 5
_SORTS: Final = {"stars": "stars", "updated": "updated_at", "pushed": "pushed_at"}
SORTS: Final = tuple(_SORTS)
_ADDRESS: Final = re.compile(r"\w+://|[\w-]+(?:\.[\w-]+)+/")


def span_of(values: Mapping[str, Value]) -> tuple[int, int]:
    """Return the minimum and maximum price: one credit for the list, and five per dossier."""
    if "dossiers" not in str(values.get("include", "dossiers")).split(","):
        return 1, 1
    return 1, 1 + DOSSIER_CREDITS * int(values["repos"])


def org_radar(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return an organization's repositories."""
    included = chosen(args, "include", PARTS)
    platform, values = _organization(platforms, args)
    (listed,) = legs = yield from attempt([part_of(platform, "repositories", values, rows=100)])
    if not listed.answer:
        raise failure_of(legs)
    own = [one for one in listed.records if one["fork"] is not True and one["archived"] is not True]
    member = _SORTS[args.text("sort")]
    ranked = sorted(own, key=lambda one: (one[member] is not None, one[member] or ""), reverse=True)
    first = ranked[: args.number("repos")]
    endpoint = platform.playing("dossier")
    dossiers = []
    if "dossiers" in included and endpoint is not None:
        dossiers = yield from attempt(
            [part_of(platform, "dossier", {endpoint.named_by[0]: str(one["full_name"])}) for one in first]
        )
        legs += dossiers
    records = [record for leg in dossiers if (record := leg.record) is not None]
    radar = threads.org_radar(
        platform=platform.slug,
        org=str(next(iter(values.values()))),
        repositories=first,
        dossiers=records if "dossiers" in included else None,
        rollup=rolled_up(own, records, args) if "rollup" in included else None,
    )
    return Single(radar, legs=legs_of(legs), credits_used=1 + DOSSIER_CREDITS * len(records))


def _organization(platforms: Sequence[Platform], args: Args) -> tuple[Platform, dict[str, Value]]:
    """Return an organization's platform and its name on that platform. A URL contains both.

    Raises:
        InvalidArgument: The URL does not lead to an organization.
    """
    for one in platforms:
        endpoint = one.playing("repositories")
        assert endpoint is not None, "only platforms that list repositories get here"
        for param in endpoint.params:
            if param.name in endpoint.named_by and (value := param.at_address(args.text("org"))) is not None:
                return one, {param.name: value}
    if _ADDRESS.match(args.text("org")):
        titles = ", ".join(one.title for one in platforms)
        raise InvalidArgument("org", f"is not the URL of an organization at {titles} (its login also works)")
    platform = next(one for one in platforms if one.slug == args.text("platform"))
    return platform, named(platform, "repositories", args.text("org"))


def rolled_up(own: Sequence[Record], dossiers: Sequence[Record], args: Args) -> Record:
    """Return the totals over an organization's own repositories, which exclude forks and archived ones."""
    languages = Counter(one["language"] for one in own if one["language"] is not None)
    pushes = [one["pushed_at"] for one in own if one["pushed_at"] is not None]
    since = days.today(args) - timedelta(days=30)
    released = days.today(args) - timedelta(days=90)
    latest = [
        max(filter(None, (days.instant_day(each["published_at"]) for each in one["releases"] or ())), default=None)
        for one in dossiers
    ]
    return threads.rollup(
        repositories=len(own),
        stars=_sum(own, "stars"),
        forks=_sum(own, "forks"),
        open_issues=_sum(own, "open_issues"),
        pushed_30d=sum(str(one)[:10] >= since.isoformat() for one in pushes) if pushes or not own else None,
        released_90d=sum(one is not None and one >= released for one in latest) if dossiers else None,
        languages=[
            threads.language_share(language=name, repositories=count)
            for name, count in sorted(languages.items(), key=lambda one: (-one[1], one[0]))
        ],
        licenses=shares(one["license"] for one in own if one["license"] is not None),
        last_pushed_at=max(pushes, default=None),
    )


def _sum(own: Sequence[Record], name: str) -> int | None:
    known = [one[name] for one in own if one[name] is not None]
    return sum(known) if known or not own else None
