"""`sluice platforms`: the registry, and live calls of endpoints."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import orjson
import pytest

from gateway.calls.pricing import price_of
from tests.fakes.calling import get
from tests.processes.commands import Commands
from tests.processes.place import Place
from upstreams.composites import composite_slugs, load_all

ENDPOINTS = [f"{platform.slug}/{one.resource}" for platform in load_all() for one in platform.endpoints]


@pytest.fixture(scope="module")
def sandboxed(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[Place]:
    """A place whose upstream is the sandbox."""
    place = Place(tmp_path_factory.mktemp("platforms"), commands)
    with place.sandbox() as egress:
        place.configure(upstreams={"egress": egress})
        yield place


def test_platforms_are_listed_with_links_and_day_of_check(place: Place) -> None:
    listed = {each["slug"]: each for each in place.run("platforms", "list", "--json").json}
    assert [*listed] == [one.slug for one in load_all()]
    assert sum(each["endpoints"] for each in listed.values()) == len(ENDPOINTS)
    hackernews = next(one for one in load_all() if one.slug == "hackernews")
    assert listed["hackernews"] == {
        "slug": "hackernews",
        "title": "Hacker News",
        "category": "forums",
        "endpoints": len(hackernews.endpoints),
        "checked_on": hackernews.checked_on,
        "docs_url": "https://hn.algolia.com/api",
        "terms_url": "https://www.ycombinator.com/legal/",
        "maintainer": None,
    }
    assert (listed["prism"]["category"], listed["prism"]["checked_on"]) == ("combined", None)


def test_endpoints_of_one_platform_are_listed_with_price_and_needs(place: Place) -> None:
    listed = place.run("platforms", "list", "youtube", "--json").json
    assert [each["id"] for each in listed] == [id_ for id_ in ENDPOINTS if id_.startswith("youtube/")]
    assert {"id", "archetype", "credits", "needs", "summary"} == listed[0].keys()
    youtube = next(one for one in load_all() if one.slug == "youtube")
    assert [each["credits"] for each in listed] == [price_of(each).credits for each in youtube.endpoints]
    assert next(each["needs"] for each in listed if each["id"] == "youtube/videos") == "key"


def test_endpoints_of_one_platform_are_listed(place: Place) -> None:
    lines = place.run("platforms", "list", "github").out.splitlines()
    assert len(lines) == sum(id_.startswith("github/") for id_ in ENDPOINTS)
    assert lines[0].startswith("id=github/profile  archetype=Author  credits=1  needs=-  summary=")


def test_smoke_calls_available_endpoints_except_composites(sandboxed: Place) -> None:
    """Composites repeat the calls of these endpoints, so their message says how to try them."""
    results = sandboxed.json_of("platforms", "smoke")
    assert [each["id"] for each in results] == ENDPOINTS
    assert [each for each in results if each["outcome"] == "failed"] == []
    skipped = {each["id"]: each["detail"] for each in results if each["outcome"] == "skipped"}
    of_others = {
        id_: detail
        for id_, detail in skipped.items()
        if detail.startswith("combines calls to other endpoints; to try it")
    }
    composites = tuple(f"{slug}/" for slug in composite_slugs() if slug != "web")
    assert [*of_others] == [id_ for id_ in ENDPOINTS if id_.startswith(composites)]
    assert all(detail.startswith("needs ") for id_, detail in skipped.items() if id_ not in of_others)
    assert len(skipped) < len(results) / 2


def test_smoke_of_one_platform_reports_outcomes(sandboxed: Place) -> None:
    ended = sandboxed.operate("platforms", "smoke", "github")
    assert (ended.exit_code, ended.err) == (0, "")
    assert ended.out.startswith("id=github/profile  outcome=ok  detail=1 record by api in 0.0")


def test_smoke_fails_if_an_endpoint_fails(place: Place) -> None:
    """Method: an egress without a listener."""
    place.configure(upstreams={"egress": "http://127.0.0.1:1", "github": {"retries": 0}})
    ended = place.operate("platforms", "smoke", "github")
    count = sum(id_.startswith("github/") for id_ in ENDPOINTS)
    assert ended.exit_code == 1
    assert ended.out.count("outcome=failed") == count
    assert ended.err.startswith(f"sluice: {count} of {count} endpoints failed: github/profile, ")
    assert ended.err.count("\n") == 1


class Forgetful(BaseHTTPRequestHandler):
    """A platform that returns one account, with only an id and a login."""

    def do_GET(self) -> None:
        is_known = self.path.startswith("/api.github.com/users/octocat?") or self.path.endswith("/users/octocat")
        body = b'{"id": 1, "login": "octocat"}' if is_known else b'{"message": "Not Found"}'
        self.send_response(200 if is_known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Log nothing."""


def test_smoke_names_missing_fields(place: Place) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forgetful) as upstream:
        Thread(target=upstream.serve_forever, daemon=True).start()
        place.configure(upstreams={"egress": f"http://127.0.0.1:{upstream.server_port}", "github": {"retries": 0}})
        ended = place.operate("platforms", "smoke", "github")
        upstream.shutdown()
    profile = next(line for line in ended.out.splitlines() if line.startswith("id=github/profile "))
    said, _, gone = profile.partition("; gone: ")
    assert said.startswith("id=github/profile  outcome=drifted  detail=1 record by api in 0.")
    assert {"name", "followers", "created_at"} <= set(gone.split(", "))
    assert not {"id", "login"} & set(gone.split(", "))


def test_new_prints_written_files_and_requires_a_checkout(place: Place, tmp_path: Path) -> None:
    (tmp_path / "upstreams" / "platforms").mkdir(parents=True)
    written = place.run("platforms", "new", "my_forum", "--folder", str(tmp_path)).out
    assert f"written={tmp_path}/upstreams/platforms/my_forum/__init__.py" in written
    assert "is not a checkout" in place.run("platforms", "new", "other", "--folder", "/").refused(2)


def test_sandbox_runs_alone_with_configured_failure_rate(place: Place) -> None:
    for rate, status in (("0", 200), ("1", 503)):
        with place.start("sandbox", "--failure-rate", rate) as process:
            line = orjson.loads(process.first_line)
            assert line.keys() == {"event", "url"}
            assert get(f"{line['url']}/api.github.com/users/octocat").status == status
            assert process.stop() == 0
