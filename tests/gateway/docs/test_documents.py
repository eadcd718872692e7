"""The pages that a node serves: HTML for people, and Markdown for programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from urllib.parse import urldefrag, urlencode

import msgspec
import orjson
import pytest
import trio
from lxml.html import fromstring

from events.log.kinds import FAMILIES, KINDS
from gateway.dashboard.address import PREFIX
from gateway.docs.catalog import CATEGORY_TITLES
from gateway.docs.errors import REASONS
from gateway.docs.pages.library import Library
from gateway.docs.pages.reasons import REMEDIES
from gateway.docs.pages.texts import OWN, troubled_first
from gateway.http.codes import CODES
from gateway.http.compression import LEAST_BYTES
from tests.fakes.calling import Answered
from tests.fakes.node import OpenNode
from tests.gate.matrix import sample_platforms
from tests.processes.commands import PROJECT
from upstreams.model.archetypes import ARCHETYPES
from upstreams.model.choices import CATEGORIES

RECORDS = ("/docs/records", "/docs/composite-records")
PAGE_BYTES_MAX = 150_000
ORIGIN = "https://app.example.com"


async def _anywhere(_host: str, _port: int) -> list[str]:
    await trio.lowlevel.checkpoint()
    return ["192.0.2.1"]


NODE = {
    "server": {"cors_origins": [ORIGIN]},
    "webhooks": {"allow_insecure_targets": True},
    "resolve": _anywhere,
}
LOADED = {"/style.css", "/page.js", "/inter-v20.woff2", "/favicon.svg"}


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a page, the files that it loads, its anchors and its tags."""

    hrefs: list[str]
    loaded: list[str]
    anchors: list[str]
    tags: list[str]


def links_of(answer: Answered) -> Links:
    page = fromstring(answer.body)
    found = [page.xpath(path) for path in ("//a/@href", "//*[not(self::a)]/@href | //@src", "//@id")]
    return Links(*found, [one.tag for one in page.iter()])


@dataclass(frozen=True, slots=True)
class Crawl:
    """What a crawl found by following links from the first page."""

    pages: dict[str, tuple[Answered, Links]]
    linked: set[str]


async def crawl(node: OpenNode, skipped: set[str]) -> Crawl:
    """Follow all links, but open no page in `skipped`."""
    found = Crawl({}, {"/"})
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        answer = await node.get(path, key=None, headers={"accept-encoding": "identity"})
        if path == PREFIX:
            assert answer.headers["location"].startswith(f"{PREFIX}/sign-in"), "no user has signed in"
            continue
        assert answer.status == 200, f"{path}: {answer.body[:200]!r}"
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        found.pages[path] = answer, links_of(answer)
        for target in {urldefrag(href).url for href in found.pages[path][1].hrefs} - found.linked:
            if target.startswith("/") and not target.startswith("/v1/"):
                found.linked.add(target)
                if target not in skipped:
                    waiting.append(target)
    return found


def sampled_pages(library: Library) -> tuple[set[str], set[str]]:
    """Return the pages of operations that the run reads, and those that it does not (`tests.gate.matrix`)."""
    operations = library.reference.operations
    chosen = {one.page for one in sample_platforms(operations, lambda one: one.platform)}
    return chosen, {one.page for one in operations} - chosen


async def test_every_page_is_linked_and_loads_only_local_files(node: OpenNode) -> None:
    """Goal: no dead links or anchors, no missing or heavy pages, no blocking scripts. Method: follow all links.

    Pages of operations have the same template, so the test only opens a sample of them.
    """
    await node.get("/docs", key=None)
    library = node.node.description._pages._texts.library
    opened, skipped = sampled_pages(library)
    crawled = await crawl(node, skipped)
    found = crawled.pages
    assert opened <= found.keys()
    assert set(library.pages) <= crawled.linked
    assert not set(library.pages) & set(OWN), "a platform's page has the same path"
    for path, (answer, links) in found.items():
        assert b"<!doctype html>" in answer.body
        assert len(answer.body) < PAGE_BYTES_MAX, path
        assert set(links.loaded) - {f"{path}.md", "/index.md"} == LOADED, path
        assert links.tags.count("script") == 1
        assert b'<script src="/page.js" defer></script>' in answer.body
        assert not {"iframe", "img"} & set(links.tags)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert len(set(links.anchors)) == len(links.anchors), f"{path} repeats an anchor"
        for href in set(links.hrefs):
            target, anchor = urldefrag(href)
            if anchor and (target or path) in found:
                assert anchor in found[target or path][1].anchors, f"{path} leads to {href}"


