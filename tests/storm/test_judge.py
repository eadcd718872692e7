"""The judges of the storm find planted faults: a loss, a repetition, a wrong order, a partial batch."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from tests.storm.judge import Filter, Given, LogJudge, Row, judge_consumer, judge_walk, visible
from tests.storm.plan import Account, Plan, batch_of, fact_of, facts_of, is_undone, subject_of, told

PLAN = Plan(seed=1, writers=1, pause_s=0.0, folder="", accounts=(Account("acc_1", ("key_1", "key_2")),))
BATCHES = [batch for batch in (batch_of(1, 0, number) for number in range(40)) if not is_undone(PLAN, batch)]
UNDONE = next(batch for batch in (batch_of(1, 0, number) for number in range(1000)) if is_undone(PLAN, batch))


def rows_of(batches: list[int]) -> list[Row]:
    facts = [fact for batch in batches for fact in facts_of(PLAN, batch)]
    rows = []
    for pos, fact in enumerate(facts, 1):
        _, key_id, kind, parent_id = told(PLAN, fact)
        rows.append(Row(pos, kind, key_id, subject_of(fact), parent_id, float(pos // 3)))
    return rows


def verdicts(rows: list[Row], reported: list[int], *, last: int | None = None) -> list[str]:
    judge = LogJudge(PLAN)
    ends = (1, len(rows) if last is None else last)
    return [*judge.log("acc_1", rows, ends=ends), *judge.batches(reported)]


def renumbered(rows: list[Row]) -> list[Row]:
    return [row._replace(pos=pos) for pos, row in enumerate(rows, 1)]


def test_sound_log_passes_whether_its_last_batches_were_reported_or_not() -> None:
    assert verdicts(rows_of(BATCHES), BATCHES) == []
    assert verdicts(rows_of(BATCHES), BATCHES[:-3]) == []
    assert verdicts(rows_of(BATCHES[:-3]), BATCHES[:-3]) == []


def test_missing_reported_batch_is_found() -> None:
    assert verdicts(rows_of(BATCHES[:-1]), BATCHES) == [f"batch {BATCHES[-1]:x} was reported and is lost"]


def test_partial_batch_is_found() -> None:
    rows = renumbered([row for row in rows_of(BATCHES) if fact_of(row.subject_id) != BATCHES[5] << 8])
    for reported in (BATCHES, BATCHES[:5]):
        (verdict,) = verdicts(rows, reported)
        assert verdict.startswith(f"batch {BATCHES[5]:x} is there in part")


def test_undone_batch_in_the_log_is_found() -> None:
    assert verdicts(rows_of([*BATCHES, UNDONE]), BATCHES) == [f"batch {UNDONE:x} was undone and is there"]


Spoil = Callable[[list[Row]], list[Row]]


@pytest.mark.parametrize(
    ("spoil", "verdict"),
    [
        (lambda rows: renumbered([*rows, rows[3]]), "was written twice"),
        (lambda rows: [*rows[:7], *rows[8:]], "position 9 stands where 8 belongs"),
        (lambda rows: [*rows[:7], rows[7]._replace(created_at=0.0), *rows[8:]], "created_at falls at position 8"),
        (lambda rows: [*rows[:7], rows[7]._replace(type="key.seen"), *rows[8:]], "is not what was told"),
        (lambda rows: [*rows[:7], rows[7]._replace(key_id="key_9"), *rows[8:]], "is not what was told"),
    ],
)
def test_wrong_row_is_found(spoil: Spoil, verdict: str) -> None:
    assert any(verdict in one for one in verdicts(spoil(rows_of(BATCHES)), BATCHES))


def test_feed_with_a_different_end_is_found() -> None:
    rows = rows_of(BATCHES)
    assert verdicts(rows, BATCHES, last=len(rows) + 1)


def test_key_sees_its_own_and_account_events_that_match_its_filter() -> None:
    rows = rows_of(BATCHES)
    seen = visible(rows, "key_1", Filter(("discover.*", "key.revoked"), ("parent_1", "parent_2")))
    assert seen
    assert list(seen) == [
        fact_of(row.subject_id)
        for row in rows
        if row.key_id != "key_2"
        and (row.type.startswith("discover.") or row.type == "key.revoked")
        and row.parent_id in ("parent_1", "parent_2")
    ]


LOG = list(range(100, 120))


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (LOG[:-1], "it saw 19 events of 20, the first ones the same"),
        ([*LOG, 119], "it saw 21 events of 20, the first ones the same"),
        ([*LOG[:5], *LOG[6:]], "event 5 was left out or came too late"),
        ([*LOG[:5], *LOG[4:]], "event 5 was seen before"),
        ([*LOG[:5], LOG[6], LOG[5], *LOG[7:]], "event 5 was left out or came too late"),
        ([*LOG[:5], 7, *LOG[5:]], "event 5 is none that it may see"),
    ],
)
def test_walker_that_lost_repeated_or_mixed_events_is_found(seen: list[int], verdict: str) -> None:
    assert list(judge_walk(LOG, LOG)) == []
    assert list(judge_walk(LOG, seen)) == [verdict]


def page(start: int, end: int, *, acked_before: int = 0) -> Given:
    return Given(array("Q", LOG[start:end]), acked_before)


SOUND = [page(0, 6), page(6, 12, acked_before=1), page(12, 20, acked_before=2)]


def test_repeated_pages_and_late_acknowledgements_are_sound() -> None:
    given = [page(0, 6), page(0, 6), page(6, 12), page(6, 12), SOUND[2]]
    assert list(judge_consumer(LOG, given, SOUND)) == []
    assert list(judge_consumer(LOG, given, [SOUND[1], SOUND[0], SOUND[2], SOUND[0]])) == []


@pytest.mark.parametrize(
    ("given", "acked", "verdict"),
    [
        (SOUND, SOUND[:2], "acknowledged up to event 12 of 20"),
        ([SOUND[0], SOUND[2]], [SOUND[0], SOUND[2]], "events 6 to 12 were never acknowledged"),
        ([*SOUND, page(6, 12, acked_before=2)], SOUND, "a page begins at event 6, acknowledged before up to 12"),
        ([*SOUND, page(3, 6)], SOUND, "a page begins at event 3, where nothing was acknowledged"),
        ([*SOUND, page(6, 13)], SOUND, "the page at event 6 changed before it was acknowledged"),
        (
            [*SOUND, Given(array("Q", [100, 102]), 0)],
            SOUND,
            "a page of 2 events, the first is 0, is no piece of the log",
        ),
        ([*SOUND, Given(array("Q", [7]), 0)], SOUND, "a page of 1 events, the first is -1, is no piece of the log"),
    ],
)
def test_consumer_that_lost_repeated_or_mixed_events_is_found(
    given: list[Given], acked: list[Given], verdict: str
) -> None:
    assert verdict in list(judge_consumer(LOG, given, acked))
