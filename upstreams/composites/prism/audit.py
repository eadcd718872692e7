"""The audit of a username: public data from several platforms, scored with documented weights (composites 1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import orjson

from upstreams.composites.legs import Settled, attempt, check_any, legs_of, named, part_of
from upstreams.composites.prism import scoring
from upstreams.composites.prism.accounts import of_slugs, profile_part
from upstreams.composites.prism.scoring import Scored
from upstreams.model.archetypes import Record
from upstreams.model.archetypes import audit as made
from upstreams.model.endpoint import Platform
from upstreams.model.errors import UNREADABLE, InvalidArgument, PartUnavailable
from upstreams.model.fields import total_of, values
from upstreams.model.params import Args
from upstreams.model.steps import Missing, Single, Steps

MEMBERS: Final = 8
_BUDGET_S: Final = 6.5
_COMMENTS_LEAST: Final = 2
_BASIS: Final = "posts: posts_count of each profile; comments: the mean of the sampled posts x posts_count"
_DISCLAIMER: Final = (
    "This score weighs public evidence by fixed weights and does not judge a person. The same name on two platforms "
    "may belong to different people."
)


def audit(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return the audit of the username in `handle`."""
    slugs = args.text("platforms").split(",")
    if len(slugs) > MEMBERS:
        raise InvalidArgument("platforms", f"may have at most {MEMBERS} entries, not {len(slugs)}")
    handle, wanted = args.text("handle"), of_slugs(platforms, slugs)
    with_posts = [one for one in wanted if one.playing("profile_posts") is not None]
    parts = [profile_part(one, handle, _BUDGET_S) for one in wanted]
    parts += [
        part_of(
            one,
            "profile_posts",
            named(one, "profile_posts", handle),
            rows=args.number("sample"),
            within_s=_BUDGET_S,
        )
        for one in with_posts
    ]
    settled = yield from attempt(parts)
    profiles = {leg.platform: leg for leg in settled[: len(wanted)]}
    posts = {leg.platform: leg for leg in settled[len(wanted) :]}
    check_any([*profiles.values()])
    blocks = [_Block(one, profiles[one.slug], posts.get(one.slug), args) for one in wanted]
    return Single(_audited(handle, blocks, args), legs=legs_of(settled))


