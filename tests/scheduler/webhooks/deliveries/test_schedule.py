"""The exact retry schedule, and the pauses of webhooks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.webhooks.deliveries.schedule import BACKOFF_S, Counted, DeliveryVerdict, count, judge

MIDDLE = 0.5
FAILED_STATUSES = [None, 100, 199, 300, 301, 302, 307, 400, 401, 404, 408, 429, 500, 503, 599]
DELIVERED, FAILED, WAITING = DeliveryVerdict("delivered"), DeliveryVerdict("failed"), DeliveryVerdict("waiting", 5.0)
GONE = DeliveryVerdict("failed", is_gone=True)


def test_backoff_is_0_s_5_s_5_min_30_min_2_h_5_h() -> None:
    pauses = [judge(500, attempt=attempt, draw=MIDDLE).pause_s for attempt in range(1, 7)]
    assert pauses == [5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, None]
    assert sum(BACKOFF_S) == 7 * 3600 + 35 * 60 + 5


@pytest.mark.parametrize("status", FAILED_STATUSES)
def test_failed_statuses_are_retried_until_the_sixth_attempt(status: int | None) -> None:
    assert [judge(status, attempt=attempt, draw=MIDDLE).state for attempt in range(1, 7)] == ["waiting"] * 5 + [
        "failed"
    ]


@pytest.mark.parametrize("attempt", range(1, 7))
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_status_2xx_is_delivered_at_any_attempt(status: int, attempt: int) -> None:
    assert judge(status, attempt=attempt, draw=0, retry_after_s=60) == DELIVERED


@pytest.mark.parametrize("attempt", range(1, 7))
def test_status_410_ends_the_delivery_and_pauses_its_webhook(attempt: int) -> None:
    verdict = judge(410, attempt=attempt, draw=0, retry_after_s=60)
    assert verdict == GONE
    assert count(0, verdict).pause == "gone"


@given(st.integers(1, 5), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e6))
def test_pause_is_the_step_with_jitter_or_retry_after_up_to_twice(
    attempt: int, draw: float, retry_after_s: float | None
) -> None:
    step = BACKOFF_S[attempt - 1]
    pause = judge(503, attempt=attempt, draw=draw, retry_after_s=retry_after_s).pause_s
    assert pause is not None
    own = judge(503, attempt=attempt, draw=draw).pause_s
    assert own is not None
    assert 0.8 * step <= own <= 1.2 * step
    assert pause == max(own, min(retry_after_s or 0, 2 * step))


def test_jitter_uses_its_whole_range() -> None:
    assert judge(500, attempt=1, draw=0).pause_s == pytest.approx(4)
    assert judge(500, attempt=1, draw=0.999999).pause_s == pytest.approx(6, abs=1e-4)


@pytest.mark.parametrize(("asked_s", "pause_s"), [(None, 300), (0, 300), (10, 300), (400, 400), (600, 600), (601, 600)])
def test_retry_after_is_honored_up_to_twice_the_step(asked_s: float | None, pause_s: float) -> None:
    assert judge(429, attempt=2, draw=MIDDLE, retry_after_s=asked_s).pause_s == pause_s


def test_backoff_steps_can_be_configured() -> None:
    assert judge(500, attempt=1, draw=MIDDLE, backoff_s=[7]).pause_s == 7
    assert judge(500, attempt=2, draw=MIDDLE, backoff_s=[7]).state == "failed"
    assert judge(500, attempt=1, draw=MIDDLE, backoff_s=[]).state == "failed"


# The failure counter


def test_ten_consecutive_failed_deliveries_pause_the_webhook() -> None:
    failures, pauses = 0, []
    for _ in range(11):
        counted = count(failures, FAILED)
        failures = counted.failures
        pauses.append(counted.pause)
    assert pauses == [None] * 9 + ["failures"] * 2


def test_success_resets_the_count_and_waiting_deliveries_do_not_count() -> None:
    assert count(9, DELIVERED) == Counted(0, None)
    assert count(9, WAITING) == Counted(9, None)
    assert count(9, FAILED) == Counted(10, "failures")


@pytest.mark.parametrize("verdict", [DELIVERED, FAILED, WAITING])
def test_redelivery_never_changes_the_failure_count(verdict: DeliveryVerdict) -> None:
    for failures in (0, 9, 10):
        assert count(failures, verdict, is_redelivery=True) == Counted(failures, None)


def test_status_410_pauses_the_webhook_for_redeliveries_too() -> None:
    assert count(3, GONE, is_redelivery=True) == Counted(3, "gone")
    assert count(3, GONE) == Counted(4, "gone")
