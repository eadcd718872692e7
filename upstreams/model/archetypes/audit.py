"""The audit of a name on many platforms: scores, and the evidence that they rest on (composites 1.1)."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record


def audit_components(
    *,
    presence: Annotated[float | None, "How filled the profile is."],
    audience: Annotated[float | None, "How many follow."],
    engagement: Annotated[float | None, "How much readers do, beside what is usual."],
    activity: Annotated[float | None, "How lately and how often it posts."],
    content_richness: Annotated[float | None, "How much there is to read and to see in a post."],
) -> Record:
    """The five components of a score, 0 to 100 each; null where the evidence for one is missing."""
    return locals()


def component_weights(
    *,
    presence: Annotated[float | None, "Of 0.10."],
    audience: Annotated[float | None, "Of 0.25."],
    engagement: Annotated[float | None, "Of 0.25."],
    activity: Annotated[float | None, "Of 0.25."],
    content_richness: Annotated[float | None, "Of 0.15."],
) -> Record:
    """The weights of the components, scaled so that those that could be told add up to 1; null for the others."""
    return locals()


def aggregation(
    *,
    best_platform: Annotated[str | None, "The platform with the best score."],
    best_score: Annotated[int | None, "Its score."],
    mean_score: Annotated[float | None, "The mean of the scores of all platforms that have one."],
    best_weight: Annotated[float, "The weight of the best score in the whole one."],
    mean_weight: Annotated[float, "The weight of the mean."],
) -> Record:
    """How the score follows from those of the platforms."""
    return locals()


def confidence(
    *,
    tier: Annotated[str, "high, medium or low."],
    reason: Annotated[str, "How much of the evidence is there."],
) -> Record:
    """How far the score can be relied on."""
    return locals()


def as_of(
    *,
    oldest: Annotated[Instant, "The oldest evidence."],
    newest: Annotated[Instant, "The newest."],
) -> Record:
    """When the evidence is from."""
    return locals()


def pull_cost(
    *,
    posts_only: Annotated[int | None, "For all its posts."],
    posts_and_comments: Annotated[int | None, "For all its posts and the comments on them."],
) -> Record:
    """The credits that it would take to read the account."""
    return locals()


def surface(
    *,
    posts_estimate: Annotated[Record, "Posts by platform, and `total`; null where they are not told."],
    comments_estimate: Annotated[Record, "Comments by platform, and `total`, likewise."],
    estimate_basis: Annotated[str, "How they are estimated."],
    pull_cost_estimate_credits: Annotated[Record, Of(pull_cost), "The credits that it would take to read them."],
) -> Record:
    """How much there is to read."""
    return locals()


def audited(  # noqa: PLR0913 - one argument a field of the answer
    *,
    handle: Annotated[str, "The name as it was sent."],
    verdict: Annotated[str, "pull, pull_partial, skip or insufficient_evidence."],
    score: Annotated[int | None, "0 to 100: 0.7 of the best platform's and 0.3 of the mean; null without evidence."],
    score_status: Annotated[str, "complete, partial or insufficient_evidence."],
    score_version: Annotated[str, "The version of weights and thresholds."],
    evidence_fingerprint: Annotated[str, "A digest of the evidence: the same evidence gives the same score."],
    computed_at: Annotated[Instant, "The time of this score."],
    evidence_as_of: Annotated[Record, Of(as_of), "When the evidence is from."],
    confidence: Annotated[Record, Of(confidence), "How far the score can be relied on."],
    evaluated_platforms: Annotated[list[str], "Platforms that have the account."],
    skipped_platforms: Annotated[list[str], "Platforms that could not be read, or not by such a name."],
    stale_platforms: Annotated[list[str], "Platforms of which the evidence is old: none, since none is kept."],
    best_platforms: Annotated[list[str], "The platforms with a score, best first, three at most."],
    score_components: Annotated[Record, Of(audit_components), "The mean of each component over the platforms."],
    component_availability: Annotated[Record, "Whether each could be told."],
    component_coverage: Annotated[Record, "On how many platforms each was told: complete, partial or unavailable."],
    effective_weights: Annotated[Record, Of(component_weights), "The weights of those that were told."],
    available_weight: Annotated[float, "The full weights of those, 0 to 1."],
    score_aggregation: Annotated[Record, Of(aggregation), "How the score follows from the platforms'."],
    surface: Annotated[Record, Of(surface), "How much there is to read."],
    platforms: Annotated[Record, "Each platform by its slug: the same score blocks, the account, signals, evidence."],
    disclaimer: Annotated[str, "The limits of such a score."],
) -> Record:
    """How much there is of a name on many platforms, and whether it is worth reading."""
    return locals()


HANDLE_AUDIT = Archetype("HandleAudit", "", audited, has_legs=True)
