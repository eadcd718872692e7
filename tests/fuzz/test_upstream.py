"""The transport with answers that no correct upstream sends."""

from hypothesis import HealthCheck, given, settings

from tests.fuzz.answers import SOUND_TURNS, TURNS
from tests.fuzz.reference import read_answer
from tests.fuzz.upstream import Turn, check_turns

SHORT = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@SHORT
@given(TURNS)
def test_transport_reads_answers_like_a_second_reader(turns: tuple[Turn, ...]):
    check_turns(turns)


@SHORT
@given(SOUND_TURNS)
def test_valid_answers_are_read_until_one_closes_the_connection(turns: tuple[Turn, ...]):
    outcomes = check_turns(turns)
    for turn, outcome in zip(turns, outcomes, strict=False):
        told, _ = read_answer(turn.data, b"GET")
        assert told is not None
        assert outcome.answer is not None
        assert outcome.reusable == (not told.closes)
    assert len(outcomes) == len(turns) or not outcomes[-1].reusable