class _Block:
    """The part of an audit that concerns one platform."""

    def __init__(self, platform: Platform, profile: Settled, posts: Settled | None, args: Args) -> None:
        self.platform = platform
        self.slug = platform.slug
        self.profile = profile
        self.author = profile.record
        self._posts = posts
        self._at = values.instant(args.now_at)
        records = posts.records[: args.number("sample")] if posts is not None and posts.answer else None
        self.signals = None if self.author is None else scoring.signals_of(self.author, records, args.now_at)
        self.scored: Scored | None = None
        endpoint = platform.playing("profile")
        if self.author is not None and self.signals is not None and endpoint is not None:
            self.scored = scoring.score_of(self.author, self.signals, endpoint.unfilled)

    @property
    def is_skipped(self) -> bool:
        """Whether nothing is known about the account, because its profile could not be read."""
        return self.author is None and not self.profile.is_absent

    def evidence(self) -> Record:
        """Return whether the profile and the posts could be read, as states of the response."""
        profile = "live" if self.author is not None else "not_found" if self.profile.is_absent else "unavailable"
        return {
            "profile": self._evidence(profile, self.profile),
            "posts": self._evidence(self._posts_state(), self._posts),
        }

    def _posts_state(self) -> str:
        if self._posts is None:
            return "not_supported"
        if not self._posts.answer:
            return "not_found" if self._posts.is_absent else "unavailable"
        return "sampled" if self._posts.records else "observed_empty"

    def _evidence(self, state: str, leg: Settled | None) -> Record:
        is_there = leg is not None and bool(leg.answer)
        return {
            "state": state,
            "captured_at": self._at if is_there else None,
            "stale_age_seconds": None,
            "failure_reason": None if leg is None else _failure_reason(leg),
        }

    def record(self) -> Record:
        """Return this platform's block in the response."""
        scored, author = self.scored, self.author
        verdict = "not_found" if self.profile.is_absent else scoring.verdict_of(scored and scored.score)
        result = scored or scoring.NOTHING
        return {
            "found": author is not None,
            "verdict": verdict,
            "score": result.score,
            "score_status": result.status,
            "score_components": result.components,
            "component_availability": {name: value is not None for name, value in result.components.items()},
            "component_coverage": scoring.coverage_of({self.slug: result}),
            "effective_weights": result.weights,
            "available_weight": result.available,
            "author": author
            and {name: author[name] for name in ("id", "username", "followers", "verified", "posts_count")},
            "signals": self.signals,
            "evidence": self.evidence(),
            "recommended_endpoints": self._recommended() if verdict in ("pull", "pull_partial") else [],
        }

    def _recommended(self) -> list[str]:
        found = (self.platform.playing("profile_posts"), self.platform.playing("comments"))
        return [f"/v1/{self.slug}/{one.resource}" for one in found if one is not None]

    @property
    def posts_estimate(self) -> int | None:
        """The account's number of posts, as its profile states it."""
        return None if self.signals is None else self.signals["posts_total"]

    @property
    def comments_estimate(self) -> int | None:
        """The estimated number of comments on all the account's posts, extrapolated from the sampled posts."""
        mean: float | None = None if self.signals is None else self.signals["avg_comments_per_post"]
        posts = self.posts_estimate
        return None if mean is None or posts is None else round(mean * posts)

    def pull_cost(self, *, comments: bool) -> int | None:
        """Return the credits needed to read all posts page by page.

        With `comments`, the comments on each post are included.
        """
        endpoint, posts = self.platform.playing("profile_posts"), self.posts_estimate
        if endpoint is None or posts is None:
            return None
        size = next((one.maximum or 20 for one in endpoint.params if one.name == "limit"), 20)
        pages = -(-posts // size)
        has_comments = comments and self.platform.playing("comments") is not None
        return pages + (_COMMENTS_LEAST * posts if has_comments else 0)


def _failure_reason(leg: Settled) -> str | None:
    answer = leg.answer
    if not isinstance(answer, Missing) or answer.absent:
        return None
    if isinstance(answer.failure, InvalidArgument | PartUnavailable):
        return None
    if answer.late:
        return "timeout"
    is_odd = answer.failure is not None and isinstance(answer.failure.__cause__, UNREADABLE)
    return "invalid_response" if is_odd else "upstream_error"


def _audited(handle: str, blocks: Sequence[_Block], args: Args) -> Record:
    found = {one.slug: one.scored for one in blocks if one.scored is not None}
    whole = scoring.whole_of(found)
    now = values.instant(args.now_at)
    records = {one.slug: one.record() for one in blocks}
    components = whole.scored.components
    return made.audited(
        handle=handle,
        verdict=scoring.verdict_of(whole.score),
        score=whole.score,
        score_status=_status(whole, found),
        score_version=scoring.VERSION,
        evidence_fingerprint=_fingerprint(records),
        computed_at=now,
        evidence_as_of=made.as_of(oldest=now, newest=now),
        confidence=_confidence(blocks, whole.scored.available),
        evaluated_platforms=list(found),
        skipped_platforms=[one.slug for one in blocks if one.is_skipped],
        stale_platforms=[],
        best_platforms=list(whole.best[:3]),
        score_components=dict(components),
        component_availability={name: value is not None for name, value in components.items()},
        component_coverage=scoring.coverage_of(found),
        effective_weights=dict(whole.scored.weights),
        available_weight=whole.scored.available,
        score_aggregation=made.aggregation(
            best_platform=whole.best[0] if whole.best else None,
            best_score=found[whole.best[0]].score if whole.best else None,
            mean_score=whole.mean,
            best_weight=scoring.BEST_WEIGHT,
            mean_weight=scoring.MEAN_WEIGHT,
        ),
        surface=_surface(blocks),
        platforms=records,
        disclaimer=_DISCLAIMER,
    )


def _status(whole: scoring.Overall, found: Mapping[str, Scored]) -> str:
    if whole.score is None:
        return "insufficient_evidence"
    return "complete" if all(one.status == "complete" for one in found.values()) else "partial"


def _fingerprint(records: Mapping[str, Record]) -> str:
    """Return a digest of the data from which the scores are computed."""
    evidence = {slug: {"author": one["author"], "signals": one["signals"]} for slug, one in records.items()}
    return sha256(orjson.dumps(evidence, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _confidence(blocks: Sequence[_Block], available: float) -> Record:
    """Return the confidence in the score.

    It depends on how many reads succeeded and on the weight of the known components.
    """
    states = [state for one in blocks for state in _states(one.evidence())]
    good = sum(state in ("live", "sampled", "observed_empty", "not_found") for state in states)
    share = good / len(states)
    tier = "high" if share >= 0.8 and available >= 0.8 else "medium" if share >= 0.5 and available >= 0.5 else "low"
    reason = f"{good} of {len(states)} reads succeeded; components with a total weight of {available:g} are known"
    return made.confidence(tier=tier, reason=reason)


def _states(evidence: Mapping[str, Any]) -> list[str]:
    states = (evidence["profile"]["state"], evidence["posts"]["state"])
    return [state for state in states if state != "not_supported"]


def _surface(blocks: Sequence[_Block]) -> Record:
    found = [one for one in blocks if one.author is not None]
    posts = {one.slug: one.posts_estimate for one in found}
    comments = {one.slug: one.comments_estimate for one in found}
    return made.surface(
        posts_estimate={**posts, "total": total_of(posts.values())},
        comments_estimate={**comments, "total": total_of(comments.values())},
        estimate_basis=_BASIS,
        pull_cost_estimate_credits=made.pull_cost(
            posts_only=total_of(one.pull_cost(comments=False) for one in found),
            posts_and_comments=total_of(one.pull_cost(comments=True) for one in found),
        ),
    )
