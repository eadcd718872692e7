"""A crawl whose node is killed again and again: small here, of full size by `python -m tests.storm.crawls`."""

from pathlib import Path

import trio

from tests.processes.commands import Commands
from tests.storm.crawls.beside import Besides, Compared, compare
from tests.storm.crawls.run import Size, storm


async def test_a_crawl_loses_no_page_and_pays_none_twice_however_often_its_node_is_killed(
    tmp_path: Path, commands: Commands
) -> None:
    with trio.fail_after(300):
        report = await storm(tmp_path, Size(pages=60, kill_every_s=0.4, kills_max=3), commands)
    assert report.kills >= 2
    assert report.most_at_once <= 2


async def test_misses_come_beside_crawls_that_are_paused_and_go_on_by_turns(tmp_path: Path, commands: Commands) -> None:
    """Times are compared by the named command alone: here only what the comparison stands on."""
    with trio.fail_after(120):
        compared = await compare(tmp_path, Besides(crawls=2, turns=2, misses=10, lines=20), commands)
    assert (len(compared.with_ms), len(compared.without_ms), compared.failed) == (10, 10, {})
    assert compared.pages > 0


def test_a_comparison_is_judged_by_the_longest_of_a_hundred() -> None:
    even = [10.0] * 98
    assert Compared([*even, 14.0, 14.0], [*even, 10.0, 10.0], pages=1).flaws() == []
    assert Compared([*even, 16.0, 16.0], [*even, 10.0, 10.0], pages=1).flaws() == ["the p99 is 1.60 times as long"]
    assert Compared(even, even).flaws() == ["no page was read beside them"]
