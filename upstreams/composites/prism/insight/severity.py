"""The confirmation of a breach. Its severity is computed from four numbers about the tested day (decisions 18)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from statistics import fmean
from typing import Any, Final

from upstreams.composites.legs import Settled, attempt, part_of
from upstreams.composites.prism.insight.sweep import Mention
from upstreams.composites.prism.insight.talk import comments_parts, tones_of, weightiest
from upstreams.composites.prism.insight.tone import share_of_negative, summed, tone_score
from upstreams.composites.search.everywhere import fuse
from upstreams.model.archetypes import POST_LIST, Record
from upstreams.model.archetypes.insight import crisis as records
from upstreams.model.endpoint import Platform
from upstreams.model.steps import Part

METHOD: Final = (
    "severity: the mean of the known ones among four numbers from 0 to 100. Two are z_volume and z_negative_share, as "
    "shares of twice the sensitivity. One is the share of searches with a negative mention on that day. The last is "
    "the share of negative comments on the day's five mentions with the most engagement."
)
_ROWS: Final = 10
"""The number of rows to request from each search, as in search/everywhere."""
_THREADS, _TOP = 5, 10


def confirm(
    platforms: Sequence[Platform],
    phrase: str,
    of_day: Sequence[Mention],
    z_scores: tuple[float, float | None],
    sensitivity: float,
    *,
    searched: int,
) -> Generator[tuple[Part, ...], Any, tuple[list[Settled], Record | None]]:
    """Return the legs of the additional searches, and the confirmation, which is None if all of these legs failed.

    `of_day` contains the tested day's mentions. `searched` is the number of searches whose results count.
    """
    searches = [part_of(one, "search", {"query": phrase}, rows=_ROWS) for one in platforms]
    threads = [part for part in comments_parts(platforms, weightiest(of_day)[:_THREADS]) if part is not None]
    legs = yield from attempt([*searches, *threads])
    if not any(leg.answer for leg in legs):
        return legs, None
    found, below = legs[: len(searches)], legs[len(searches) :]
    comment_tones = [tone for leg in below for tone in tones_of(leg.records)]
    parts = severity_parts(of_day, z_scores, sensitivity, searched, share_of_negative(comment_tones))
    rows = {leg.platform: POST_LIST.rows(leg.records, []) for leg in found if leg.answer}
    best = fuse(rows)[:_TOP]
    return legs, records.confirmation(
        severity=round(fmean(value for value in parts.values() if value is not None)),
        parts=parts,
        sentiment=summed(one.tone for one in of_day),
        readers=summed(comment_tones),
        by_anger=by_anger(of_day),
        items=[records.best(post=one["post"], platform=one["platform"], score=one["score"]) for one in best],
    )


def severity_parts(
    of_day: Sequence[Mention],
    z_scores: tuple[float, float | None],
    sensitivity: float,
    searched: int,
    readers: float | None,
) -> Record:
    """Return the four components of a severity."""
    volume, tone = (None if z is None else _share(z / (2 * sensitivity)) for z in z_scores)
    against = {one.platform for one in of_day if one.tone == "negative"}
    return records.severity(
        volume=volume,
        tone=tone,
        spread=_share(len(against) / searched),
        readers=None if readers is None else _share(readers),
    )


def _share(value: float) -> int:
    return round(100 * min(1.0, max(0.0, value)))


def by_anger(listed: Sequence[Mention]) -> list[Record]:
    """Return the negative mentions, most negative first. Among equals, those with the most engagement come first."""
    found = [(_anger(one), one) for one in weightiest(listed)]
    ranked = sorted((one for one in found if one[0] > 0), key=lambda one: -one[0])
    return [records.angry(post=one.row["post"], platform=one.platform, anger=anger) for anger, one in ranked[:_TOP]]


def _anger(mention: Mention) -> int:
    return -(tone_score(mention.row["post"]["content"]["text"], mention.row["computed"]["language"]) or 0)
