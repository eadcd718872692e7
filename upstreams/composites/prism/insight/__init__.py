"""Prism's composites that count, compare and rank (decisions 18): mentions, code, and apps."""

from __future__ import annotations

from functools import partial

from upstreams.composites.legs import foreseen, playing
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

PHRASE = Param("phrase", "The words to look for, as they stand in posts.", "structured concurrency", required=True)
KEYWORD = Param(
    "keyword", "The brand's name, as it stands in posts; quotes around it make no difference.", "Acme", required=True
)
BRAND = Param("brand", "The brand's name, as it stands in posts.", "Acme", required=True)
SENSITIVITY = Param(
    "sensitivity", "Standard deviations from which on it is a breach, 0.5 to 6.", "2.5", default="2.0", length_max=10
)
_PULSE_PARTS = (
    "The parts, commas between: hn and reddit, the threads of these two; threads, of all others; blogs, the sites that "
    "they link to; dossier. All when absent."
)
_FROM, _TO = day_param("date_from", "The first day"), day_param("date_to", "The last day; today when absent")


def endpoints(platforms: tuple[Platform, ...]) -> tuple[Endpoint, ...]:
    """All of them, over these platforms."""
    searched = foreseen(playing(platforms, "search"), ("reddit",))
    on = several(
        "platforms",
        "Slugs of the platforms to search, with commas between; all when absent.",
        (one.slug for one in searched),
    )
    return (
        *_of_words(searched, on),
        *_of_brands(searched, on),
        *_of_code(platforms, searched),
        _of_organizations(playing(platforms, "repositories")),
        *_of_audiences(searched, on),
        *stores.of_stores(foreseen(playing(platforms, "app", "app_reviews", "app_search"), ("google_play",))),
    )


def _of_words(searched: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "mentions",
            "Dated mentions of a phrase on every platform that can be searched.",
            words.MENTIONS,
            partial(mentions.mentions, searched),
            (PHRASE, on, _FROM, _TO, limit(100, 50)),
            price=fixed(1),
            kind="search",
        ),
        Endpoint(
            "brand-mentions",
            "The mentions of a brand by day, week or month, with their tone and where they come from.",
            words.BRAND_MENTIONS,
            partial(mentions.brand_mentions, searched),
            (
                KEYWORD,
                day_param("date_from", "The first day", required=True),
                _TO,
                Param("date_group", "The span of a value of the series.", "week", default="day", choices=GROUPS),
                Param("page_type", "Kind of pages.", mentions.BOARDS, choices=mentions.PAGE_TYPES),
                on,
            ),
            price=fixed(50),
            kind="analytics",
        ),
    )


