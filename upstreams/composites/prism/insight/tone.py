"""The tone of a text, by lists of positive and negative words. No model is used (decisions 18).

A text is positive if it has more positive than negative words, and negative if it has more negative words. A word after
a negation counts as its opposite. Languages without a word list have no tone. The docs contain the same lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from upstreams.model.archetypes import Record
from upstreams.model.archetypes.insight import words

Tone = Literal["positive", "neutral", "negative"]
METHOD: Final = "word list 1: more positive or more negative words; no model; null in languages without a list"
_NEGATION_WORDS: Final = 3
"""How many preceding words in the same clause can negate a word."""
_CLAUSE = re.compile(r"[,.;:!?()\n]")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


class WordList(NamedTuple):
    """The positive, negative and negating words of one language."""

    positive: frozenset[str]
    negative: frozenset[str]
    negations: frozenset[str]


def _list(positive: str, negative: str, negations: str) -> WordList:
    return WordList(*(frozenset(text.split()) for text in (positive, negative, negations)))


LISTS: Final[Mapping[str, WordList]] = {
    "en": _list(
        """
        amazing awesome beautiful best better brilliant clean clear delightful easy elegant enjoy enjoyed excellent
        excited exciting fantastic fast fine flawless fun glad good great happy helpful impressed impressive improved
        intuitive like liked love loved lovely nice perfect pleasant pleased polished powerful recommend recommended
        reliable satisfied simple smooth solid stable superb thank thanks trust useful win wonderful works worth
        """,
        """
        angry annoyed annoying avoid awful bad broken bug bugs buggy complaint complaints confusing crap crash crashed
        crashes crashing dead disappointed disappointing disappointment disaster expensive fail failed fails failure
        fraud frustrated frustrating garbage hate hated horrible hurt lawsuit leak lied lose loss lost mess misleading
        outage outages overpriced pain painful poor problem problems refund regret ripoff rude sad scam scandal slow
        sucks terrible trash ugly unacceptable unreliable unsafe unstable unusable useless vulnerable waste worse worst
        wrong
        """,
        "no not never none neither nor cannot can't don't doesn't didn't won't isn't wasn't aren't without hardly",
    ),
    "de": _list(
        """
        angenehm begeistert beste besser danke einfach elegant empfehle empfehlenswert erfreut erfreulich fantastisch
        fein froh genial gerne gut gute guten gutes grossartig großartig hervorragend hilfreich klasse lieben liebe
        nett perfekt praktisch prima schnell schön sicher stabil stark super toll wunderbar zufrieden zuverlässig
        """,
        """
        absturz abstürze ärgerlich ausfall beschwerde betrug betrogen defekt enttäuscht enttäuschend enttäuschung
        fehler fehlerhaft furchtbar gefährlich hasse kaputt katastrophe langsam leider lüge miserabel mist mangelhaft
        nervig peinlich probleme problem schlecht schlechte schlechter schlimm schrecklich skandal störung teuer
        unbrauchbar unsicher unverschämt unzuverlässig verärgert verloren wütend
        """,
        "nicht nie niemals kein keine keinen keiner keines ohne kaum weder",
    ),
}
"""The word lists by language."""


def tone_of(text: str | None, language: str | None) -> Tone | None:
    """Return the tone of a text, or None if its language has no word list or there is no text."""
    score = tone_score(text, language)
    if score is None:
        return None
    return "positive" if score > 0 else "negative" if score < 0 else "neutral"


def tone_score(text: str | None, language: str | None) -> int | None:
    """Return the number of positive words minus negative words; None if the tone is unknown (see `tone_of`)."""
    listed = LISTS.get((language or "").partition("-")[0].lower())
    if listed is None or not text:
        return None
    return sum(_score(clause, listed) for clause in _CLAUSE.split(text.lower().replace("\u2019", "'")))


def _score(clause: str, listed: WordList) -> int:
    """Return a clause's number of positive words minus negative words."""
    score, tokens = 0, _WORD.findall(clause)
    for place, token in enumerate(tokens):
        side = (token in listed.positive) - (token in listed.negative)
        is_negated = bool(side) and not listed.negations.isdisjoint(tokens[max(0, place - _NEGATION_WORDS) : place])
        score += -side if is_negated else side
    return score


def share_of_negative(tones: Iterable[Tone | None]) -> float | None:
    """Return the share of negative tones, not rounded."""
    known = [tone for tone in tones if tone is not None]
    return known.count("negative") / len(known) if known else None


def negative_share(tones: Iterable[Tone | None]) -> float | None:
    """Return the share of negative tones among the known tones, or None if no tone is known."""
    share = share_of_negative(tones)
    return None if share is None else round(share, 4)


def summed(tones: Iterable[Tone | None]) -> Record:
    """Return how many of these tones are positive, neutral, negative and unknown, and their shares."""
    listed = list(tones)
    known = len(listed) - listed.count(None)
    return words.tones(
        positive=listed.count("positive"),
        neutral=listed.count("neutral"),
        negative=listed.count("negative"),
        uncovered=listed.count(None),
        positive_share=round(listed.count("positive") / known, 4) if known else None,
        negative_share=negative_share(listed),
        method=METHOD,
    )
