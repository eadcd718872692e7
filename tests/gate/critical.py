"""Which tests are critical: tests of credits, limits, data loss and security.

They carry the marker `critical`, and the gate never gives them a second try: a race that loses a credit once in a
hundred runs is a bug, not bad luck. All tests in a folder or module that is named here are critical. A single critical
test elsewhere is marked where it is defined.
"""

from __future__ import annotations

from typing import Final

MONEY: Final = (
    "tests/billing/",
    "tests/crash/",
    "tests/simulation/",
    "tests/gateway/calls/",
    "tests/gateway/cli/test_batch_killed.py",
    "tests/gateway/cli/test_ledger.py",
    "tests/gateway/cli/test_operation_ids.py",
    "tests/gateway/cli/test_pack.py",
    "tests/gateway/payments/",
    "tests/many/test_dying_nodes.py",
    "tests/many/test_frozen_postgres.py",
    "tests/many/test_killed_node.py",
    "tests/many/test_money_and_keys.py",
    "tests/many/test_toxic_networks.py",
    "tests/scheduler/jobs/",
    "tests/scheduler/monitors/runs/",
    "tests/scheduler/sessions/",
    "tests/spec/test_5_2_budgets.py",
    "tests/spec/test_7_5_",
    "tests/spec/test_8_idempotency.py",
    "tests/spec/test_account_reads.py",
    "tests/spec/test_price_asked.py",
)
LIMITS: Final = (
    "tests/limits/",
    "tests/gateway/api/test_admission",
    "tests/gateway/api/test_unread_responses.py",
    "tests/gateway/node/test_shared_admission.py",
    "tests/hostile/",
    "tests/many/test_limits_of_a_key.py",
    "tests/spec/test_8_events_limits.py",
    "tests/spec/test_8_limits.py",
)
DATA_LOSS: Final = (
    "tests/contract/",
    "tests/events/",
    "tests/storage/",
    "tests/gateway/cli/test_hard_disks.py",
    "tests/gateway/cli/test_lost_files.py",
    "tests/gateway/cli/test_one_node_per_file.py",
    "tests/gateway/cli/test_secrets_kept.py",
    "tests/gateway/feed/test_cancelled_feed.py",
    "tests/many/test_feed_of_two_nodes.py",
    "tests/scheduler/webhooks/deliveries/",
    "tests/storm/",
    "tests/spec/test_4_3_collect.py",
    "tests/spec/test_4_3_pagination.py",
    "tests/spec/test_4_4_",
)
SECURITY: Final = (
    "tests/gateway/admin/test_access.py",
    "tests/gateway/admin/test_proof.py",
    "tests/gateway/api/test_isolation.py",
    "tests/gateway/cli/test_admin_access.py",
    "tests/gateway/cli/test_impostors.py",
    "tests/gateway/config/test_secrets.py",
    "tests/gateway/dashboard/test_access.py",
    "tests/gateway/http/test_forwarded.py",
    "tests/gateway/server/http1/",
    "tests/scheduler/webhooks/targets/",
    "tests/spec/test_5_2_auth.py",
    "tests/spec/test_5_2_accounts.py",
    "tests/upstreams/guard/",
)
CRITICAL: Final = (*MONEY, *LIMITS, *DATA_LOSS, *SECURITY)
MEASURED: Final = ("tests/hostile/neighbours/test_neighbours.py",)
"""These are not critical, although their folder is: they measure waits, which depend on other tests on the same cores.
"""


def is_critical(nodeid: str) -> bool:
    """Return whether a test belongs to a folder or module that is critical as a whole."""
    return nodeid.startswith(CRITICAL) and not nodeid.startswith(MEASURED)
