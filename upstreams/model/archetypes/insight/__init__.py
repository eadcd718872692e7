"""The responses of composites that count, compare or rank data from several platforms (decisions 18)."""

from upstreams.model.archetypes.insight import crisis, stores, threads, words

ARCHETYPES = (
    *(words.MENTIONS, words.BRAND_MENTIONS, crisis.CRISIS_RADAR, words.CAMPAIGN),
    *(threads.DEVTOOL_PULSE, threads.LAUNCH_ECHO, threads.ORG_RADAR, threads.AUDIENCE_QUESTIONS, threads.LEADS),
    *(stores.APP_REVIEWS, stores.APPS_LOOKUP),
)
"""The archetypes of the insight endpoints."""
__all__ = ["ARCHETYPES", "crisis", "stores", "threads", "words"]
