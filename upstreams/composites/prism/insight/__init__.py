"""Prism's composites that count, compare and rank mentions, code and apps (decisions 18)."""

from __future__ import annotations

from functools import partial

from upstreams.composites.legs import playing, with_missing
from upstreams.composites.params import number, several
from upstreams.composites.prism.apps import stores
from upstreams.composites.prism.insight import (
    campaign,
    crisis,
    devtools,
    launch,
    leads,
    mentions,
    org,
    questions,
)
from upstreams.composites.prism.insight.days import GROUPS, day_param
from upstreams.model.archetypes.insight import crisis as radar
from upstreams.model.archetypes.insight import threads, words
from upstreams.model.endpoint import Endpoint, Platform, PriceRange, fixed
from upstreams.model.params import Param, limit

PHRASE = Param(
    "phrase", "The phrase to search for, exactly as posts spell it.", "structured concurrency", required=True
)
KEYWORD = Param("keyword", "The brand's name, as posts spell it. Quotes around it are ignored.", "Acme", required=True)
BRAND = Param("brand", "The brand's name, as posts spell it.", "Acme", required=True)
SENSITIVITY = Param(
    "sensitivity", "Standard deviations that count as a breach, 0.5 to 6.", "2.5", default="2.0", length_max=10
)
_PULSE_PARTS = (
    "Comma-separated parts: hn, reddit, threads (on all other platforms), blogs (sites that threads link to), dossier. "
    "Default: all."
)
_FROM, _TO = day_param("date_from", "The first day"), day_param("date_to", "The last day (default: today)")


def endpoints(platforms: tuple[Platform, ...]) -> tuple[Endpoint, ...]:
    """Return all insight endpoints over these platforms."""
    searched = with_missing(playing(platforms, "search"), ("reddit",))
    on = several(
        "platforms",
        "Comma-separated slugs of the platforms to search (default: all).",
        (one.slug for one in searched),
    )
    return (
        *_of_words(searched, on),
        *_of_brands(searched, on),
        *_of_code(platforms, searched),
        _of_organizations(playing(platforms, "repositories")),
        *_of_audiences(searched, on),
        *stores.of_stores(with_missing(playing(platforms, "app", "app_reviews", "app_search"), ("google_play",))),
    )


def _of_words(searched: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            resource="mentions",
            summary="Dated mentions of a phrase on every platform that can be searched.",
            archetype=words.MENTIONS,
            read=partial(mentions.mentions, searched),
            params=(PHRASE, on, _FROM, _TO, limit(100, 50)),
            price=fixed(1),
            kind="search",
        ),
        Endpoint(
            resource="brand-mentions",
            summary="Mentions of a brand by day, week or month, with their tone and sources.",
            archetype=words.BRAND_MENTIONS,
            read=partial(mentions.brand_mentions, searched),
            params=(
                KEYWORD,
                day_param("date_from", "The first day", required=True),
                _TO,
                Param("date_group", "The period of each value in the series.", "week", default="day", choices=GROUPS),
                Param("page_type", "Only pages of this kind.", mentions.BOARDS, choices=mentions.PAGE_TYPES),
                on,
            ),
            price=fixed(50),
            kind="analytics",
        ),
    )


def _of_brands(searched: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            resource="crisis-radar",
            summary="Detect whether a brand is mentioned more often, or more negatively, than usual.",
            archetype=radar.CRISIS_RADAR,
            read=partial(crisis.crisis_radar, searched),
            params=(
                BRAND,
                SENSITIVITY,
                Param(
                    "confirm",
                    "Whether to verify a breach with all searches and the comments on the day's mentions.",
                    "true",
                    "boolean",
                    default=False,
                ),
                number("baseline_days", "Number of baseline days before the tested day", 7, least=3, most=30),
                day_param("date_to", "The day to test (default: today)"),
                on,
            ),
            price=PriceRange(
                15,
                45,
                "15, plus 30 with confirm=true if there is a breach.",
                crisis.price_span,
                is_most_usual=False,
            ),
            kind="analytics",
        ),
        Endpoint(
            resource="campaign",
            summary="The effect of a campaign: daily mentions before, during and after it, and its top accounts.",
            archetype=words.CAMPAIGN,
            read=partial(campaign.campaign, searched),
            params=(
                Param("phrase", "The phrase of the campaign, as posts spell it.", "structured concurrency"),
                Param("hashtag", "The campaign's hashtag.", "python", strip="#"),
                day_param("window_start", "First day of the campaign (default: 30 days before the last)"),
                day_param("window_end", "Last day of the campaign (default: today)"),
                number("pre_days", "Days before the campaign to compare it with", 14, least=1, most=90),
                number("post_days", "Days after the campaign to compare it with", 14, least=0, most=90),
                several("include", "amplifier_dates: the days on which each amplifier posted.", ("amplifier_dates",)),
                on,
            ),
            one_of=(("phrase", "hashtag"),),
            price=fixed(35),
            kind="analytics",
        ),
    )


