"""A crawl whose node is killed repeatedly. `python -m tests.storm.crawls` runs it at full size."""

from pathlib import Path

import trio

from tests.processes.commands import Commands
from tests.storm.crawls.run import Size, storm


async def test_crawl_loses_no_page_and_is_charged_for_none_twice_under_kills(
    tmp_path: Path, commands: Commands
) -> None:
    with trio.fail_after(300):
        report = await storm(tmp_path, Size(pages=60, kill_every_s=0.4, kills_max=3), commands)
    assert report.kills >= 2
    assert report.most_at_once <= 2
