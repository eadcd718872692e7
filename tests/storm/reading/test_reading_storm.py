"""The storm of long pages, small: every page is read, and the status is available meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.storm.reading.__main__ import storm


async def test_concurrent_pages_are_all_read_while_the_status_is_served(tmp_path: Path) -> None:
    """`open_timed_node` limits the node's steps: none may block the event loop."""
    report = await storm(tmp_path, 4, 200_000)
    assert (report.statuses, report.unsaid) == ({200: 4}, 0)
    assert report.waited_ms
