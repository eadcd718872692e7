"""CSS selectors match the same elements as XPath, in a time that is linear in the size of the page."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from cssselect import HTMLTranslator
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree, html

from upstreams.content.markup import Element
from upstreams.model.errors import PageTooCostly
from upstreams.web.reading.selectors import LENGTH_MAX, STEPS_MAX, Matching, compiled, steps_of

TAGS = ("p", "div", "b")
PAGE = f"<p class='a b' id=x>{'<p class=a>text</p>' * 20_000}"


def trees(depth: int = 3) -> st.SearchStrategy[Element]:
    """Small trees of few tags and classes, in which selectors match some elements."""

    def made(tag: str, classes: str, children: list[Element]) -> Element:
        element = html.Element(tag)
        element.set("class", classes)
        element.text = "words" if classes == "x" else None
        element.extend(children)
        return element

    leaves = st.builds(made, st.sampled_from(TAGS), st.sampled_from(("x", "y", "x y")), st.just([]))
    return st.recursive(
        leaves,
        lambda inner: st.builds(made, st.sampled_from(TAGS), st.sampled_from(("x", "y")), st.lists(inner, max_size=4)),
        max_leaves=25,
    )


SIMPLE = st.builds("".join, st.tuples(st.sampled_from((*TAGS, "*")), st.sampled_from(("", ".x", ".y", "[class=x]"))))
PSEUDOS = st.sampled_from(
    (
        "", "", "", ":first-child", ":last-child", ":only-child", ":empty", ":root", ":nth-child(2n+1)", ":nth-child(0)",
        ":nth-last-child(2)", ":nth-child(-n+2)", ":not(.x)", ":is(.x, b)", ":has(.x)", ":has(> b)", ":has(+ p, ~ b)",
        ":not(:first-child)", ":contains(words)",
    )
)  # fmt: skip
OF_TYPE = st.sampled_from(
    ("p:nth-of-type(2)", "b:nth-last-of-type(odd)", "div:first-of-type", "p:last-of-type", "b:only-of-type")
)
COMPOUNDS = st.builds("".join, st.tuples(SIMPLE, PSEUDOS)) | OF_TYPE


def _joined(parts: list[str]) -> str:
    """Compound selectors, with a combinator between any two of them."""
    words = ["p"]
    for part in parts:
        is_combinator = not part.strip(" >+~")
        if is_combinator and words[-1].strip(" >+~"):
            words.append(part)
        elif not is_combinator:
            words += [part] if not words[-1].strip(" >+~") else [" ", part]
    return "".join(words if words[-1].strip(" >+~") else words[:-1])


SELECTORS = st.lists(
    st.lists(COMPOUNDS | st.sampled_from((" ", " > ", " + ", " ~ ")), min_size=1, max_size=5).map(_joined),
    min_size=1,
    max_size=2,
).map(", ".join)


@settings(max_examples=400, deadline=None)
@given(tree=trees(), css=SELECTORS)
def test_selectors_match_the_same_elements_as_xpath(tree: Element, css: str) -> None:
    expected = etree.XPath(HTMLTranslator().css_to_xpath(css))(tree)
    assert Matching().found(tree, css) == expected


@pytest.mark.critical
@pytest.mark.parametrize(
    "css",
    [
        " ~ ".join(["p"] * STEPS_MAX),
        " + ".join(["*"] * STEPS_MAX),
        " ".join(["*"] * STEPS_MAX),
        "".join(["p", *[":nth-last-of-type(2n+1)"] * 15]),
        "p:has(~ p:has(~ p:has(~ p)))",
        "p:not(p ~ p):not(p + p)",
        ", ".join(["p", "p"] * 10),
        "p:contains(q)",
    ],
)
def test_expensive_selectors_take_linear_time(css: str) -> None:
    """Method: CPU time on 20,000 siblings. Twenty `~` once took hours, and a single one took more than a second."""
    tree = html.document_fromstring(PAGE)
    assert _cpu_s(lambda: Matching().found(tree, css)) < 2.0


@pytest.mark.critical
def test_selectors_of_one_task_share_a_work_limit() -> None:
    tree, matching = html.document_fromstring(PAGE), Matching()

    def match_many() -> None:
        for _ in range(100_000):
            matching.found(tree, " ~ ".join(["p"] * STEPS_MAX))

    with pytest.raises(PageTooCostly, match="too much work"):
        match_many()


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("css", "problem"),
    [
        ("a" * (LENGTH_MAX + 1), "more than 500 characters"),
        (" ~ ".join(["p"] * (STEPS_MAX + 1)), "steps"),
        ("p:is(" + ", ".join(["a"] * STEPS_MAX) + ")", "steps"),
        ("p:has(:is(:has(:is(a))))", "deep"),
        ("p:not(" * 80, "."),
        ("p::before", "pseudo-elements"),
        ("p:nth-child(x)", "number"),
        ("p:unknown", "not supported"),
        ("p:has(a b)", "combinators"),
        ("p[", "."),
        ("", "."),
    ],
)
def test_invalid_or_expensive_selectors_are_refused_before_any_page(css: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compiled(css)


def test_steps_are_counted_in_lists_and_functions() -> None:
    assert steps_of("a > b, c:not(d ~ e):has(f)") == 6