def _of_brands(searched: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "crisis-radar",
            "Whether a brand is spoken of more, or worse, than on the days before.",
            radar.CRISIS_RADAR,
            partial(crisis.crisis_radar, searched),
            (
                BRAND,
                SENSITIVITY,
                Param(
                    "confirm",
                    "Whether a breach is looked at again: over all searches, and the comments on the day's mentions.",
                    "true",
                    "boolean",
                    default=False,
                ),
                number("baseline_days", "The days before that are the usual", 7, least=3, most=30),
                day_param("date_to", "The day that is judged; today when absent"),
                on,
            ),
            price=PriceRange(
                15,
                45,
                "15, and 30 with confirm=true where there is a breach.",
                crisis.price_span,
                is_most_usual=False,
            ),
            kind="analytics",
        ),
        Endpoint(
            "campaign",
            "What a campaign changed: mentions a day before, during and after it, and who carried it.",
            words.CAMPAIGN,
            partial(campaign.campaign, searched),
            (
                Param("phrase", "The words of the campaign, as they stand in posts.", "structured concurrency"),
                Param("hashtag", "Its hashtag.", "python", strip="#"),
                day_param("window_start", "Its first day; 30 before the last when absent"),
                day_param("window_end", "Its last day; today when absent"),
                number("pre_days", "Days before it to compare with", 14, least=1, most=90),
                number("post_days", "Days after it", 14, least=0, most=90),
                several("include", "amplifier_dates: the days on which each amplifier spoke.", ("amplifier_dates",)),
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
        "repo", "The repository's address, or owner/name; the best match of the query when absent.", "python-trio/trio"
    )
    return (
        Endpoint(
            "devtool-pulse",
            "How alive a tool for developers is: its repository, and what is said of it in threads.",
            threads.DEVTOOL_PULSE,
            partial(devtools.devtool_pulse, dossiers, threaded),
            (
                Param("query", "The tool's name, as it stands in threads.", "trio", required=True),
                repo,
                Param("subreddit", "The one community of Reddit that is searched.", "python", fold=True),
                several("include", _PULSE_PARTS, devtools.PULSE_PARTS),
                _FROM,
                _TO,
            ),
            price=fixed(20),
            kind="analytics",
        ),
        Endpoint(
            "launch-echo",
            "What readers said of a launch: the threads with the most points, and their comments.",
            threads.LAUNCH_ECHO,
            partial(launch.launch_echo, dossiers, threaded, tuple(host for one in platforms for host in one.hosts)),
            (
                Param("query", "The name of what was launched, as it stands in threads.", "trio", required=True),
                Param("repo", "Its repository's address, or owner/name.", "python-trio/trio"),
                number("threads", "Threads whose comments are read", 3, least=1, most=10),
                several("include", "The parts, with commas between; all when absent.", launch.ECHO_PARTS),
                _FROM,
                _TO,
            ),
            price=fixed(20),
            kind="analytics",
        ),
    )


def _of_organizations(listed: tuple[Platform, ...]) -> Endpoint:
    return Endpoint(
        "org-radar",
        "The repositories of an organization, a dossier of each of the first, and all of them together.",
        threads.ORG_RADAR,
        partial(org.org_radar, listed),
        (
            Param(
                "org",
                "The organization's login, or its address.",
                "python-trio",
                required=True,
                length_max=255,
                strip="@",
            ),
            Param(
                "platform",
                "The slug of its platform, where org is no address.",
                "gitlab",
                default="github",
                choices=tuple(one.slug for one in listed),
            ),
            number("repos", "Repositories with a dossier", 5, least=1, most=10),
            Param("sort", "Which of them are the first.", "pushed", default="stars", choices=org.SORTS),
            several("include", "The parts, with commas between; all when absent.", org.PARTS),
        ),
        price=PriceRange(1, 51, "One, and five for each dossier that came.", org.span_of),
        kind="analytics",
    )


def _of_audiences(threaded: tuple[Platform, ...], on: Param) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "audience-questions",
            "The questions that an audience asks about a topic, like ones put together.",
            threads.AUDIENCE_QUESTIONS,
            partial(questions.audience_questions, threaded),
            (
                Param("topic", "The topic, as it stands in threads.", "structured concurrency", required=True),
                on,
                number("max_questions", "Questions of the answer", 20, least=1, most=100),
                number("threads_per_source", "Threads of each platform whose comments are read", 3, least=1, most=10),
                Param("timeframe", "How old threads may be.", "month", default="all", choices=questions.TIMEFRAMES),
                several("include", "web: pages of the web too, where the operator has a search engine.", ("web",)),
            ),
            price=fixed(30),
            kind="analytics",
        ),
        Endpoint(
            "leads",
            "Posts of people who look for something else than a product, scored in code.",
            threads.LEADS,
            partial(leads.leads, threaded),
            (
                Param("competitor", "The product that they leave or compare.", "Acme", required=True, length_max=80),
                Param("product_category", "Its kind, whose words give points.", "task manager"),
                Param("offer", "Your product; its words give points.", "a fast task manager", length_max=300),
                Param("freshness", "How old posts may be: 30d, 4w, 2m, or a day.", "4w", default="30d", length_max=40),
                limit(100, 50),
                several("include", "comments: comments on the posts too.", ("comments",)),
                on,
            ),
            price=fixed(50),
            kind="analytics",
        ),
    )
