"""All spellings of a value have the same canonical form (decisions 8)."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.gate.matrix import sample
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Address, Args, Host, Param
from upstreams.model.paths import Located
from upstreams.platforms import load_platforms

INSTANCE = Host("instance", default="mastodon.social")
FEED = Address("url", "A feed.", "https://feeds.example.org/a.xml")
HANDLE = Param("handle", "A name.", "ada", strip="@", fold=True, forms=(r"site\.test/@?([^/]+)(?:/.*)?",))
VIDEO = Param(
    "id",
    "A video.",
    "abc",
    forms=(r"tube\.test/watch\?(?:.*&)?v=([\w-]+)(?:[&#].*)?", r"t\.ube/([\w-]+)"),
    pattern=r"[\w-]{1,11}",
    problem="must be a video's id",
)
TEXTS = [
    param
    for platform in load_platforms()
    for endpoint in platform.endpoints
    for param in endpoint.params
    if param.type in ("string", "url")
]


@pytest.mark.parametrize(
    ("param", "text", "value"),
    [
        (HANDLE, "  Ada\n", "ada"),
        (HANDLE, "@ADA", "ada"),
        (HANDLE, "https://www.Site.test/@Ada/posts?x=1#top", "ada"),
        (HANDLE, "site.test/ada/", "ada"),
        (HANDLE, "http://site.test:80/a%20da", "a da"),
        (HANDLE, "https://elsewhere.test/ada", "https://elsewhere.test/ada"),
        (VIDEO, "https://tube.test/watch?list=1&v=a_B-c&t=5", "a_B-c"),
        (VIDEO, "t.ube/a_B-c?si=share", "a_B-c"),
        (VIDEO, "a_B-c", "a_B-c"),
        (INSTANCE, "https://Mastodon.Social/", "mastodon.social"),
        (INSTANCE, "mastodon.social/@Gargron", "mastodon.social"),
        (INSTANCE, "xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_spellings_share_a_canonical_form(param: Param, text: str, value: str) -> None:
    assert param.canonical(text) == value
    assert param.canonical(value) == value


@pytest.mark.parametrize(
    ("param", "text", "problem"),
    [
        (HANDLE, " \t", "must not be blank"),
        (VIDEO, "https://tube.test/watch?v=", "must be a video's id"),
        (VIDEO, "https://tube.test.evil.example/watch?v=abc", "must be a video's id"),
        (VIDEO, "https://tube.test@evil.example/watch?v=abc", "must be a video's id"),
        (VIDEO, "https://tube.test/watch\t?v=abc", "must be a video's id"),
        *(
            (INSTANCE, text, "must be the name of a public host")
            for text in ("localhost", "127.0.0.1", "[::1]", "0x7f.1", "a.test:8080", "u@a.test", "a..test", "-a.test")
        ),
    ],
)
def test_invalid_value_is_refused_with_its_parameter(param: Param, text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        param.canonical(text)
    assert refusal.value.param == param.name
    assert problem in refusal.value.problem


@pytest.mark.parametrize(
    "param", [HANDLE, VIDEO, INSTANCE, FEED, *sample(dict.fromkeys(TEXTS), type)], ids=lambda param: param.name
)
@settings(max_examples=50)
@given(text=st.text() | st.text(alphabet="ab@/.:?#%-_~ AB0=&"))
@example(text="@@a")
@example(text="did:did:a")
@example(text="%2541")
def test_canonical_value_is_its_own_canonical_form(param: Param, text: str) -> None:
    """If the form changed, a request with a value taken from an answer would be a different request."""
    try:
        value = param.canonical(text)
    except InvalidArgument:
        return
    assert param.canonical(value) == value


def test_examples_are_valid_values() -> None:
    assert all(param.example_value for param in TEXTS)


def test_url_names_the_host_and_the_subject() -> None:
    url, number = Param("url", "Its address.", "https://example.org/7", type="url"), Param("id", "Its number.", "7")
    post = Located(Host("instance", default="example.org"), url, number)
    placed = post.resolve(Args({"url": "example.net/7", "instance": "example.org"}))
    assert (placed.text("id"), placed.text("instance")) == ("7", "example.net")
    assert post.resolve(Args({"id": "8"})) == Args({"id": "8"})
    with pytest.raises(InvalidArgument) as refusal:
        post.resolve(Args({"url": "localhost/7"}))
    assert refusal.value.param == "url"