def _of_code(platforms: tuple[Platform, ...], threaded: tuple[Platform, ...]) -> tuple[Endpoint, ...]:
    dossiers = playing(platforms, "dossier", "repository_search")
    repo = Param(
        "repo", "The repository's URL, or owner/name (default: the best match for the query).", "python-trio/trio"
    )
    return (
        Endpoint(
            resource="devtool-pulse",
            summary="The health of a developer tool: its repository, and its mentions in threads.",
            archetype=threads.DEVTOOL_PULSE,
            read=partial(devtools.devtool_pulse, dossiers, threaded),
            params=(
                Param("query", "The tool's name, as threads spell it.", "trio", required=True),
                repo,
                Param("subreddit", "The Reddit community to search.", "python", fold=True),
                several("include", _PULSE_PARTS, devtools.PULSE_PARTS),
                _FROM,
                _TO,
            ),
            price=fixed(20),
            kind="analytics",
        ),
        Endpoint(
            resource="launch-echo",
            summary="Reactions to a launch: the threads with the most points, and their comments.",
            archetype=threads.LAUNCH_ECHO,
            read=partial(
                launch.launch_echo, dossiers, threaded, tuple(host for one in platforms for host in one.hosts)
            ),
            params=(
                Param("query", "The name of the launched product, as threads spell it.", "trio", required=True),
                Param("repo", "The repository's URL, or owner/name.", "python-trio/trio"),
                number("threads", "Number of threads whose comments are read", 3, least=1, most=10),
                several("include", "Comma-separated parts (default: all).", launch.ECHO_PARTS),
                _FROM,
                _TO,
            ),
            price=fixed(20),
            kind="analytics",
        ),
    )


def _of_organizations(listed: tuple[Platform, ...]) -> Endpoint:
    return Endpoint(
        resource="org-radar",
        summary="An organization's repositories, with totals and a dossier for each top repository.",
        archetype=threads.ORG_RADAR,
        read=partial(org.org_radar, listed),
        params=(
            Param(
                "org",
                "The organization's login, or its URL.",
                "python-trio",
                required=True,
                length_max=255,
                strip="@",
            ),
            Param(
                "platform",
                "The slug of the organization's platform, unless org is a URL.",
                "gitlab",
                default="github",
                choices=tuple(one.slug for one in listed),
            ),
            number("repos", "Number of repositories with a dossier", 5, least=1, most=10),
            Param(
                "sort",
                "The order that selects the repositories with a dossier.",
                "pushed",
                default="stars",
                choices=org.SORTS,
            ),
            several("include", "Comma-separated parts (default: all).", org.PARTS),
        ),
        price=PriceRange(1, 51, "1, plus 5 per dossier returned.", org.span_of),
        kind="analytics",
    )


def _of_audiences(threaded: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            resource="audience-questions",
            summary="Questions that people ask about a topic, with similar ones grouped.",
            archetype=threads.AUDIENCE_QUESTIONS,
            read=partial(questions.audience_questions, threaded),
            params=(
                Param("topic", "The topic, as threads spell it.", "structured concurrency", required=True),
                on,
                number("max_questions", "Number of questions to return", 20, least=1, most=100),
                number("threads_per_source", "Threads per platform whose comments are read", 3, least=1, most=10),
                Param("timeframe", "Maximum age of threads.", "month", default="all", choices=questions.TIMEFRAMES),
                several("include", "web: also search web pages, if the operator configured a search engine.", ("web",)),
            ),
            price=fixed(30),
            kind="analytics",
        ),
        Endpoint(
            resource="leads",
            summary="Posts by people looking for an alternative to a product, with a rule-based score.",
            archetype=threads.LEADS,
            read=partial(leads.leads, threaded),
            params=(
                Param("competitor", "The product to replace.", "Acme", required=True, length_max=80),
                Param(
                    "product_category",
                    "The product's category. Posts that mention this category score higher.",
                    "task manager",
                ),
                Param("offer", "Your product. Shared words add to the score.", "a fast task manager", length_max=300),
                Param("freshness", "Maximum age: 30d, 4w, 2m, or a start date.", "4w", default="30d", length_max=40),
                limit(100, 50),
                several("include", "comments: also search the comments on the posts.", ("comments",)),
                on,
            ),
            price=fixed(50),
            kind="analytics",
        ),
    )
