"""The tone of texts by a word list: how many sound pleased, how many displeased. No model has a part in it.

A word of the lists counts once wherever it stands; after a negation within the three words before it, with no sign
between them, it counts for the other side. A text is positive where more of its words are, negative where fewer are.
Only English is covered: texts of another language, or of none that was told, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from upstreams.model.archetypes import Record
from upstreams.model.archetypes.accounts import tone

METHOD: Final = "word_list"
LANGUAGES: Final = ("en",)
POSITIVE: Final = frozenset(
    """
    accurate adore adored affordable amazed amazing appreciate appreciated awesome beautiful best better brilliant
    bug-free clean clear clever convenient cool correct delight delighted delightful easy effective efficient
    elegant enjoy enjoyed enjoying excellent excited exciting fabulous fair fantastic fast fine flawless flexible
    friendly fun gem generous glad good gorgeous grateful great handy happy helped helpful ideal impressed
    impressive improve improved improvement improvements incredible innovative insightful intuitive kind kudos
    lightweight like liked likes love loved lovely loves loving magnificent modern neat nice nicely outstanding
    perfect perfectly pleasant pleased pleasure polished positive powerful praise pretty productive promising
    properly quick quickly recommend recommended reliable responsive rich robust safe satisfied seamless secure
    simple sleek slick smart smooth smoothly solid solved splendid stable strong stunning success successful superb
    superior support supportive terrific thank thankful thanks thorough thoughtful thrilled trust trusted
    trustworthy upgrade useful valuable welcome well win wins wonderful works worth worthy wow
    """.split()  # noqa: SIM905 - a list would take a line for each
)
NEGATIVE: Final = frozenset(
    """
    abandon abandoned abuse abused angry annoyed annoying annoys awful awkward bad badly bloat bloated blocked
    boring broke broken bug buggy bugs careless cheat cheated clumsy clunky complain complained complaint complaints
    complicated confused confusing corrupt corrupted crap crash crashed crashes crashing cumbersome damage damaged
    danger dangerous dead delay delayed deprecated dirty disappoint disappointed disappointing disappointment
    disaster dislike disliked downtime dreadful error errors evil expensive fail failed failing fails failure
    failures fake fault faulty fear flaw flawed fraud freeze freezes frustrated frustrating frustration garbage
    greedy hack hacked harm harmful hate hated hates horrible hostile hurt hurts illegal impossible inaccurate
    incompetent incomplete inconsistent insecure issue issues junk lack lacking lacks lag laggy lawsuit leak leaked
    leaks liar lie lies lose lost mad malware mediocre mess messy misleading missing mistake mistakes nasty
    nightmare outage outages outdated overpriced pain painful panic pathetic poor poorly problem problems rage
    regression regret ridiculous rip-off risk risky rude ruin ruined sad scam scary shame shameful sloppy slow
    slower sluggish spam stolen stuck stupid suck sucks suffer suspicious terrible threat tired toxic trash ugly
    unable unacceptable unfair unfortunate unhappy unreliable unsafe unstable unusable upset useless vulnerability
    vulnerable warning waste wasted weak weird worried worry worse worst worthless wrong
    """.split()  # noqa: SIM905 - as above
)
NEGATIONS: Final = frozenset("not no never without hardly barely cannot nothing nobody neither nor".split())  # noqa: SIM905 - as above
_REACH: Final = 3
"""Words before a word in which a negation turns it."""
_WORD: Final = re.compile(r"[a-z][a-z'-]*|[.,;:!?]")
_TEXT_MAX: Final = 2_000


def tone_of_text(text: str) -> int:
    """1: positive, -1: negative, 0: neither, or as much of both."""
    words = _WORD.findall(text[:_TEXT_MAX].lower().replace("\u2019", "'"))
    total = begin = 0
    for place, word in enumerate(words):
        begin = place if not word[0].isalpha() else begin
        side = (word in POSITIVE) - (word in NEGATIVE)
        if side:
            before = words[max(begin, place - _REACH) : place]
            total += -side if any(one in NEGATIONS or one.endswith("n't") for one in before) else side
    return (total > 0) - (total < 0)


def tone_of(texts: Iterable[tuple[str | None, str | None]]) -> Record:
    """The tone of texts, each with its language: the share that is positive less the share that is negative."""
    sides = [tone_of_text(text) for text, language in texts if text and (language or "").split("-")[0] in LANGUAGES]
    positive, negative = sides.count(1), sides.count(-1)
    score = round((positive - negative) / len(sides), 4) if sides else None
    return tone(
        label=None if score is None else _label(score, positive, negative),
        score=score,
        positive=positive if sides else None,
        negative=negative if sides else None,
        texts=len(sides),
        method=METHOD,
    )


def tone_of_rows(rows: Iterable[Record]) -> Record:
    """The tone of rows of posts, `{post, computed}` each."""
    return tone_of((row["post"]["content"]["text"], row["computed"]["language"]) for row in rows)


def _label(score: float, positive: int, negative: int) -> str:
    if abs(score) >= 0.1:
        return "positive" if score > 0 else "negative"
    return "mixed" if positive and negative else "neutral"
