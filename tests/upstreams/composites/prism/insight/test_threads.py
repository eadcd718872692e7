"""Tools, launches, organizations, questions and leads, checked value by value with recorded or handmade legs."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from tests.platforms.case import recorded
from tests.upstreams.composites.prism.insight.legs import ALGOLIA, Json, compose, hit, hits, record
from upstreams.composites.prism.insight.devtools import pulse_of
from upstreams.composites.prism.insight.org import span_of
from upstreams.composites.prism.insight.questions import of_page, sentences
from upstreams.model.errors import InvalidArgument, NotFound, PartUnavailable, UpstreamError
from upstreams.model.steps import Missing

API = "api.github.com"
REPO: Json = {
    "id": 7,
    "full_name": "ada/acme",
    "name": "acme",
    "html_url": "https://github.com/ada/acme",
    "stargazers_count": 2_000,
    "open_issues_count": 40,
}
ISSUES = [
    {"number": 3, "title": "It is broken on Windows", "labels": [{"name": "bug"}], "reactions": {"total_count": 9}},
    {"number": 2, "title": "Add a dark theme", "labels": [{"name": "enhancement"}], "reactions": {"total_count": 8}},
]
GITHUB: dict[str, Any] = {
    f"{API}/repos/ada/acme": REPO,
    f"{API}/repos/ada/acme/releases": [{"id": 1, "tag_name": "v2", "published_at": "2024-12-04T10:00:00Z"}],
    f"{API}/repos/ada/acme/readme": {"sha": "x", "name": "README", "content": "QWNtZQ==", "encoding": "base64"},
    f"{API}/search/issues": {"total_count": 2, "items": ISSUES},
}


def test_pulse_is_the_mean_of_four_parts() -> None:
    """The days are 2025-01-01 to 2025-01-10, with 5 in each half.

    Today is the 10th, and the release was 37 days ago.
    """
    rows = [
        hit(5, "2025-01-09", "Acme is great", points=50, comments=5, link="https://acme.example/x"),
        hit(4, "2025-01-07", "Acme crashed again", points=5),
        hit(3, "2025-01-06", "Why Acme reads files"),
        hit(2, "2025-01-03", "Why Acme reads files"),
        hit(1, "2025-01-01", "Why Acme reads files"),
    ]
    values = {"query": "Acme", "repo": "ada/acme", "date_from": "2025-01-01"}
    found = {name: body for name, body in GITHUB.items() if name != f"{API}/search/issues"}
    told = record("devtool-pulse", values, {**hits(*rows), **found})
    assert told["days_since_release"] == 37
    assert told["open_issues_per_1000_stars"] == 20.0  # 40 / 2,000 x 1,000
    # 100 x (1 - 37/365) = 89.86, 100 x (1 - 20/50) = 60, 20 x 0.5 = 10, 50 x 3/2 = 75
    assert told["scores"] == {"release_recency": 90, "issue_load": 60, "attention": 10, "momentum": 75}
    assert (told["score"], told["pulse"]) == (59, "steady")  # (90 + 60 + 10 + 75) / 4 = 58.75
    assert (told["attention"]["mentions"], told["attention"]["per_day"]) == (5, 0.5)
    assert told["attention"]["change_percent"] == 50.0
    assert told["attention"]["top_domains"] == [{"name": "acme.example", "mentions": 1, "share": 1.0}]
    assert [told["tone"][name] for name in ("positive", "neutral", "negative")] == [1, 3, 1]
    assert [one["id"] for one in told["top_threads"]][:2] == ["5", "4"]
    assert told["dossier"]["info"]["full_name"] == "ada/acme"
    assert told["dossier"]["readme"] == "Acme"
    assert [one["tag"] for one in told["dossier"]["releases"]] == ["v2"]


def test_top_issues_are_classified_by_labels_and_words() -> None:
    told = record("devtool-pulse", {"query": "x", "repo": "ada/acme", "include": "dossier"}, GITHUB)
    issues = told["dossier"]["top_issues"]
    assert issues["top_complaint"]["id"] == "3"
    assert issues["top_feature_request"]["id"] == "2"
    assert told["attention"] is told["tone"] is told["scores"]["attention"] is None, "no thread should be read"


@pytest.mark.parametrize(
    ("score", "word"), [(100, "strong"), (70, "strong"), (69, "steady"), (45, "steady"), (20, "cooling"), (19, "quiet")]
)
def test_pulse_level_follows_from_the_score(score: int, word: str) -> None:
    assert pulse_of(score) == word
    assert pulse_of(None) is None


def comment(number: int, text: str, *children: Json, by: str = "eve") -> Json:
    at = "2025-01-02T10:00:00.000Z"
    return {"id": number, "type": "comment", "author": by, "text": text, "created_at": at, "children": list(children)}


def test_launch_echo_has_the_threads_with_most_points() -> None:
    rows = [
        hit(3, "2025-01-05", "Acme again", points=1),
        hit(2, "2025-01-04", "Show HN: Acme", points=90, comments=3, link="https://acme.example"),
        hit(1, "2025-01-03", "Acme launches", points=10, comments=0),
    ]
    thread = {
        "id": 2,
        "type": "story",
        "children": [comment(21, "This is great and I love it", comment(22, "It crashed and it is terrible"))],
    }
    answers = {**hits(*rows), f"{ALGOLIA}/items/2": thread}
    told = record("launch-echo", {"query": "Acme", "threads": "1", "date_from": "2025-01-01"}, answers)
    assert (told["threads_found"], told["points"], told["comments"]) == (3, 101, 3)
    assert told["first_seen_at"] == "2025-01-03T12:00:00Z"
    (story,) = told["stories"]
    assert (story["platform"], story["post"]["id"], story["comments"]["total"]) == ("hackernews", "2", 3)
    assert [one["id"] for one in story["comments"]["items"]] == ["21"]
    assert [story["tone"][name] for name in ("positive", "neutral", "negative")] == [1, 0, 1]
    assert told["sites"] == [{"name": "acme.example", "mentions": 1, "share": 1.0}]
    assert told["dossier"] is None
    without = record("launch-echo", {"query": "Acme", "threads": "1", "date_from": "2025-01-01"}, hits(*rows))
    assert without["stories"][0]["comments"] is without["stories"][0]["tone"] is None


def test_recorded_organization_is_rolled_up() -> None:
    """Goal: the totals over the recorded list are correct. Method: count them separately in the recording's JSON."""
    place = f"{API}/users/beaversoftware/repos"
    rows = recorded("", "github/org_repos__BeaverSoftware.json").body
    own = [row for row in rows if not row["fork"] and not row.get("archived")]
    told = record(
        "org-radar", {"org": "BeaverSoftware", "include": "rollup"}, {place: "github/org_repos__BeaverSoftware.json"}
    )
    assert told["rollup"]["repositories"] == len(own)
    assert told["rollup"]["stars"] is None, "the old list has no licenses"
    assert told["dossiers"] is None


