"""The server's connection loop with bytes that no correct client sends."""

from hypothesis import HealthCheck, given, settings

from tests.fuzz.edge import Attack, check_attack
from tests.fuzz.reference import Asked, read_requests
from tests.fuzz.requests import ATTACKS, SOUND_ATTACKS

SHORT = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@SHORT
@given(ATTACKS)
def test_server_reads_attacks_like_a_second_reader(attack: Attack):
    check_attack(attack)


def may_close(asked: Asked) -> bool:
    """Return whether the connection may close after the answer: only that ends it, or the request's body is unread."""
    endless = asked.version == b"1.0" and asked.target in {b"/stream", b"/early"} and asked.method != b"HEAD"
    bodiless = not {b"content-length", b"transfer-encoding"} & dict(asked.headers).keys()
    return not asked.keeps or endless or (not bodiless and asked.target in {b"/ignore", b"/early"})


@SHORT
@given(SOUND_ATTACKS)
def test_valid_requests_are_answered_until_one_closes_the_connection(attack: Attack):
    app = check_attack(attack)
    wanted = read_requests(attack.data)
    assert app.answered == len(app.asked)
    assert not any(not asked.keeps for asked in wanted[: len(app.asked) - 1])
    assert len(app.asked) == len(wanted) or may_close(wanted[len(app.asked) - 1])
