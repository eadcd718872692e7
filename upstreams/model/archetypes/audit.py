"""The audit of a username across platforms: scores and their evidence (composites 1.1)."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record


def audit_components(
    *,
    presence: Annotated[float | None, "How complete the profile is."],
    audience: Annotated[float | None, "How large the audience is."],
    engagement: Annotated[float | None, "How much readers interact, compared with the usual rate."],
    activity: Annotated[float | None, "How recently and how often the account posts."],
    content_richness: Annotated[float | None, "How much text and media the posts contain."],
) -> Record:
    """The five components of the score, 0 to 100 each; null for a component without evidence."""
    return locals()


def component_weights(
    *,
    presence: Annotated[float | None, "Weight of presence, out of 0.10."],
    audience: Annotated[float | None, "Weight of audience, out of 0.25."],
    engagement: Annotated[float | None, "Weight of engagement, out of 0.25."],
    activity: Annotated[float | None, "Weight of activity, out of 0.25."],
    content_richness: Annotated[float | None, "Weight of content richness, out of 0.15."],
) -> Record:
    """The weights of the components. The weights of the available components add up to 1; the others are null."""
    return locals()


def aggregation(
    *,
    best_platform: Annotated[str | None, "The platform with the highest score."],
    best_score: Annotated[int | None, "The highest score."],
    mean_score: Annotated[float | None, "The mean score of all platforms that have one."],
    best_weight: Annotated[float, "Weight of the highest score in the total score."],
    mean_weight: Annotated[float, "Weight of the mean score in the total score."],
) -> Record:
    """How the scores of the platforms are combined into one."""
    return locals()


def confidence(
    *,
    tier: Annotated[str, "high, medium or low."],
    reason: Annotated[str, "How much of the evidence is available."],
) -> Record:
    """How reliable the score is."""
    return locals()


def as_of(
    *,
    oldest: Annotated[Instant, "Time of the oldest evidence."],
    newest: Annotated[Instant, "Time of the newest evidence."],
) -> Record:
    """Age of the evidence."""
    return locals()


def pull_cost(
    *,
    posts_only: Annotated[int | None, "Credits to read all posts."],
    posts_and_comments: Annotated[int | None, "Credits to read all posts and their comments."],
) -> Record:
    """The credits needed to read the account."""
    return locals()


def surface(
    *,
    posts_estimate: Annotated[Record, "Estimated posts by platform, and `total`; null if unknown."],
    comments_estimate: Annotated[Record, "Estimated comments by platform, and `total`; null if unknown."],
    estimate_basis: Annotated[str, "How the counts are estimated."],
    pull_cost_estimate_credits: Annotated[Record, Of(pull_cost), "The credits needed to read the posts and comments."],
) -> Record:
    """The amount of content of the account."""
    return locals()


def audited(  # noqa: PLR0913 - one argument per field of the answer
    *,
    handle: Annotated[str, "The name as sent in the request."],
    verdict: Annotated[str, "pull, pull_partial, skip or insufficient_evidence."],
    score: Annotated[
        int | None, ("0 to 100: 0.7 of the best platform's score plus 0.3 of the mean; null without evidence.")
    ],
    score_status: Annotated[str, "complete, partial or insufficient_evidence."],
    score_version: Annotated[str, "Version of the weights and thresholds."],
    evidence_fingerprint: Annotated[str, "A digest of the evidence. The same evidence gives the same score."],
    computed_at: Annotated[Instant, "When the score was computed."],
    evidence_as_of: Annotated[Record, Of(as_of), "Age of the evidence."],
    confidence: Annotated[Record, Of(confidence), "How reliable the score is."],
    evaluated_platforms: Annotated[list[str], "Platforms that have the account."],
    skipped_platforms: Annotated[list[str], "Platforms that could not be read, or that do not allow such a name."],
    stale_platforms: Annotated[
        list[str], ("Platforms with outdated evidence. Always empty, because evidence is not stored.")
    ],
    best_platforms: Annotated[list[str], "Up to three platforms with a score, best first."],
    score_components: Annotated[Record, Of(audit_components), "Mean of each component over the platforms."],
    component_availability: Annotated[Record, "Whether each component is available."],
    component_coverage: Annotated[Record, "Each component's platform coverage: complete, partial or unavailable."],
    effective_weights: Annotated[Record, Of(component_weights), "The weights of the available components."],
    available_weight: Annotated[float, "The sum of the full weights of the available components, 0 to 1."],
    score_aggregation: Annotated[Record, Of(aggregation), "How the platforms' scores are combined."],
    surface: Annotated[Record, Of(surface), "The amount of content of the account."],
    platforms: Annotated[Record, "Each platform by slug: the same score blocks, the account, signals and evidence."],
    disclaimer: Annotated[str, "The limitations of the score."],
) -> Record:
    """How much content a username has across platforms, and whether that content is worth reading."""
    return locals()


HANDLE_AUDIT = Archetype("HandleAudit", "", audited, has_legs=True)
ARCHETYPES = (HANDLE_AUDIT,)
