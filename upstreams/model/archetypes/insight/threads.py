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
    top_feature_request: Annotated[
        Record | None, Of(post_record), "The open issue with the most reactions that asks for something."
    ],
    top_complaint: Annotated[
        Record | None, Of(post_record), "The one with the most reactions that says that something is wrong."
    ],
) -> Record:
    """The issues that weigh most, by their labels and words."""
    return locals()


def project(
    *,
    info: Annotated[Record | None, Of(repository_record), "The repository."],
    readme: Annotated[str | None, "The first 2,000 characters of its readme."],
    releases: Annotated[list[Record], Of(release), "Its latest releases."],
    top_issues: Annotated[Record, Of(top_issues), "The issues that weigh most."],
) -> Record:
    """A repository and what surrounds it."""
    return locals()


def attention(
    *,
    window: Annotated[Record, Of(window), "The days that were looked at."],
    mentions: Annotated[int, "Mentions in threads."],
    per_day: Annotated[float, "Mentions a day."],
    change_percent: Annotated[float | None, "The second half of the days against the first; null without any there."],
    daily_series: Annotated[list[Record], Of(day), "Mentions by day."],
    top_sources: Annotated[list[Record], Of(share), "The platforms with the most."],
    top_domains: Annotated[list[Record] | None, Of(share), "The sites that they link to most; null where left out."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
) -> Record:
    """How much something is spoken of."""
    return locals()


def scores(
    *,
    release_recency: Annotated[int | None, "100 for a release of today, 0 for one a year ago."],
    issue_load: Annotated[int | None, "100 without open issues, 0 with 50 or more for each thousand stars."],
    attention: Annotated[int | None, "100 for five mentions a day and more."],
    momentum: Annotated[int | None, "50 for as many as before, 100 for twice as many, 0 for none."],
) -> Record:
    """The parts of a pulse, 0 to 100 each."""
    return locals()


def devtool_pulse(
    *,
    query: Annotated[str, "The words that were looked for."],
    pulse: Annotated[str | None, "strong, steady, cooling or quiet."],
    score: Annotated[int | None, "The mean of the parts that are known."],
    scores: Annotated[Record, Of(scores), "The parts."],
    days_since_release: Annotated[int | None, "Days since the latest release."],
    open_issues_per_1000_stars: Annotated[float | None, "Open issues and pull requests for each thousand stars."],
    dossier: Annotated[Record | None, Of(project), "The repository; null without one."],
    attention: Annotated[Record | None, Of(attention), "How much it is spoken of; null where no search answered."],
    tone: Annotated[Record | None, Of(tones), "The tone of that, and of comments on the first three; null likewise."],
    top_threads: Annotated[list[Record], Of(post_record), "The ten threads with the most points and comments."],
    method: Annotated[str, "How it is computed."],
) -> Record:
    """How alive a tool for developers is."""
    return locals()


def discussion(
    *,
    items: Annotated[list[Record], Of(comment_record), "The comments that were read."],
    total: Annotated[int | None, "How many there are; null where the platform does not tell."],
) -> Record:
    """The comments on a story."""
    return locals()


def story(
    *,
    platform: Annotated[str, "The platform's slug."],
    post: Annotated[Record, Of(post_record), "The thread."],
    comments: Annotated[Record | None, Of(discussion), "Its comments; null where they did not come or were left out."],
    tone: Annotated[Record | None, Of(tones), "The tone of the comments by a list of words; null likewise."],
) -> Record:
    """One thread about a launch."""
    return locals()


def blog(
    *,
    url: Annotated[str, "Its address, as the thread links to it."],
    domain: Annotated[str, "Its host."],
) -> Record:
    """A page that is written about a launch."""
    return locals()


def launch_echo(
    *,
    query: Annotated[str, "The words that were looked for."],
    stories: Annotated[list[Record], Of(story), "The threads with the most points and comments."],
    threads_found: Annotated[int, "All threads that were found."],
    points: Annotated[int, "Points of all of them, as far as they are told."],
    comments: Annotated[int, "Comments on all of them, as far as they are told."],
    first_seen_at: Annotated[str | None, "The time of the first of them."],
    sites: Annotated[list[Record], Of(share), "The sites that they link to the most."],
    blogs: Annotated[list[Record] | None, Of(blog), "Pages that they link to, of no platform; null where left out."],
    tone: Annotated[Record, Of(tones), "The tone of all comments that were read."],
    dossier: Annotated[Record | None, Of(dossier_record), "The repository; null where it was left out or is none."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
    method: Annotated[str, "How threads are chosen."],
) -> Record:
    """The words of readers about a launch."""
    return locals()


def language_share(
    *,
    language: Annotated[str, "The language of the most code."],
    repositories: Annotated[int, "Repositories in it."],
) -> Record:
    """One language of an organization."""
    return locals()


def rollup(
    *,
    repositories: Annotated[int, "Repositories that were counted: no forks, and none that is archived."],
    stars: Annotated[int | None, "Their stars."],
    forks: Annotated[int | None, "Their forks."],
    open_issues: Annotated[int | None, "Their open issues and pull requests."],
    pushed_30d: Annotated[int | None, "Those pushed to in the last 30 days."],
    released_90d: Annotated[int | None, "Those with a release in the last 90 days, of those with a dossier."],
    languages: Annotated[list[Record], Of(language_share), "Their languages, the most frequent ahead."],
    licenses: Annotated[list[Record], Of(share), "Their licenses, the most frequent ahead."],
    last_pushed_at: Annotated[str | None, "The time of the last push to any of them."],
) -> Record:
    """An organization's repositories together."""
    return locals()


def org_radar(
    *,
    platform: Annotated[str, "The platform's slug."],
    org: Annotated[str, "The organization's login."],
    repositories: Annotated[list[Record], Of(repository_record), "Its repositories, in the order that was asked for."],
    dossiers: Annotated[list[Record] | None, Of(dossier_record), "Those with a dossier; null where left out."],
    rollup: Annotated[Record | None, Of(rollup), "All of them together; null where left out."],
) -> Record:
    """The repositories of an organization."""
    return locals()


def quote(
    *,
    text: Annotated[str, "The question as it stands."],
    platform: Annotated[str, "The platform's slug."],
    url: Annotated[str | None, "The page that it stands on."],
    likes: Annotated[int | None, "Likes or points of the post or comment."],
) -> Record:
    """One place where a question stands."""
    return locals()


def question(
    *,
    question: Annotated[str, "The question, in the words of the one with the most likes."],
    count: Annotated[int, "How often it stands, in any words."],
    platforms: Annotated[list[str], "The slugs of the platforms where."],
    likes: Annotated[int, "Likes of all places, as far as they are told."],
    score: Annotated[float, "count x 2 + ln(1 + likes), by which they are ranked."],
    quotes: Annotated[list[Record], Of(quote), "Up to five of the places, the most likes ahead."],
) -> Record:
    """A question that an audience asks."""
    return locals()


def audience_questions(
    *,
    topic: Annotated[str, "The words that were looked for."],
    questions: Annotated[list[Record], Of(question), "The questions, the highest score ahead."],
    threads_read: Annotated[int, "Threads whose comments were read."],
    sentences_read: Annotated[int, "Questions that were found, before like ones were put together."],
    method: Annotated[str, "How questions are found, put together and ranked."],
) -> Record:
    """The questions that an audience asks about a topic."""
    return locals()


def lead(
    *,
    kind: Annotated[str, "post or comment."],
    platform: Annotated[str, "The platform's slug."],
    url: Annotated[str | None, "Its page."],
    text: Annotated[str | None, "Its words."],
    published_at: Annotated[str | None, "The time of its publication."],
    likes: Annotated[int | None, "Likes or points."],
    comments: Annotated[int | None, "Comments."],
    phrase_matched: Annotated[str, "The phrase that it has, the strongest of several."],
    intent_score: Annotated[int, "0 to 100: how much it sounds as if somebody is looking for another one."],
    reasons: Annotated[list[str], "What the score is made of."],
) -> Record:
    """A post of somebody who looks for another product; no account is named."""
    return locals()


def leads(
    *,
    competitor: Annotated[str, "The product that they leave or compare."],
    leads: Annotated[list[Record], Of(lead), "The posts and comments, the highest score ahead."],
    counts_by_phrase: Annotated[Record, "How many there are by phrase."],
    sources: Annotated[list[Record], Of(source), "What each platform has."],
    method: Annotated[str, "How the score is made."],
) -> Record:
    """Posts of people who look for something else."""
    return locals()


DEVTOOL_PULSE = Archetype("DevtoolPulse", "", devtool_pulse, has_legs=True, findings=("top_threads", "dossier"))
LAUNCH_ECHO = Archetype("LaunchEcho", "", launch_echo, has_legs=True, findings=("threads_found", "dossier"))
ORG_RADAR = Archetype("OrgRadar", "", org_radar, has_legs=True, findings=("repositories",))
AUDIENCE_QUESTIONS = Archetype("AudienceQuestions", "", audience_questions, has_legs=True, findings=("questions",))
LEADS = Archetype("Leads", "", leads, has_legs=True, findings=("leads",))
