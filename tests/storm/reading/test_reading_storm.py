"""The storm of long pages, small: every page comes, and the status is told meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.storm.reading.__main__ import storm


async def test_pages_that_come_at_once_are_all_read_while_the_status_is_told(tmp_path: Path) -> None:
    """The node's steps are held by `open_timed_node`: none may take the loop."""
    report = await storm(tmp_path, 4, 200_000)
    assert (report.statuses, report.unsaid) == ({200: 4}, 0)
    assert report.waited_ms