def test_organization_costs_five_per_dossier() -> None:
    rows = [
        {**REPO, "full_name": "ada/old", "stargazers_count": 5, "archived": True},
        {**REPO, "full_name": "ada/copy", "stargazers_count": 9, "fork": True},
        {**REPO, "full_name": "ada/small", "stargazers_count": 3, "language": "C", "pushed_at": "2025-01-09T00:00:00Z"},
        {**REPO, "language": "Python", "pushed_at": "2024-01-09T00:00:00Z", "license": {"spdx_id": "MIT"}},
    ]
    answers = {**GITHUB, f"{API}/users/ada/repos": rows}
    result: Any = compose("org-radar", {"org": "ada", "repos": "2"}, answers)
    told = result.record
    assert [one["full_name"] for one in told["repositories"]] == ["ada/acme", "ada/small"]
    assert [one["repository"]["full_name"] for one in told["dossiers"]] == ["ada/acme"]
    assert result.credits_used == 6
    rollup = told["rollup"]
    assert (rollup["repositories"], rollup["stars"], rollup["open_issues"]) == (2, 2_003, 80)
    assert (rollup["pushed_30d"], rollup["released_90d"]) == (1, 1)
    assert rollup["languages"] == [{"language": "C", "repositories": 1}, {"language": "Python", "repositories": 1}]
    assert rollup["licenses"] == [{"name": "MIT", "mentions": 1, "share": 1.0}]
    assert rollup["last_pushed_at"] == "2025-01-09T00:00:00Z"


