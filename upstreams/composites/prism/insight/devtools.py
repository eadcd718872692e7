"""The pulse of a developer tool, which shows how active the tool is (decisions 18)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import timedelta
from statistics import fmean
from typing import Any, Final

from upstreams.composites.legs import Settled, attempt, failure_of, legs_of, part_of
from upstreams.composites.params import chosen
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.days import DaySpan
from upstreams.composites.prism.insight.mentions import series, shares, site_of
from upstreams.composites.prism.insight.sweep import Mention, SearchSweep, legs_in, mentions_of, phrase_of
from upstreams.composites.prism.insight.talk import read_comments, tones_of, weightiest
from upstreams.composites.prism.insight.tone import summed
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import threads
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args, Value
from upstreams.model.steps import Part, Single, Steps

_OWN_PARTS: Final = {"hackernews": "hn", "reddit": "reddit"}
"""Platforms that have a part of their own. The part `threads` covers all other platforms."""
PULSE_PARTS: Final = ("dossier", *_OWN_PARTS.values(), "threads", "blogs")
_OPENED: Final = 3
"""The number of threads whose comments are read."""
PULSE_METHOD: Final = (
    "Four parts from 0 to 100, and the mean of the known ones: release_recency = 100 x (1 - days / 365), issue_load = "
    "100 x (1 - open issues per 1,000 stars / 50), attention = 20 x mentions per day, momentum = 50 x mentions in the "
    "second half / in the first half. strong from 70, steady from 45, cooling from 20, otherwise quiet."
)
_README: Final = 2_000
_TOP: Final = 10
_WISHES: Final = ("feature", "enhancement", "proposal", "request", "idea")
_FAULTS: Final = ("bug", "regression", "crash", "defect", "error", "broken", "fail", "not work", "doesn't work")


def devtool_pulse(platforms: Sequence[Platform], threaded: Sequence[Platform], args: Args) -> Steps:
    """Return how active a developer tool is."""
    included = chosen(args, "include", PULSE_PARTS)
    window, phrase = days.span(args, "date_from", "date_to", back_days=29), phrase_of(args.text("query"))
    legs, found = list[Settled](), list[SearchSweep]()
    if searched := _searched(threaded, included):
        narrowed = {name: args.values[name] for name in ("subreddit",) if name in args.values}
        found = yield from sweep.sweep(searched, phrase, window, rounds=3, narrowed=narrowed, optional=True)
        legs += legs_in(found)
    has_answer = any(leg.answer for leg in legs)
    listed = mentions_of(found)
    comments = [leg for leg in (yield from read_comments(threaded, weightiest(listed)[:_OPENED])) if leg is not None]
    legs += comments
    dossier = (yield from read_dossier(platforms, args, legs)) if "dossier" in included else None
    if not any(leg.answer for leg in legs):
        raise failure_of(legs)
    released = _days_since_release(dossier, args)
    load = _issue_load(dossier)
    change = _halves(listed, window)
    parts = threads.scores(
        release_recency=None if released is None else _part(1 - released / 365),
        issue_load=None if load is None else _part(1 - load / 50),
        attention=_part(len(listed) / window.days / 5) if has_answer else None,
        momentum=None if change is None else _part((1 + change / 100) / 2),
    )
    comment_tones = [tone for leg in comments for tone in tones_of(leg.records)]
    known = [value for value in parts.values() if value is not None]
    score = round(fmean(known)) if known else None
    record = threads.devtool_pulse(
        query=phrase,
        pulse=pulse_of(score),
        score=score,
        scores=parts,
        days_since_release=released,
        open_issues_per_1000_stars=load,
        dossier=None if dossier is None else _project(dossier),
        attention=_attention(listed, found, window, change, blogs="blogs" in included) if has_answer else None,
        tone=summed([*(one.tone for one in listed), *comment_tones]) if has_answer else None,
        top_threads=[one.row["post"] for one in weightiest(listed)[:_TOP]],
        method=PULSE_METHOD,
    )
    return Single(record, legs=legs_of(legs))


def _searched(threaded: Sequence[Platform], included: Sequence[str]) -> list[Platform]:
    """Return the platforms on which threads are needed.

    If only `blogs` is requested, threads on all platforms are needed, because they contain the links to blogs.
    """
    wanted = [one for one in threaded if _OWN_PARTS.get(one.slug, "threads") in included]
    return wanted or (list(threaded) if "blogs" in included else [])


def _part(share: float) -> int:
    return round(100 * min(1.0, max(0.0, share)))


def pulse_of(score: int | None) -> str | None:
    """Return the word that describes a score."""
    if score is None:
        return None
    return next((word for least, word in ((70, "strong"), (45, "steady"), (20, "cooling")) if score >= least), "quiet")


def read_dossier(
    platforms: Sequence[Platform], args: Args, legs: list[Settled]
) -> Generator[tuple[Part, ...], Any, Record | None]:
    """Return the dossier of the requested repository or, if the request names none, of the first search result."""
    address = args.text_or_none("repo")
    named = [(one, value) for one in platforms if address and (value := _name_on(one, address)) is not None]
    if address is None:
        values: dict[str, Value] = {"query": args.text("query")}
        searched = yield from attempt([part_of(one, "repository_search", values, rows=1) for one in platforms])
        legs += searched
        pairs = zip(platforms, searched, strict=True)
        named = [
            (one, str(leg.records[0]["full_name"])) for one, leg in pairs if leg.records and leg.records[0]["full_name"]
        ]
    settled = yield from attempt([part_of(one, "dossier", _named(one, value)) for one, value in named[:1]])
    legs += settled
    return next((leg.record for leg in settled if leg.record is not None), None)


def _name_on(platform: Platform, address: str) -> str | None:
    """Return the repository's name on a platform, or None if the URL does not belong to that platform."""
    endpoint = platform.playing("dossier")
    assert endpoint is not None, "only platforms that offer dossiers get here"
    param = next(one for one in endpoint.params if one.name == endpoint.named_by[0])
    return param.at_address(address)


