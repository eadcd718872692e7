"""Prose reads as plain English: few odd phrases in every kind of text, and no words run together.

`PHRASES` grows: add what a reader sends back. A phrase that is right in one place goes into `RIGHT`, with the reason.
"""

import io
import re
import tokenize
from collections import defaultdict
from itertools import pairwise
from types import MappingProxyType

import pytest

from tests.docs.prose import KINDS, Passage, passages
from tests.docs.source import PACKAGES, PROJECT

ODD_MAX = 1.0
"""The maximum number of odd phrases in a thousand words of each kind of text."""

PHRASES: MappingProxyType[str, str] = MappingProxyType(
    {
        r"(?:re)?tells?|told|telling|hears?|heard|heed(?:s|ed)?|obey(?:s|ed)?": "return, send, report, publish",
        r"whoever|nobody|somebody|everybody|no one": "the caller, the client, another node, no client",
        r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b|less\b|one\b|need\b|way\b)[a-z]+": "is not a, has no",
        r"stands? (?:in|at|on|beside|behind|still|for itself)|lies (?:in|at|beside)": "is in, is at",
        r"has come|have come|came with|comes? with it|comes? first of all": "arrived, has, includes",
        r"go(?:es)? on(?! to\b)|made anew|anew|in sum|by itself|as it is|at all|of its own": "continue, again, total",
        r"thereof|whereof|whereby|wherein|whereupon|hence|lest|save for|likewise|be it|as may be": "plain links",
        r"for which|of which|by which|those of|that of|the like": "name the thing, or split the sentence",
        r"(?:right )?behind (?:it|them|its|the (?:answer|response|page|last))": "after",
        r"(?:is|are|was|were) due(?! (?:to|at|on|for|now)\b)": "is expected, must",
        r"none is left|nothing is left|is left over|are left over": "name what is used up",
        r"no more than": "at most",
        r"a deed|deeds|a glance|falls due|under its breath": "an action, a query",
    }
)
"""Phrases that read like a translation, as regular expressions of whole words, and better words for each."""

FREE_RELATIVE = re.compile(r"(?:^|[.:;]\s)\s*(?:What|Who|Whose|Whom|Whoever)\b(?![^.?]*\?)")
"""A sentence that begins with a relative clause and so hides its subject: "What comes is stored"."""

_AVOIDED = "the table of words that we avoid"
_WORD_LIST = "a list of words in other people's texts"
RIGHT: MappingProxyType[tuple[str, str], str] = MappingProxyType(
    {
        ("docs/contributing.md", "hear"): _AVOIDED,
        ("docs/contributing.md", "heed"): _AVOIDED,
        ("docs/contributing.md", "tell"): _AVOIDED,
        ("docs/contributing.md", "telling"): _AVOIDED,
        ("docs/contributing.md", "told"): _AVOIDED,
        ("gateway/docs/pages/library.py", "what"): "an indirect question as the description of a page",
        ("upstreams/composites/prism/insight/questions.py", "somebody"): _WORD_LIST,
        ("upstreams/model/computed/small_words.py", "tell"): _WORD_LIST,
    }
)
"""Phrases that are correct in one place, as (path, phrase in lower case), and the reason."""

_ODD = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES), re.IGNORECASE)


def odd_phrases(passage: Passage) -> list[tuple[int, str]]:
    """Return the odd phrases of a passage with their lines, in order, without those that are correct there."""
    found = sorted(
        (match.start(), re.sub(r"\s+", " ", match[0]).strip(" .:;\n"))
        for pattern in (_ODD, FREE_RELATIVE)
        for match in pattern.finditer(passage.text)
    )
    return [
        (passage.line + passage.text.count("\n", 0, start), phrase)
        for start, phrase in found
        if (passage.path, phrase.lower()) not in RIGHT
    ]


def test_each_kind_of_text_has_few_odd_phrases() -> None:
    """One test for all kinds, because reading the whole project takes seconds in each process that does it."""
    by_kind = defaultdict(list)
    for passage in passages():
        by_kind[passage.kind].append(passage)
    assert set(by_kind) == set(KINDS)
    for kind, own in by_kind.items():
        words = sum(len(passage.text.split()) for passage in own)
        found = [f"{passage.path}:{line}: {phrase}" for passage in own for line, phrase in odd_phrases(passage)]
        assert words > 1_000, kind
        assert 1_000 * len(found) / words < ODD_MAX, "\n".join([kind, *found])


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("The node tells whoever asks. What comes is stored.", ["tells", "whoever", "What"]),
        ("`foo` is no field of this body", ["is no field"]),
        ("There is no longer a queue, and who would know? The response was due to arrive.", []),
        ("Retried once, because GitHub drops idle connections.", []),
    ],
)
def test_odd_phrases_are_found_in_sentences(text: str, phrases: list[str]) -> None:
    assert [phrase for _, phrase in odd_phrases(Passage("docs", "a page", 1, text))] == phrases


def test_allowed_phrases_are_still_used() -> None:
    texts = defaultdict(list)
    for passage in passages():
        texts[passage.path].append(re.sub(r"\s+", " ", passage.text.lower()))
    assert [(path, phrase) for path, phrase in RIGHT if not any(phrase in text for text in texts[path])] == []


_MAYBE_TOGETHER = re.compile(r"""[A-Za-z,.:}]['"]\s+[fF]?['"][a-z{`]""")
"""Finds the few files with such a place, because splitting every file into tokens takes ten seconds."""


def test_adjacent_texts_keep_the_space_between_them() -> None:
    """A text that is split over lines loses a space easily: "by day and" "endpoint"."""
    files = (file for folder in (*PACKAGES, "tests") for file in (PROJECT / folder).rglob("*.py"))
    wrong = []
    for file in files:
        text = file.read_text()
        if not _MAYBE_TOGETHER.search(text):
            continue
        code = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in (tokenize.NL, tokenize.COMMENT)
        ]
        wrong += [
            f"{file.relative_to(PROJECT)}:{right.start[0]}: {left.string[-30:]} {right.string[:30]}"
            for left, right in pairwise(code)
            if left.type == right.type == tokenize.STRING and _run_together(left.string, right.string)
        ]
    assert wrong == []


def _run_together(left: str, right: str) -> bool:
    """Return whether two literals are prose that lacks a space between them."""
    if re.match(r"(?i)[bu]?r", left) or " " not in left + right:
        return False
    ends_in_word = re.search(r"(?<!\\)[A-Za-z]$|[,.:}]$", left[:-1])
    return bool(ends_in_word and re.match(r"(?i)f?['\"][a-z{`]", right))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ('"by day and"', '"endpoint"', True),
        ('f"at most {most}"', 'f"{unit} are allowed"', True),
        ('"by day and "', '"endpoint"', False),
        ('"Host: a\\r\\n"', '"Content-Length: 3"', False),
        ('r"\\d of"', '"an hour"', False),
    ],
)
def test_words_that_run_together_are_found(left: str, right: str, *, expected: bool) -> None:
    assert _run_together(left, right) is expected