def test_missing_organization_is_not_found() -> None:
    with pytest.raises(UpstreamError):
        compose("org-radar", {"org": "nobody"}, {})
    assert span_of({"repos": 10}) == (1, 51)
    assert span_of({"repos": 10, "include": "rollup"}) == (1, 1)


def test_questions_are_merged_and_ranked() -> None:
    rows = [
        hit(2, "2025-01-09", "How do I deploy Acme on a small server?", points=9),
        hit(1, "2025-01-08", "Acme is great", points=2),
    ]
    thread = {
        "id": 1,
        "type": "story",
        "children": [
            comment(11, "How can I deploy Acme on my server? Thanks."),
            comment(12, "Is there a dark theme for it? See https://x.example/?a=1"),
        ],
    }
    search = {f"{ALGOLIA}/search_by_date": {"hits": rows, "nbPages": 1}}
    answers = {**search, f"{ALGOLIA}/items/1": thread, f"{ALGOLIA}/items/2": {"id": 2, "type": "story", "children": []}}
    told = record("audience-questions", {"topic": "Acme", "platforms": "hackernews"}, answers)
    assert [(one["question"], one["count"], one["likes"]) for one in told["questions"]] == [
        ("How do I deploy Acme on a small server?", 2, 9),
        ("Is there a dark theme for it?", 1, 0),
    ]
    assert told["questions"][0]["score"] == round(4 + log(10), 4)
    assert [one["url"] for one in told["questions"][0]["quotes"]] == [
        "https://news.ycombinator.com/item?id=2",
        "https://news.ycombinator.com/item?id=11",
    ]
    assert (told["threads_read"], told["sentences_read"]) == (2, 3)


def test_question_has_several_words_and_no_url() -> None:
    text = "Why? Does it work at all? It does. See https://x.example/a?b=c it is. " + "word " * 50 + "?"
    assert sentences(text) == ["Does it work at all?"]
    assert sentences(None) == []


def test_leads_are_scored_by_the_table() -> None:
    rows = [
        hit(3, "2025-01-09", "Any good alternative to Acme? It is too expensive", points=5, comments=2),
        hit(2, "2024-12-20", "Acme vs Bolt"),
        hit(1, "2025-01-08", "Acme is great"),
    ]
    told = record("leads", {"competitor": "Acme", "platforms": "hackernews"}, hits(*rows))
    # 40 for the phrase, 15 for the question mark, 10 for discontent, 10 for the week; 20 for vs alone
    assert [(one["phrase_matched"], one["intent_score"]) for one in told["leads"]] == [
        ("alternative to Acme", 75),
        ("Acme vs", 20),
    ]
    assert told["leads"][0]["reasons"] == ["phrase: alternative to X", "asks", "is discontent", "of this week"]
    assert told["counts_by_phrase"]["alternative to Acme"] == told["counts_by_phrase"]["Acme vs"] == 1
    assert "author" not in told["leads"][0]
    assert told["sources"][0]["mentions"] == 6, "each of the three searches matches both"
    values = {"competitor": "Acme", "platforms": "hackernews", "offer": "A good tool, not expensive"}
    offered = record("leads", values, hits(*rows))["leads"]
    assert [one["intent_score"] for one in offered] == [85, 20], "the two words good and expensive score 10"
    assert offered[0]["reasons"][-1] == "offer"


def test_composite_fails_if_every_search_fails() -> None:
    for resource, values in (("leads", {"competitor": "Acme"}), ("mentions", {"phrase": "Acme"})):
        with pytest.raises((NotFound, UpstreamError)):
            compose(resource, values, {})


def test_pulse_reports_requested_parts_and_missing_platforms() -> None:
    rows = [hit(1, "2025-01-09", "Acme is great", link="https://blog.example/acme")]
    values = {"query": "Acme", "date_from": "2025-01-01", "subreddit": "Python"}
    result: Any = compose("devtool-pulse", {**values, "include": "hn,reddit"}, hits(*rows))
    assert [one["platform"] for one in result.record["attention"]["sources"]] == ["hackernews", "reddit"]
    assert result.record["attention"]["top_domains"] is None
    (absent,) = [leg for leg in result.legs if leg.endpoint == "reddit/search"]
    assert isinstance(absent.answer, Missing)
    assert isinstance(absent.answer.failure, PartUnavailable)
    sites: Any = compose("devtool-pulse", {**values, "include": "blogs"}, hits(*rows))
    assert sites.record["attention"]["top_domains"] == [{"name": "blog.example", "mentions": 1, "share": 1.0}]
    assert sites.record["dossier"] is None


