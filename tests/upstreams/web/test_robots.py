"""Cached robots files: the memory that their rules use is limited."""

from __future__ import annotations

import gc
import tracemalloc
from importlib import import_module

import pytest

from upstreams.model.steps import Answer, Task
from upstreams.web.robots import ALLOWS_ALL, REMEMBERED_BYTES_MAX, WILDCARDS_MAX, RobotsFile, RobotsMemory, _read_robots

LINES = 8_000
FEW_BYTES = 10_000
"""The memory that the interpreter may keep after a check."""
FILES = {
    "short rules": "".join(f"Disallow: /{number:x}\n" for number in range(LINES)),
    "rules with a wildcard": "".join(f"Disallow: /*{number:x}$\n" for number in range(LINES)),
    "rules with many wildcards": "".join(f"Disallow: /{'*a' * 20}{number}\n" for number in range(LINES // 4)),
    "escaped rules": "".join(f"Disallow: /%{number % 256:02x}{number:x}é\n" for number in range(LINES)),
    "agents": "".join(f"User-agent: a{number}\nDisallow: /\n" for number in range(LINES)),
}


def look(file: RobotsFile, url: str, tasks: list[Task] | None = None) -> bool:
    """Return whether a file allows a page. Worker tasks run in this process and are recorded."""
    steps = file.allows(url)
    try:
        wanted = next(steps)
        assert isinstance(wanted, Task)
        if tasks is not None:
            tasks.append(wanted)
        module, _, name = wanted.function.partition(":")
        steps.send(Answer(200, {}, getattr(import_module(module), name)(*wanted.args), "web"))
    except StopIteration as ended:
        return bool(ended.value)
    raise AssertionError("a check is at most one task")


@pytest.mark.critical
def test_file_with_many_wildcards_is_checked_by_a_worker() -> None:
    """Goal: a check that takes up to 80 ms does not block other requests, and gives the same result."""
    short = (
        "User-agent: sluice/1.0\nDisallow: /*private\nAllow: /*private/open$\nCrawl-delay: 2\n"
        "Sitemap: https://a.example/s.xml\n"
    )
    long = short + "".join(f"Disallow: /*x{number}$\n" for number in range(WILDCARDS_MAX))
    few, many = (_read_robots(text.encode(), "text/plain") for text in (short, long))
    assert (many.rules, many.sitemaps, many.spacing_s) == (None, few.sitemaps, few.spacing_s)
    for path in ("/", "/a/private/x", "/private/open", "/private/open/2"):
        tasks: list[Task] = []
        url = f"https://a.example{path}"
        assert look(many, url, tasks) == look(few, url), path
        assert len(tasks) == 1
    assert not look(many, "https://a.example/bx7")
    assert look(few, "https://a.example/bx7")


@pytest.mark.critical
@pytest.mark.parametrize("name", FILES)
def test_counted_memory_covers_the_rules(name: str) -> None:
    look(_read_robots(b"User-agent: *\nDisallow: /a\n", "text/plain"), "https://a.example/b")
    raw = f"User-agent: *\n{FILES[name]}".encode()
    gc.collect()
    tracemalloc.start()
    try:
        file = _read_robots(raw, "text/plain")
        look(file, "https://a.example/b")
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= file.rules_bytes + FEW_BYTES


@pytest.mark.parametrize("file", [ALLOWS_ALL, RobotsFile(None, 1_000_000)])
def test_cached_files_are_bounded_and_the_newest_stay(file: RobotsFile) -> None:
    memory = RobotsMemory()
    for number in range(60_000):
        memory._remember(f"https://{number}.example", file, 1.0)
        assert memory._bytes <= REMEMBERED_BYTES_MAX
    assert len(memory._files) <= REMEMBERED_BYTES_MAX // 800
    assert "https://59999.example" in memory._files
    for origin in list(memory._files):
        memory._remember(origin, file, 2.0)
    assert memory._bytes <= REMEMBERED_BYTES_MAX, "a file that is read again is not counted twice"


@pytest.mark.parametrize(
    "agent",
    [
        "User-agent: Sluice/1.0",
        "user-agent:sluice/2 (+https://a.test/) # us",
        "User-agent: other\rUser-agent: Sluice/1.0",
    ],
)
def test_file_may_name_our_agent_with_a_version(agent: str) -> None:
    rules = f"{agent}\nDisallow: /private\n\nUser-agent: *\nDisallow: /user-agents/a/b\n"
    file = _read_robots(rules.encode(), "text/plain")
    assert not look(file, "https://a.example/private/x")
    assert look(file, "https://a.example/user-agents/a/b"), "that rule is for other agents"
