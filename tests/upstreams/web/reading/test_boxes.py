"""Boilerplate boxes next to the text are detected, and text whose name looks like boilerplate is kept."""

from __future__ import annotations

import pytest

from upstreams.web.reading.boxes import drop_boxes
from upstreams.web.reading.cleaning import as_text, page_tree
from upstreams.web.reading.main_content import main_text

TEXT = "A sentence that is long enough to be the text of an article, and then some more of it. " * 4


def left(inner: str) -> str:
    """Return the text of a page that contains this part, after the removal of boxes."""
    tree = page_tree(f"<body><p>{TEXT}</p>{inner}<p>{TEXT}</p></body>")
    drop_boxes(tree)
    return as_text(tree).replace(TEXT.strip(), "").strip()


@pytest.mark.parametrize("name", ["cookies", "pagination", "sharing", "comments", "table-of-contents"])
def test_section_named_after_its_topic_is_text(name: str) -> None:
    words = "It tells in some detail how this works, and what it is good for, so that nobody has to guess."
    section = (
        f'<section id="{name}"><h2>{name.replace("-", " ").title()}<a href="#{name}">¶</a></h2><p>{words}</p></section>'
    )
    found = main_text(page_tree(f"<body><article><h1>Guide</h1><p>{TEXT}</p>{section}<p>{TEXT}</p></article></body>"))
    assert words in found
    assert "¶" not in found
    assert left(section.replace("<p>", "<form><input></form><p>")) == "", "a form is a box"
    assert left(section.replace("id=", "class='comments-area' id=")) == ""


@pytest.mark.parametrize("name", ["social-security", "share-price"])
def test_box_name_prefix_alone_is_not_boilerplate(name: str) -> None:
    words = "The shares rose to twelve euro on Monday after a quarter that was good for those who had bought some."
    box = f'<div class="{name}"><p>{words}</p></div>'
    assert left(box) == words
    assert words in main_text(page_tree(f"<body><article><p>{TEXT}</p>{box}<p>{TEXT}</p></article></body>"))


@pytest.mark.parametrize(
    "name",
    [
        "share",
        "share-buttons",
        "article__share",
        "social_links-list",
        "newsletter-signup",
        "wp-block-related-posts",
        "x toc",
    ],
)
def test_layout_class_names_mark_boilerplate(name: str) -> None:
    assert left(f'<div class="{name}"><a href="#">Facebook</a></div>') == ""


@pytest.mark.parametrize(
    "words",
    [
        "<p>Sign up for the exam by May 1, or you lose your place in the course.</p>",
        "<p>Subscribe to the topic with the subscribe method of the client.</p>",
        "<ul><li>Share</li><li>Print</li><li>Email</li></ul>",
        f"<h2>Comments</h2><p>{TEXT}</p>",
    ],
)
def test_sentence_item_or_heading_with_text_is_kept(words: str) -> None:
    assert left(words).split() == as_text(page_tree(words)).replace(TEXT.strip(), "").split()


@pytest.mark.parametrize(
    "words",
    [
        "<p>Sign up for our newsletter, and have the news in your inbox.</p>",
        "<p><a href='/s'>Subscribe to all of it.</a></p>",
        "<ul><li><a href='/s'>Share</a></li><li><button>Print</button></li></ul>",
        "<h2>Comments</h2><ul><li><a href='/c'>Share</a></li></ul>",
        "<p>Share this article</p>",
    ],
)
def test_site_prompt_or_full_line_link_is_boilerplate(words: str) -> None:
    assert left(words) == ""
