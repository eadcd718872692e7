"""The pages that a node serves: for people, and as Markdown for programs that read."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag

import msgspec
import pytest
import trio

from events.log.kinds import FAMILIES, KINDS
from gateway.docs.errors import REASONS
from gateway.http.codes import CODES
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode, open_test_node
from tests.processes.commands import PROJECT

PAGE_BYTES_MAX = 150_000


class Links(HTMLParser):
    """The addresses that a page leads to, what it loads, and the anchors in it."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.loaded: list[str] = []
        self.anchors: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.anchors.append(value or "")
            elif name == "href" and tag == "a":
                self.hrefs.append(value or "")
            elif name in ("href", "src"):
                self.loaded.append(value or "")


def links_of(answer: Answered) -> Links:
    links = Links()
    links.feed(answer.body.decode())
    return links


async def crawl(node: OpenNode) -> dict[str, Answered]:
    """Every page that can be reached from the first by links, by its path."""
    found: dict[str, Answered] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        found[path] = answer = await node.get(path, key=None)
        assert answer.status == 200, f"{path}: {answer.body[:200]!r}"
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        for href in links_of(answer).hrefs:
            target = urldefrag(href).url
            if target.startswith("/") and target not in found and target not in waiting and target[:4] != "/v1/":
                waiting.append(target)
    return found


async def test_every_page_is_reached_by_links_that_lead_somewhere_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    """Goal: no dead link, no dead anchor, no page that is missing or heavy, and no script. Method: a walk over all."""
    async with open_test_node(tmp_path) as node:
        found = await crawl(node)
        library = node.node.description.pages._texts.library
        html = {path: links_of(answer) for path, answer in found.items() if b"<!doctype html>" in answer.body}
        assert set(library.pages) <= html.keys()
        for path, links in html.items():
            answer = found[path]
            assert len(answer.body) < PAGE_BYTES_MAX, path
            assert set(links.loaded) <= {"/style.css", "/favicon.svg", f"{path}.md", "/index.md"}, path
            assert not {"script", "iframe", "img"} & set(links.tags)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert len(set(links.anchors)) == len(links.anchors), f"{path} has an anchor twice"
            for href in links.hrefs:
                target, anchor = urldefrag(href)
                if anchor and (target or path) in html:
                    assert anchor in html[target or path].anchors, f"{path} leads to {href}"