async def test_every_page_has_a_markdown_twin_with_twin_links(node: OpenNode) -> None:
    await node.get("/docs", key=None)
    library = node.node.description._pages._texts.library
    twins = {f"{path}.md" for path in library.pages} | {"/index.md", "/docs.md", "/status.md", "/search.md?q=x"}
    _, skipped = sampled_pages(library)
    texts = {}
    for path in twins:
        if path.removesuffix(".md") in skipped:
            continue
        answer = await node.get(path, key=None)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8"), path
        texts[path] = answer.body.decode()
        assert texts[path].startswith("# ")
    for path, text in texts.items():
        outside_code = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
        for target in re.findall(rf"\]\({re.escape(node.url)}(/docs[^)#]*)", outside_code):
            assert target in twins, f"{path} leads to {target}"


async def test_pages_equal_repository_documents(node: OpenNode) -> None:
    for file in (PROJECT / "docs").glob("*.md"):
        served = (await node.get(f"/docs/{file.name}", key=None)).body.decode()
        plain = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", served)
        written = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", file.read_text())
        assert plain.startswith(written.rstrip("\n")), file.name


def test_page_sources_are_installed() -> None:
    packed = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in ("docs", "gateway.docs.pages"):
        folder = PROJECT / package.replace(".", "/")
        taken = {file for pattern in packed[package] for file in folder.glob(pattern)}
        there = {file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
        # Nodes serve neither the unused pictures nor the pages that only operators may read.
        assert {file for file in there - taken if file.parent.name not in ("pictures", "operators")} == set()
    assert (PROJECT / "gateway/docs/pages/changelog.md").read_text() == (PROJECT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("form", ["/docs/events", "/docs/events.md"])
async def test_events_page_lists_every_type(form: str, node: OpenNode) -> None:
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


async def test_errors_page_has_every_code_with_anchor_and_reasons(node: OpenNode) -> None:
    page = await node.get("/docs/errors", key=None)
    assert CODES.keys() <= set(links_of(page).anchors)
    text = page.body.decode()
    assert all(f"<code>{reason.name}</code>" in text for reason in REASONS.values())


async def test_records_pages_list_every_shape_and_field(node: OpenNode) -> None:
    plain = (await node.get("/docs/records.md", key=None)).body.decode()
    composite = (await node.get("/docs/composite-records.md", key=None)).body.decode()
    for name, archetype in ARCHETYPES.items():
        assert [f"\n| [`{name}`](" in page for page in (plain, composite)] == [
            not archetype.has_legs,
            archetype.has_legs,
        ]
        page = f"{plain}{composite}" if archetype.has_legs else plain
        schema = (await node.get(f"/schemas/{name}.json", key=None)).json
        for record in schema["$defs"].values():
            assert record["description"] in page
            for field, one in record["properties"].items():
                assert re.search(rf"^\| `{field}` \| .+ \| {re.escape(one['description'])} \|$", page, re.M), field


async def test_records_pages_link_to_every_record(node: OpenNode) -> None:
    """Goal: a link to a record leads to its section, on the page that has it, and no record has two sections."""
    pages = {path: (await node.get(path, key=None)).body.decode() for path in RECORDS}
    sections = {path: re.findall(r'<h2[^>]* id="([^"]+)"', page) for path, page in pages.items()}
    every = [one for path in RECORDS for one in sections[path] if one != "shapes"]
    assert len(set(every)) == len(every) > 80
    for path, page in pages.items():
        for link in re.findall(r'href="([^"]*#[^"]+)"', page[page.index("<main") :]):
            to, _, anchor = link.partition("#")
            assert anchor in sections.get(to or path, ()), link
        assert 20_000 < len(page) < 0.9 * PAGE_BYTES_MAX


async def test_every_reason_has_a_page_with_meaning_remedy_and_calls(node: OpenNode) -> None:
    assert REMEDIES.keys() == REASONS.keys()
    for reason in REASONS.values():
        page = (await node.get(f"/docs/errors/{reason.name}.md", key=None)).body.decode()
        assert page.startswith(f"# {reason.name}\n\n")
        assert reason.meaning in page
        assert REMEDIES[reason.key] in page
        assert f"/docs/errors.md#{reason.code})" in page
    few = (await node.get("/docs/errors/unknown_consumer", key=None)).body.decode()
    assert "GET /v1/events/consumers/{consumer}" in few


async def test_user_text_is_never_markup(node: OpenNode) -> None:
    answer = await node.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E%22", key=None)
    assert links_of(answer).tags.count("script") == 1, "only the page's own scripts"
    assert b"&lt;script&gt;" in answer.body


SEARCHES = {
    "comments hacker news": "/docs/hackernews/story/comments",
    "idempotency": "/docs/idempotency",
    "rotate secret": "/docs/account/rotate-webhook-secret",
    "INVALID_REQUEST": "/docs/errors",
    "readme": "/docs/github/repo/readme",
    "above_max_credits": "/docs/errors/above_max_credits",
    "refund": "/docs/credits",
    "how do I get comments of a hacker news story": "/docs/hackernews/story/comments",
    "retry safely with an idempotency key": "/docs/idempotency",
    "get started": "/docs/quickstart",
    "code github": "/docs/github",
}


async def test_search_lists_expected_page_in_the_top_three_without_a_script(node: OpenNode) -> None:
    for words, path in SEARCHES.items():
        text = (await node.get(f"/search.md?q={words.replace(' ', '+')}", key=None)).body.decode()
        found = re.findall(r"\]\(([^)]+)\)", text)
        assert path in found[:3], words
        page = await node.get(f"/search?q={words.replace(' ', '+')}", key=None)
        assert path in links_of(page).hrefs
    nothing = await node.get("/search?q=zzzz", key=None)
    assert (nothing.status, b"No results" in nothing.body) == (200, True)


KINDS_OF_PAGE = (
    "/",
    "/index.md",
    "/docs",
    "/search?q=comments",
    "/search.md?q=comments",
    "/docs/api",
    "/docs/errors",
    "/docs/errors/account_gone",
    *RECORDS,
    "/docs/catalog",
    "/docs/changelog.md",
    "/docs/github",
    "/docs/github/profile",
    "/docs/github/profile.md",
    "/docs/account/create-monitor",
    "/status",
    "/status.md",
    "/llms.txt",
    "/llms-full.txt",
    "/schemas/Author.json",
    "/style.css",
    "/page.js",
    "/inter-v20.woff2",
    "/favicon.svg",
    "/robots.txt",
)


async def test_platform_page_has_links_and_day_of_check(node: OpenNode) -> None:
    page = (await node.get("/docs/hackernews.md", key=None)).body.decode()
    assert "See [hn.algolia.com/api](https://hn.algolia.com/api)." in page
    assert "Its [terms of use](https://www.ycombinator.com/legal/) apply." in page
    assert re.search(r"Last compared with the platform on \d{4}-\d\d-\d\d\.", page)
    composite = (await node.get("/docs/prism.md", key=None)).body.decode()
    assert "terms of use" not in composite
    assert "Last compared" not in composite


async def test_catalog_lists_every_platform_and_operation_by_category(node: OpenNode) -> None:
    """Method: compare the page, and the tables of its Markdown, with the declarations."""
    page = await node.get("/docs/catalog", key=None)
    library = node.node.description._pages._texts.library
    platforms = [site.platform for site in library.reference.catalog.sites.values()]
    (form,) = fromstring(page.body).xpath("//main//form")
    assert (form.get("action"), form.xpath(".//input/@name")) == ("/search", ["q"]), "it works without scripts"
    links = links_of(page)
    assert set(library.pages) & set(links.hrefs) >= {one.page for one in library.reference.operations if one.site}
    assert set(links.anchors) >= {one.category for one in platforms}
    text = (await node.get("/docs/catalog.md", key=None)).body.decode()
    found = dict[str, list[str]]()
    for section in re.split("^## ", text, flags=re.M)[1:]:
        found[section.partition("\n")[0]] = re.findall(r"^\| \[(.+?)\]", section, re.M)
    assert list(found) == [CATEGORY_TITLES[one] for one in CATEGORIES if CATEGORY_TITLES[one] in found]
    listed = [(title, category) for category, titles in found.items() for title in titles]
    assert sorted(listed) == sorted((one.title, CATEGORY_TITLES[one.category]) for one in platforms)
    for path in ("/", "/docs"):
        short = links_of(await node.get(path, key=None)).hrefs
        assert set(short) >= {f"/docs/{one.slug}" for one in platforms} | {"/docs/catalog"}
    menu = links_of(await node.get("/docs/github/profile", key=None)).hrefs
    assert {"/docs/gitlab", "/docs/github/repo", "/docs/catalog#social"} <= set(menu)
    assert "/docs/mastodon" not in menu, "the menu has only the platforms of the open category"


def test_every_category_has_a_title() -> None:
    assert tuple(CATEGORY_TITLES) == CATEGORIES


def test_troubled_platforms_are_listed_first() -> None:
    states = {"a": {"status": "operational"}, "b": {"status": "down"}, "c": {"status": "operational"}}
    assert list(troubled_first(states)) == ["b", "a", "c"]


async def test_pages_of_each_kind_follow_api_conventions(node: OpenNode) -> None:
    """Goal: HEAD, OPTIONS, 405, entity tags, gzip, Brotli and CORS."""
    for path in KINDS_OF_PAGE:
        full = await node.get(path, key=None, headers={"accept-encoding": "identity", "origin": ORIGIN})
        assert full.status == 200, path
        assert full.headers["access-control-allow-origin"] == ORIGIN
        head = await node.get(path, key=None, method="HEAD")
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", full.headers["content-type"])
        options = await node.get(path, key=None, method="OPTIONS")
        assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
        asking = {"origin": ORIGIN, "access-control-request-method": "GET"}
        preflight = await node.get(path, key=None, method="OPTIONS", headers=asking)
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, ORIGIN)
        refused = await node.get(path, key=None, method="POST")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        for coding in ("gzip", "br"):
            sent = await node.get(path, key=None, headers={"accept-encoding": coding})
            is_packed = path.endswith(".woff2") or len(full.body) <= LEAST_BYTES
            assert sent.headers.get("content-encoding") == (None if is_packed else coding), path
            assert len(sent.body) == len(full.body) or path.startswith("/status"), "the client decodes the body"
        known = await node.get(path, key=None, headers={"if-none-match": full.headers["etag"]})
        assert (known.status, known.body) == (304, b"") or path.startswith("/status"), path


async def test_unknown_path_is_a_page_for_browsers_and_json_for_programs(node: OpenNode) -> None:
    for path in ("/nowhere", "/docs/nowhere", "/docs/nowhere.md"):
        program = await node.get(path, key=None)
        assert (program.status, program.json["error"]["type"]) == (404, "ENDPOINT_NOT_FOUND")
        person = await node.get(path, key=None, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (person.status, person.headers["vary"]) == (404, "origin, accept, accept-encoding")
        assert b"Page not found" in person.body
        assert "default-src 'none'" in person.headers["content-security-policy"]
        assert (await node.get(path, key=None, method="OPTIONS")).status == 404
    under = await node.get("/v1/nowhere", headers={"accept": "text/html"})
    assert (under.status, under.json["success"]) == (404, False)


async def test_documented_error_matches_node(node: OpenNode) -> None:
    page = (await node.get("/docs/errors.md", key=None)).body.decode()
    key, _ = await node.new_key(await node.new_account(999))
    answer = await node.get("/v1/github/profile?hndle=octocat", key=key)
    (shown,) = re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)
    served = answer.body.decode().replace(node.url, "...").replace(answer.json["request_id"], "req_...")
    assert orjson.loads(shown) == orjson.loads(served)


QUESTIONS = {
    "comments of this Hacker News story": ("Hacker News", "story/comments", ["id"]),
    "a GitHub account": ("GitHub", "profile", ["handle"]),
    "the readme of a repository": ("GitHub", "repo/readme", ["url"]),
    "the releases of a repository": ("GitHub", "repo/releases", ["url"]),
    "who follows an account on Bluesky": ("Bluesky", "followers", ["handle"]),
    "who liked a post on Bluesky": ("Bluesky", "post/likes", ["url"]),
    "the newest stories": ("Hacker News", "new", []),
    "the answers to a question": ("Stack Exchange", "question/answers", ["id"]),
    "a search for stories": ("Hacker News", "search", ["query"]),
    "the issues of a GitLab repository": ("GitLab", "repo/issues", ["url"]),
}
"""Questions, each with the expected platform and endpoint, and the parameters of the call."""


async def test_agent_finds_valid_call_in_three_fetches(node: OpenNode) -> None:
    """Goal: `/llms.txt`, a platform page and an endpoint page lead to a successful call. Method: ten questions."""
    index = (await node.get("/llms.txt", key=None)).body.decode()
    for question, (platform, resource, needed) in QUESTIONS.items():
        platform_page = dict(re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)", index, re.M))[platform]
        listed = (await node.get(platform_page.removeprefix(node.url), key=None)).body.decode()
        endpoint_page = dict(re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\)", listed, re.M))[resource]
        page = (await node.get(endpoint_page.removeprefix(node.url), key=None)).body.decode()
        (path,) = re.findall(r"^`GET (/v1/[^`]+)`$", page, re.M)
        rows = dict(re.findall(r"^\| `([a-z_]+)` (\|.*)$", page, re.M))
        required = {name for name, row in rows.items() if re.match(r"\| \w+ \| required", row)}
        assert required <= set(needed) <= rows.keys(), question
        values = {name: re.findall(r"Example `([^`]+)`", rows[name])[0] for name in needed}
        answer = await node.get(f"{path}?{urlencode(values)}")
        assert (answer.status, answer.json["success"]) == (200, True), (question, answer.body)


PROGRAMS = {"sh": ["sh", "-c"], "python": [sys.executable, "-c"], "js": ["node", "--input-type=module", "-e"]}


@pytest.mark.parametrize("language", PROGRAMS)
async def test_code_copied_from_pages_runs(language: str, node: OpenNode) -> None:
    """Goal: copied code works. Method: a read with a query and a change with a body."""
    for program in ("curl", "node"):
        if shutil.which(program) is None:
            assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{program} is not installed"
            pytest.skip(f"{program} is not installed")
    for page, expected in (("github/profile", "octocat"), ("account/create-monitor", "Followers of octocat")):
        text = (await node.get(f"/docs/{page}.md", key=None)).body.decode()
        (code,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
        done = await trio.run_process(
            [*PROGRAMS[language], code],
            env={"KEY": node.key, "PATH": os.environ["PATH"]},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert (done.returncode, expected in done.stdout.decode()) == (0, True), (done.stdout, done.stderr)
    (made,) = (await node.get("/v1/monitors")).json["data"]["items"]
    assert (made["name"], made["cadence"]) == ("Followers of octocat", "daily")


FIRST_PAGE = """
import sys, tempfile, threading, trio
from pathlib import Path
from tests.fakes.node import open_test_node

PAGES = {"quart", "quart_trio", "jinja2", "markdown_it", "werkzeug"}
threads = set()

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in PAGES:
            threads.add(threading.current_thread() is threading.main_thread())

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with open_test_node(Path(folder)) as node:
            for path in ("github/profile?handle=octocat", "status", "openapi.json", "utility/endpoints"):
                assert (await node.get(f"/v1/{path}")).status == 200
            print(sorted(PAGES & set(sys.modules)))
            sys.meta_path.insert(0, Watch())
            assert (await node.get("/", key=None)).status == 200
            print(sorted(PAGES & set(sys.modules)), threads)

trio.run(main)
"""


def test_page_code_is_loaded_with_first_page_outside_the_event_loop() -> None:
    """Goal: a node whose pages are not read does not load them. Method: a process that serves the API first."""
    done = subprocess.run([sys.executable, "-c", FIRST_PAGE], capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "[]"
    assert after == "['jinja2', 'markdown_it', 'quart', 'quart_trio', 'werkzeug'] {False}"
