"""The facts of the plan, as producers create them, with valid data."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from events.log.kinds import (
    KINDS,
    AccountChange,
    AccountWebhookPaused,
    CreditsExhausted,
    CreditsLow,
    DiscoverCounts,
    DiscoverCredits,
    DiscoverLegs,
    DiscoverNewCounts,
    DiscoverNewRows,
    DiscoverRun,
    KeyRevoked,
    MonitorAlert,
    MonitorRun,
    PackPurchase,
    WebChange,
    WebCheckFailed,
    WebhookPaused,
)
from events.log.log import Fact, Subject
from tests.storm.plan import Plan, subject_of, told

SLOT: Final = "2026-01-01T00:00:00Z"
LEGS: Final = DiscoverLegs(planned=10, done=7, empty=1, failed=1, skipped=0, pending=1)
DATA: Final[dict[type[Struct], Struct]] = {
    type(one): one
    for one in (
        DiscoverRun(
            run_id="run_1",
            status="completed",
            stopped_because=None,
            counts=DiscoverCounts(legs=LEGS, rows_kept=120),
            credits=DiscoverCredits(spent=10),
            version=3,
            schedule_id="sch_1",
        ),
        DiscoverNewRows(
            run_id="run_1",
            status="completed",
            stopped_because=None,
            counts=DiscoverNewCounts(legs=LEGS, rows_kept=120, rows_new=5),
            credits=DiscoverCredits(spent=10),
            version=3,
            schedule_id="sch_1",
        ),
        MonitorRun(
            monitor_id="mon_1",
            run_id="run_1",
            status="ok",
            scheduled_for=SLOT,
            alerts_fired=0,
            rows=20,
            credits_spent=1,
            skip_reason=None,
        ),
        MonitorAlert(monitor_id="mon_1", run_id="run_1", scheduled_for=SLOT, alerts_fired=2),
        WebhookPaused(monitor_id="mon_1", delivery_id=None, failures_in_a_row=10),
        AccountWebhookPaused(webhook_id="wh_1", delivery_id="del_1", failures_in_a_row=10),
        WebChange(
            monitor_id="wm_1",
            check_id="run_1",
            scheduled_for=SLOT,
            similarity_percent=90,
            lines_added=2,
            lines_removed=1,
            credits_spent=1,
        ),
        WebCheckFailed(
            monitor_id="wm_1", check_id="run_1", status="skipped", scheduled_for=SLOT, skip_reason="running"
        ),
        CreditsLow(balance=19, held=1, pack_credits=100, threshold_credits=20, credits_per_day=None, exhausted_at=None),
        CreditsExhausted(balance=0, pack_credits=100),
        PackPurchase(
            purchase_id="pur_1",
            status="paid",
            reason=None,
            source="stripe",
            plan="starter",
            credits=1_000,
            credits_reversed=0,
            credits_taken_back=0,
            balance=1_000,
        ),
        KeyRevoked(key_id="key_1", last4="abcd"),
        AccountChange(account_id="acc_1"),
    )
}


def fact(plan: Plan, number: int) -> Fact:
    """Return the fact with this number."""
    account_id, key_id, kind, parent_id = told(plan, number)
    id_ = subject_of(number)
    data = DATA[KINDS[kind].data]
    links = {"run": f"/v1/runs/{id_}"}
    return Fact(account_id, kind, Subject("run", id_), data, key_id=key_id, parent_id=parent_id, links=links)