async def test_every_page_has_a_twin_whose_links_lead_to_twins(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        await node.get("/docs", key=None)
        library = node.node.description.pages._texts.library
        twins = [f"{path}.md" for path in library.pages] + [
            "/index.md",
            "/docs.md",
            "/status.md",
            "/docs/search.md?q=x",
        ]
        texts = {}
        for path in twins:
            answer = await node.get(path, key=None)
            assert (answer.status, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8"), path
            texts[path] = answer.body.decode()
            assert texts[path].startswith("# ")
        for path, text in texts.items():
            outside_code = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
            for target in re.findall(rf"\]\({re.escape(node.url)}(/docs[^)#]*)", outside_code):
                assert target in texts, f"{path} leads to {target}"


async def test_the_pages_are_the_documents_of_the_repository(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for file in (PROJECT / "docs").glob("*.md"):
            served = (await node.get(f"/docs/{file.name}", key=None)).body.decode()
            plain = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", served)
            written = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", file.read_text())
            assert plain.startswith(written.rstrip("\n")), file.name


@pytest.mark.parametrize("form", ["/docs/events", "/docs/events.md"])
async def test_the_events_page_has_every_type_with_when_and_what(form: str, tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        page = (await node.get(form, key=None)).body.decode().replace("<code>", "`").replace("</code>", "`")
    for kind in KINDS.values():
        assert f"`{kind.name}`" in page
        assert kind.when in page
        for field in msgspec.structs.fields(kind.data):
            assert f"`{field.name}" in page
    assert all(f"`{family}`" in page for family in FAMILIES)
    assert "`counts.legs.planned`" in page
    if form == "/docs/events":
        assert all(f'id="{name}"' in page for name in KINDS)


async def test_the_errors_page_has_every_code_under_its_anchor_with_its_reasons(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        page = await node.get("/docs/errors", key=None)
    assert CODES.keys() <= set(links_of(page).anchors)
    text = page.body.decode()
    assert all(f"<code>{reason.name}</code>" in text for reason in REASONS.values())


async def test_what_people_write_is_never_markup(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await node.get("/docs/search?q=%3Cscript%3Ealert(1)%3C/script%3E%22", key=None)
    assert "script" not in links_of(answer).tags
    assert b"&lt;script&gt;" in answer.body


SEARCHES = {
    "comments hacker news": "/docs/hackernews/story/comments",
    "idempotency": "/docs/idempotency",
    "rotate secret": "/docs/account/rotate-webhook-secret",
    "INVALID_REQUEST": "/docs/errors",
    "readme": "/docs/github/repo/readme",
}


async def test_a_search_finds_what_is_meant_first_and_without_a_script(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for words, path in SEARCHES.items():
            text = (await node.get(f"/docs/search.md?q={words.replace(' ', '+')}", key=None)).body.decode()
            found = re.findall(r"\]\(([^)]+)\)", text)
            assert path in found[:3], words
            page = await node.get(f"/docs/search?q={words.replace(' ', '+')}", key=None)
            assert path in links_of(page).hrefs
        nothing = await node.get("/docs/search?q=zzzz", key=None)
        assert (nothing.status, b"Nothing was found" in nothing.body) == (200, True)


async def test_only_reads_are_answered_and_a_question_for_the_methods(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for path in ("/", "/docs/errors", "/llms.txt", "/style.css", "/schemas/Author.json"):
            full, head = await node.get(path, key=None), await node.get(path, key=None, method="HEAD")
            assert (head.status, head.body, head.headers["content-type"]) == (200, b"", full.headers["content-type"])
            options = await node.get(path, key=None, method="OPTIONS")
            assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
            refused = await node.get(path, key=None, method="POST")
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        assert (await node.get("/nowhere", key=None)).status == 404
        assert (await node.get("/nowhere", key=None, method="OPTIONS")).status == 404


QUESTIONS = {
    "comments of a Hacker News story": ("Hacker News", "story/comments", {"id": "1"}),
    "a GitHub account": ("GitHub", "profile", {"handle": "octocat"}),
    "the readme of a repository": ("GitHub", "repo/readme", {"url": "https://github.com/a/b"}),
    "the releases of a repository": ("GitHub", "repo/releases", {"url": "https://github.com/a/b"}),
    "who follows an account on Bluesky": ("Bluesky", "followers", {"handle": "ada.example.com"}),
    "who liked a post on Bluesky": ("Bluesky", "post/likes", {"url": "https://bsky.app/profile/a.test/post/3k"}),
    "the newest stories": ("Hacker News", "new", {}),
    "the answers to a question": ("Stack Exchange", "question/answers", {"id": "1"}),
    "a search for stories": ("Hacker News", "search", {"query": "trio"}),
    "the jobs on Hacker News": ("Hacker News", "jobs", {}),
}


async def test_a_program_that_reads_comes_from_the_index_to_a_correct_call_in_three_fetches(tmp_path: Path) -> None:
    """Goal: `/llms.txt`, the platform's page, the endpoint's page, a call that is valid. Method: ten questions."""
    async with open_test_node(tmp_path) as node:
        index = (await node.get("/llms.txt", key=None)).body.decode()
        for platform, resource, params in QUESTIONS.values():
            platform_page = dict(re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)", index, re.M))[platform]
            listed = (await node.get(platform_page.removeprefix(node.url), key=None)).body.decode()
            endpoint_page = dict(re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\)", listed, re.M))[resource]
            page = (await node.get(endpoint_page.removeprefix(node.url), key=None)).body.decode()
            path = re.findall(r"^`GET (/v1/[^`]+)`$", page, re.M)[0]
            named = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.M))
            assert params.keys() <= named, (path, named)
            query = "&".join(f"{name}={value}" for name, value in {**params, "dry_run": "1"}.items())
            answer = await node.get(f"{path}?{query}")
            assert answer.status == 200, answer.body


async def test_the_python_of_an_endpoint_s_page_runs(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        page = (await node.get("/docs/github/profile.md", key=None)).body.decode()
        code = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)[0]
        done = await trio.run_process(
            [sys.executable, "-c", code], env={"KEY": node.key}, capture_stdout=True, capture_stderr=True, check=False
        )
        assert (done.returncode, b"octocat" in done.stdout) == (0, True), done.stderr.decode()[-500:]


def test_a_node_loads_nothing_of_the_pages_before_one_is_asked_for() -> None:
    code = "import sys, gateway.node.wiring; print({'quart', 'jinja2', 'markdown_it'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert done.stdout == "set()\n"
