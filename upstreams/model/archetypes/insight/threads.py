"""Threads about code and topics, and the repositories of an organization."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.code import release
from upstreams.model.archetypes.code import repository as repository_record
from upstreams.model.archetypes.composites import dossier as dossier_record
from upstreams.model.archetypes.insight.words import day, share, source, tones, window
from upstreams.model.archetypes.posts import comment as comment_record
from upstreams.model.archetypes.posts import post as post_record
from upstreams.model.archetypes.shape import Archetype, Of, Record


def top_issues(
    *,
    top_feature_request: Annotated[Record | None, Of(post_record), "The open feature request with the most reactions."],
    top_complaint: Annotated[Record | None, Of(post_record), "The open problem report with the most reactions."],
) -> Record:
    """The most important issues, found by their labels and titles."""
    return locals()


def project(
    *,
    info: Annotated[Record | None, Of(repository_record), "The repository."],
    readme: Annotated[str | None, "The first 2,000 characters of the readme."],
    releases: Annotated[list[Record], Of(release), "The latest releases."],
    top_issues: Annotated[Record, Of(top_issues), "The most important issues."],
) -> Record:
    """A repository with its readme, releases and issues."""
    return locals()


def attention(
    *,
    window: Annotated[Record, Of(window), "The days that were searched."],
    mentions: Annotated[int, "Mentions in threads."],
    per_day: Annotated[float, "Mentions per day."],
    change_percent: Annotated[
        float | None, ("Change from the first half of the days to the second; null if the first half has no mentions.")
    ],
    daily_series: Annotated[list[Record], Of(day), "Mentions by day."],
    top_sources: Annotated[list[Record], Of(share), "The platforms with the most mentions."],
    top_domains: Annotated[list[Record] | None, Of(share), "The most linked websites; null if not requested."],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
) -> Record:
    """How much a subject is discussed."""
    return locals()


def scores(
    *,
    release_recency: Annotated[int | None, "100 for a release today, 0 for a release a year ago."],
    issue_load: Annotated[int | None, "100 without open issues, 0 with 50 or more per thousand stars."],
    attention: Annotated[int | None, "100 for five or more mentions per day."],
    momentum: Annotated[int | None, "50 if mentions did not change, 100 if they doubled, 0 if they stopped."],
) -> Record:
    """The parts of the pulse score, 0 to 100 each."""
    return locals()


def devtool_pulse(
    *,
    query: Annotated[str, "The search words."],
    pulse: Annotated[str | None, "strong, steady, cooling or quiet."],
    score: Annotated[int | None, "The mean of the known parts."],
    scores: Annotated[Record, Of(scores), "The parts of the score."],
    days_since_release: Annotated[int | None, "Days since the latest release."],
    open_issues_per_1000_stars: Annotated[float | None, "Open issues and pull requests per thousand stars."],
    dossier: Annotated[Record | None, Of(project), "The repository; null if not found."],
    attention: Annotated[Record | None, Of(attention), "How much the tool is discussed; null if no search answered."],
    tone: Annotated[
        Record | None,
        Of(tones),
        ("The tone of the threads and of the comments on the first three; null if no search answered."),
    ],
    top_threads: Annotated[list[Record], Of(post_record), "The ten threads with the most points and comments."],
    method: Annotated[str, "How the values are computed."],
) -> Record:
    """How active a developer tool is."""
    return locals()


def discussion(
    *,
    items: Annotated[list[Record], Of(comment_record), "The comments that were read."],
    total: Annotated[int | None, "Total number of comments; null if the platform does not report it."],
) -> Record:
    """The comments on a story."""
    return locals()


def story(
    *,
    platform: Annotated[str, "The platform's slug."],
    post: Annotated[Record, Of(post_record), "The thread."],
    comments: Annotated[
        Record | None,
        Of(discussion),
        ("The comments of the thread; null if they could not be read or were not requested."),
    ],
    tone: Annotated[Record | None, Of(tones), ("The tone of the comments, from a word list; null without comments.")],
) -> Record:
    """A thread about a launch."""
    return locals()


def blog(
    *,
    url: Annotated[str, "URL of the page, as the thread links to it."],
    domain: Annotated[str, "Host of the page."],
) -> Record:
    """A page about a launch."""
    return locals()


def launch_echo(
    *,
    query: Annotated[str, "The search words."],
    stories: Annotated[list[Record], Of(story), "The threads with the most points and comments."],
    threads_found: Annotated[int, "Number of threads found."],
    points: Annotated[int, "Total points of the threads, where known."],
    comments: Annotated[int, "Total comments on the threads, where known."],
    first_seen_at: Annotated[str | None, "Time of the earliest thread."],
    sites: Annotated[list[Record], Of(share), "The most linked websites."],
    blogs: Annotated[list[Record] | None, Of(blog), "Linked pages that are not on a platform; null if not requested."],
    tone: Annotated[Record, Of(tones), "The tone of all comments that were read."],
    dossier: Annotated[
        Record | None, Of(dossier_record), ("The repository; null if it was not requested or does not exist.")
    ],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
    method: Annotated[str, "How threads are chosen."],
) -> Record:
    """The discussion of a launch."""
    return locals()


def language_share(
    *,
    language: Annotated[str, "The main programming language."],
    repositories: Annotated[int, "Repositories with this main language."],
) -> Record:
    """A programming language of an organization."""
    return locals()


def rollup(
    *,
    repositories: Annotated[int, "Number of repositories, without forks and archived repositories."],
    stars: Annotated[int | None, "Total stars."],
    forks: Annotated[int | None, "Total forks."],
    open_issues: Annotated[int | None, "Total open issues and pull requests."],
    pushed_30d: Annotated[int | None, "Repositories pushed to in the last 30 days."],
    released_90d: Annotated[int | None, "Repositories with a dossier that had a release in the last 90 days."],
    languages: Annotated[list[Record], Of(language_share), "Programming languages, most frequent first."],
    licenses: Annotated[list[Record], Of(share), "Licenses, most frequent first."],
    last_pushed_at: Annotated[str | None, "Time of the most recent push."],
) -> Record:
    """Totals over an organization's repositories."""
    return locals()