def test_pulse_without_threads_keeps_its_dossier() -> None:
    told = record("devtool-pulse", {"query": "x", "repo": "ada/acme", "include": "reddit,dossier"}, GITHUB)
    assert told["dossier"]["info"]["full_name"] == "ada/acme"
    assert told["attention"] is told["tone"] is told["scores"]["attention"] is None
    with pytest.raises(UpstreamError):
        record("devtool-pulse", {"query": "x", "include": "reddit"}, {})


def test_launch_blogs_exclude_platform_hosts() -> None:
    links = ("https://blog.example/acme?utm_source=x", "https://blog.example/acme", "https://github.com/ada/acme",
             "https://acme.example/", "https://www.other.example/a")  # fmt: skip
    rows = [hit(place, "2025-01-09", "Acme is out", points=9 - place, link=link) for place, link in enumerate(links)]
    told = record("launch-echo", {"query": "Acme", "include": "blogs"}, hits(*rows))
    assert told["blogs"] == [
        {"url": "https://blog.example/acme?utm_source=x", "domain": "blog.example"},
        {"url": "https://www.other.example/a", "domain": "other.example"},
    ]
    assert record("launch-echo", {"query": "Acme", "include": "comments"}, hits(*rows))["blogs"] is None


def test_organization_accepts_its_url() -> None:
    rows = [{**REPO, "full_name": "ada/acme"}]
    for org in ("https://github.com/ada", "github.com/ada/", "@Ada", "ada"):
        told = record("org-radar", {"org": org, "include": "rollup"}, {f"{API}/users/ada/repos": rows})
        assert (told["platform"], told["org"].lower()) == ("github", "ada"), org
    for org in ("https://gitlab.com/ada", "example.org/ada", "https://github.com/ada/acme/issues/1"):
        with pytest.raises(InvalidArgument, match="not the URL of an organization") as refusal:
            record("org-radar", {"org": org}, {f"{API}/users/ada/repos": rows})
        assert refusal.value.param == "org"


def test_comments_are_scored_like_posts() -> None:
    rows = [hit(3, "2025-01-09", "Any good alternative to Acme?", points=5, comments=2)]
    said = [
        comment(31, "Switching from Acme was easy", comment(32, "Acme vs Bolt: no contest")),
        comment(33, "Acme is great"),
    ]
    thread = {"id": 3, "type": "story", "children": said}
    answers = {**hits(*rows), f"{ALGOLIA}/items/3": thread}
    values = {"competitor": "Acme", "platforms": "hackernews"}
    told = record("leads", {**values, "include": "comments"}, answers)
    # 40 + 15 + 10 for the post of this week; 45 and 20 for the comments of the 2nd, eight days before
    assert [(one["kind"], one["phrase_matched"], one["intent_score"]) for one in told["leads"]] == [
        ("post", "alternative to Acme", 65),
        ("comment", "switching from Acme", 45),
        ("comment", "Acme vs", 20),
    ]
    assert [one["kind"] for one in record("leads", values, answers)["leads"]] == ["post"]


def test_web_is_searched_on_request_and_its_pages_yield_questions() -> None:
    result: Any = compose("audience-questions", {"topic": "Acme", "platforms": "hackernews", "include": "web"}, hits())
    (leg,) = [one for one in result.legs if one.endpoint == "web/search"]
    assert isinstance(leg.answer, Missing), "no search engine is configured"
    page = {
        "url": "https://x.example/faq",
        "metadata": {"title": "Acme: how do I deploy it?", "description": None},
        "content": {"text": "Acme: how do I deploy it? Does it run on Windows?"},
    }
    found = [(one.text, one.platform, one.url) for one in of_page(page)]
    assert found == [
        ("Acme: how do I deploy it?", "web", "https://x.example/faq"),
        ("Does it run on Windows?", "web", "https://x.example/faq"),
    ]
