"""An open WebSocket with bytes that no correct client sends."""

from hypothesis import HealthCheck, given, settings

from tests.fuzz.edge import Attack
from tests.fuzz.frames import SOCKET_ATTACKS, SOUND_SOCKET_ATTACKS
from tests.fuzz.sockets import check_socket

SHORT = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


@SHORT
@given(SOCKET_ATTACKS)
def test_server_reads_frames_like_a_second_reader(attack: Attack):
    check_socket(attack)


@SHORT
@given(SOUND_SOCKET_ATTACKS)
def test_valid_frames_are_all_received_and_the_close_is_answered(attack: Attack):
    app = check_socket(attack)
    assert app.end is not None
    assert app.end not in {1002, 1006, 1007, 1009}