def org_radar(
    *,
    platform: Annotated[str, "The platform's slug."],
    org: Annotated[str, "The organization's login."],
    repositories: Annotated[list[Record], Of(repository_record), "The repositories, in the requested order."],
    dossiers: Annotated[
        list[Record] | None, Of(dossier_record), ("The repositories with a dossier; null if not requested.")
    ],
    rollup: Annotated[Record | None, Of(rollup), "Totals over the repositories; null if not requested."],
) -> Record:
    """The repositories of an organization."""
    return locals()


def quote(
    *,
    text: Annotated[str, "The text of the question."],
    platform: Annotated[str, "The platform's slug."],
    url: Annotated[str | None, "URL of the page that contains the question."],
    likes: Annotated[int | None, "Likes or points of the post or comment."],
) -> Record:
    """An occurrence of a question."""
    return locals()


def question(
    *,
    question: Annotated[str, "The question, in the wording with the most likes."],
    count: Annotated[int, "How often the question occurs, in any wording."],
    platforms: Annotated[list[str], "Slugs of the platforms where the question occurs."],
    likes: Annotated[int, "Total likes of all occurrences, where known."],
    score: Annotated[float, "count x 2 + ln(1 + likes). The questions are sorted by this score."],
    quotes: Annotated[list[Record], Of(quote), "Up to five occurrences, most likes first."],
) -> Record:
    """A question that an audience asks."""
    return locals()


def audience_questions(
    *,
    topic: Annotated[str, "The search words."],
    questions: Annotated[list[Record], Of(question), "The questions, highest score first."],
    threads_read: Annotated[int, "Threads whose comments were read."],
    sentences_read: Annotated[int, "Questions found before similar ones were merged."],
    method: Annotated[str, "How questions are found, merged and ranked."],
) -> Record:
    """The questions that an audience asks about a topic."""
    return locals()


def lead(
    *,
    kind: Annotated[str, "post or comment."],
    platform: Annotated[str, "The platform's slug."],
    url: Annotated[str | None, "URL of the post or comment."],
    text: Annotated[str | None, "Text of the post or comment."],
    published_at: Annotated[str | None, "Time of publication."],
    likes: Annotated[int | None, "Likes or points."],
    comments: Annotated[int | None, "Comments."],
    phrase_matched: Annotated[str, "The phrase that was found; the strongest one if there are several."],
    intent_score: Annotated[int, "0 to 100: how likely it is that the author is looking for an alternative."],
    reasons: Annotated[list[str], "The reasons for the score."],
) -> Record:
    """A post by someone who is looking for another product. Accounts are not named."""
    return locals()


def leads(
    *,
    competitor: Annotated[str, "The product that the authors are leaving or comparing."],
    leads: Annotated[list[Record], Of(lead), "The posts and comments, highest score first."],
    counts_by_phrase: Annotated[Record, "Number of leads by phrase."],
    sources: Annotated[list[Record], Of(source), "Mentions and coverage by platform."],
    method: Annotated[str, "How the score is computed."],
) -> Record:
    """Posts by people who are looking for an alternative."""
    return locals()


DEVTOOL_PULSE = Archetype("DevtoolPulse", "", devtool_pulse, has_legs=True, findings=("top_threads", "dossier"))
LAUNCH_ECHO = Archetype("LaunchEcho", "", launch_echo, has_legs=True, findings=("threads_found", "dossier"))
ORG_RADAR = Archetype("OrgRadar", "", org_radar, has_legs=True, findings=("repositories",))
AUDIENCE_QUESTIONS = Archetype("AudienceQuestions", "", audience_questions, has_legs=True, findings=("questions",))
LEADS = Archetype("Leads", "", leads, has_legs=True, findings=("leads",))