def _named(platform: Platform, value: str) -> Mapping[str, Value]:
    endpoint = platform.playing("dossier")
    assert endpoint is not None, "only platforms that offer dossiers get here"
    return {endpoint.named_by[0]: value}


def _days_since_release(dossier: Record | None, args: Args) -> int | None:
    dates = [days.instant_day(one["published_at"]) for one in (dossier or {}).get("releases") or ()]
    known = [date for date in dates if date is not None]
    return max(0, (days.today(args) - max(known)).days) if known else None


def _issue_load(dossier: Record | None) -> float | None:
    info = (dossier or {}).get("repository")
    if info is None or info["open_issues"] is None or not info["stars"]:
        return None
    return round(float(info["open_issues"] / info["stars"] * 1_000), 2)


def _halves(listed: Sequence[Mention], window: DaySpan) -> float | None:
    """Return the change in mentions from the first half of a window to the second half, in percent."""
    half = window.days // 2
    if not half:
        return None
    first = sum(one.day < window.first + timedelta(days=half) for one in listed)
    second = sum(one.day > window.last - timedelta(days=half) for one in listed)
    return round((second / first - 1) * 100, 2) if first else None


def _project(dossier: Record) -> Record:
    article, issues = dossier["article"], dossier["top_issues"] or []
    return threads.project(
        info=dossier["repository"],
        readme=article and article["text"] and article["text"][:_README],
        releases=dossier["releases"] or [],
        top_issues=threads.top_issues(
            top_feature_request=_first(issues, _WISHES), top_complaint=_first(issues, _FAULTS)
        ),
    )


def _first(issues: Sequence[Record], words: Sequence[str]) -> Record | None:
    """Return the first issue that has one of these words in its labels or title."""
    for one in issues:
        title = (one["content"]["text"] or "").partition("\n")[0]
        labels_and_title = " ".join((*(one["ext"].get("labels") or ()), title)).lower()
        if any(word in labels_and_title for word in words):
            return one
    return None


def _attention(
    listed: Sequence[Mention], found: Sequence[SearchSweep], window: DaySpan, change: float | None, *, blogs: bool
) -> Record:
    return threads.attention(
        window=window.record(),
        mentions=len(listed),
        per_day=round(len(listed) / window.days, 4),
        change_percent=change,
        daily_series=series(listed, window, "day"),
        top_sources=shares(one.platform for one in listed),
        top_domains=shares(site for one in listed if (site := site_of(one)) is not None) if blogs else None,
        sources=[one.record() for one in found],
    )
