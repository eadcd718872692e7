"""The questions that people ask about a topic, found and ranked by rules (decisions 18)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log1p
from typing import Final, NamedTuple

from upstreams.composites.legs import LEG_S, attempt, legs_of
from upstreams.composites.prism.insight import days, sweep
from upstreams.composites.prism.insight.days import DaySpan
from upstreams.composites.prism.insight.sweep import Mention, legs_in, mentions_of, named_in, phrase_of
from upstreams.composites.prism.insight.talk import each_comment, read_comments
from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import threads
from upstreams.model.endpoint import Platform
from upstreams.model.params import Args
from upstreams.model.steps import Part, Single, Steps

TIMEFRAMES: Final = ("all", "day", "week", "month", "year")
_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
METHOD: Final = (
    "Sentences of 3 to 40 words with a question mark, in titles, posts and comments. Questions are the "
    "same if they share at least half of their words, ignoring the most common words. Score: count x 2 + ln(1 + likes)."
)
_LIKENESS: Final = 0.5
_QUOTES: Final = 5
_PAGES: Final = 20
_ADDRESS = re.compile(r"\w+://\S+")
_SENTENCE = re.compile(r"[^.!?\n]+\?")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")
_LEAST, _MOST = 3, 40
_COMMON: Final = frozenset(
    """
    a about am an and any anyone are as at be been but by can could did do does for from get has have how i if in is it
    its just me my of on or out so some someone somebody than that the their there they this to up us was we were what
    when where which who why will with would you your
    """.split()  # noqa: SIM905 - a list would take one line per word
)


class QuestionPlace(NamedTuple):
    """An occurrence of a question."""

    text: str
    platform: str
    url: str | None
    likes: int | None

    @property
    def words(self) -> frozenset[str]:
        """The question's words, without the most common words."""
        return words_of(self.text)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text without the most common words. If no others are left, return all words."""
    found = frozenset(word.lower() for word in _WORD.findall(text))
    return found - _COMMON or found


def audience_questions(platforms: Sequence[Platform], args: Args) -> Steps:
    """Return the questions that people ask about a topic."""
    topic, timeframe = phrase_of(args.text("topic")), args.text("timeframe")
    until = days.today(args)
    window = None if timeframe == "all" else DaySpan(until.fromordinal(until.toordinal() - _DAYS[timeframe] + 1), until)
    found = yield from sweep.sweep(named_in(platforms, args), topic, window, rounds=1)
    read = [one for each in found for one in each.mentions[: args.number("threads_per_source")]]
    comments = [leg for leg in (yield from read_comments(platforms, read)) if leg is not None]
    pages = (yield from attempt([_web(topic)])) if "include" in args.values else []
    places = [one for mention in mentions_of(found) for one in _of_post(mention)]
    places += [one for leg in comments for one in _of_comments(leg.platform, leg.records)]
    places += [one for leg in pages for page in leg.records for one in of_page(page)]
    record = threads.audience_questions(
        topic=topic,
        questions=ranked(places)[: args.number("max_questions")],
        threads_read=sum(bool(leg.answer) for leg in comments),
        sentences_read=len(places),
        method=METHOD,
    )
    return Single(record, legs=legs_of([*legs_in(found), *comments, *pages]))


def _web(topic: str) -> Part:
    """Return the part that finds web pages about a topic. It requires a configured search engine."""
    return Part("search", {"query": topic, "limit": _PAGES}, True, "web", within_s=LEG_S)  # noqa: FBT003 - the flag is `optional`


def of_page(page: Record) -> list[QuestionPlace]:
    """Return the distinct questions on a web page."""
    texts = (page["metadata"]["title"], page["metadata"]["description"], page["content"]["text"])
    distinct = dict.fromkeys(one for text in texts for one in sentences(text))
    return [QuestionPlace(text, "web", page["url"], None) for text in distinct]


def _of_post(mention: Mention) -> list[QuestionPlace]:
    post = mention.row["post"]
    return [
        QuestionPlace(text, mention.platform, post["url"], post["engagement"]["likes"])
        for text in sentences(post["content"]["text"])
    ]


def _of_comments(platform: str, rows: Sequence[Record]) -> list[QuestionPlace]:
    return [
        QuestionPlace(text, platform, one["url"], one["engagement"]["likes"])
        for one in each_comment(rows)
        for text in sentences(one["text"])
    ]


def sentences(text: str | None) -> list[str]:
    """Return the questions in a text."""
    cleaned = (" ".join(sentence.split()) for sentence in _SENTENCE.findall(_ADDRESS.sub(" ", text or "")))
    return [one for one in cleaned if _LEAST <= len(one.split()) <= _MOST]


def ranked(found: Sequence[QuestionPlace]) -> list[Record]:
    """Return the questions with the highest score first. Similar questions are grouped."""
    groups: list[tuple[frozenset[str], list[QuestionPlace]]] = []
    for one in sorted(found, key=lambda each: -(each.likes or 0)):
        words = one.words
        group = next((held for known, held in groups if _likeness(known, words) >= _LIKENESS), None)
        if group is None:
            groups.append((words, [one]))
        else:
            group.append(one)
    return sorted((_question(held) for _, held in groups), key=lambda one: (-one["score"], one["question"]))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def _question(held: Sequence[QuestionPlace]) -> Record:
    likes = sum(one.likes or 0 for one in held)
    return threads.question(
        question=held[0].text,
        count=len(held),
        platforms=sorted({one.platform for one in held}),
        likes=likes,
        score=round(len(held) * 2 + log1p(max(0, likes)), 4),
        quotes=[threads.quote(**one._asdict()) for one in held[:_QUOTES]],
    )
