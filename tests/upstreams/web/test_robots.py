"""Robots files that are remembered: counted by the memory that their rules take, and bounded."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from upstreams.web.robots import ALLOWS_ALL, REMEMBERED_BYTES_MAX, RobotsFile, RobotsMemory, _read_robots

LINES = 8_000
FILES = {
    "short rules": "".join(f"Disallow: /{number:x}\n" for number in range(LINES)),
    "rules with a wildcard": "".join(f"Disallow: /*{number:x}$\n" for number in range(LINES)),
    "rules with many wildcards": "".join(f"Disallow: /{'*a' * 20}{number}\n" for number in range(LINES // 4)),
    "escaped rules": "".join(f"Disallow: /%{number % 256:02x}{number:x}é\n" for number in range(LINES)),
    "agents": "".join(f"User-agent: a{number}\nDisallow: /\n" for number in range(LINES)),
}


@pytest.mark.critical
@pytest.mark.parametrize("name", FILES)
def test_rules_take_no_more_memory_than_is_counted(name: str) -> None:
    _read_robots(b"User-agent: *\nDisallow: /a\n", "text/plain").allows("https://a.example/b")
    raw = f"User-agent: *\n{FILES[name]}".encode()
    gc.collect()
    tracemalloc.start()
    try:
        file = _read_robots(raw, "text/plain")
        file.allows("https://a.example/b")
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= file.rules_bytes


@pytest.mark.parametrize("file", [ALLOWS_ALL, RobotsFile(None, 1_000_000)])
def test_remembered_files_are_bounded_and_the_newest_stay(file: RobotsFile) -> None:
    memory = RobotsMemory()
    for number in range(60_000):
        memory._remember(f"https://{number}.example", file, 1.0)
        assert memory._bytes <= REMEMBERED_BYTES_MAX
    assert len(memory._files) <= REMEMBERED_BYTES_MAX // 800
    assert "https://59999.example" in memory._files
    for origin in list(memory._files):
        memory._remember(origin, file, 2.0)
    assert memory._bytes <= REMEMBERED_BYTES_MAX, "a file that is read again is not counted twice"
