"""Hot paths are limited by counted instructions: a request that exceeds the committed figure fails the check.

The gate runs the count itself (`python -m bench.instructions --check`), under callgrind and against a real node.
"""

from dataclasses import replace
from functools import partial

import pytest
import trio

from bench.core.callgrind import Callgrind, total_of
from bench.core.errors import ChildFailed
from bench.core.scenarios import SCENARIOS
from bench.counted_rows import KINDS, figure_name
from bench.counted_starts import LIBRARIES, MARKS, NODE, above_marks
from bench.counted_writer import STEPS
from bench.counted_writer import figure_name as writer_figure_name
from bench.instructions import (
    COUNTED,
    Counting,
    build_name,
    check,
    count_once,
    read_figures,
    record,
)
from bench.peers.servers import open_stage
from bench.rows import LISTS

FIGURES = {"miss": 600_000, "hit": 200_000}


def test_every_scenario_with_a_mark_is_counted() -> None:
    assert COUNTED == ("miss", "hit", "replay", "unauthorized", "reject")
    rows = {figure_name(id_, kind) for id_ in LISTS for kind in KINDS}
    batches = {writer_figure_name(kind) for kind in STEPS}
    assert all(set(figures) == {*COUNTED, *rows, *batches} for figures in read_figures().values())


def test_start_above_its_absolute_mark_fails() -> None:
    """Goal: a short command takes under 0.3 s of CPU, and a node's start 2.5 times the import of the libraries."""
    assert above_marks(MARKS) == []
    assert above_marks({LIBRARIES: 1_000, NODE: 3_300}) == []
    assert above_marks({LIBRARIES: 1_000, NODE: 3_301}) == [
        "a node's start and end takes 3,301 instructions, more than 3,300"
    ]
    assert above_marks({**MARKS, "sluice check": 1_400_000_001}) == [
        "sluice check takes 1,400,000,001 instructions, more than 1,400,000,000"
    ]


def test_count_over_five_percent_above_its_figure_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert check({"miss": 629_999, "hit": 210_000}, FIGURES) == []
    over = check({"miss": 630_001, "hit": 150_000}, FIGURES)
    assert over == ["miss takes 630,001 instructions, 1.050 of 600,000"]
    assert "hit: 0.750 of 200,000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("counted", "is_settled"),
    [
        ([], False),
        ([629_000], True),
        ([631_000], False),
        ([631_000, 629_000], True),
        ([631_000, 700_000], False),
        ([631_000, 700_000, 631_000], True),
    ],
)
def test_count_is_repeated_only_while_it_exceeds_its_bound(counted: list[int], is_settled: bool) -> None:
    assert Counting(requests=1, committed=FIGURES).is_settled("miss", counted) is is_settled
    assert Counting(requests=1).is_settled("miss", counted) is (len(counted) == 3)


def test_figures_of_another_build_cause_a_note_instead_of_a_comparison(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check(FIGURES, None) == []
    assert "nothing was compared" in capsys.readouterr().out


def test_recorded_figures_are_stored_by_build(tmp_path) -> None:
    file = tmp_path / "figures.json"
    file.write_text('{"another build": {"miss": 1}}')
    record({**FIGURES, "sluice check": 1}, file)
    assert read_figures(file) == {"another build": {"miss": 1}, build_name(): FIGURES}


def test_profile_without_a_total_is_rejected() -> None:
    assert total_of("events: Ir\nsummary: 1234\n") == 1234
    assert total_of("fn=(1)\n1 2\ntotals: 99\n") == 99
    with pytest.raises(ChildFailed):
        total_of("events: Ir\n")


class Uncounted(Callgrind):
    """Counts nothing: the process does not run under callgrind."""

    def begin(self, pid: int) -> None:
        pass

    def end(self, pid: int) -> int:
        return 1


async def test_unexpected_response_fails_the_count(tmp_path) -> None:
    """Goal: a path that was not taken has no figure. Method: hits are requested, but each request is a miss."""
    wrong = replace(SCENARIOS["miss"], head="x-cache: hit")
    async with open_stage(wrong.stage) as target:
        with pytest.raises(ChildFailed, match="without x-cache: hit"):
            await trio.to_thread.run_sync(
                partial(count_once, wrong, target, Uncounted(tmp_path), requests=100, first_key=1)
            )
