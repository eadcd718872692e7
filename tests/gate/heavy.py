"""Which tests are heavy: a plain `pytest` skips them, and `pytest -m heavy` runs only them.

They start crowds of processes, storms, benchmarks or browsers, or run a whole matrix over all endpoints. The other
tests are the core suite: quick, and independent of how fast the machine is. A test that is named on the command line
always runs.
"""

from __future__ import annotations

from typing import Final

MEASURED: Final = ("tests/hostile/neighbours/", "tests/storm/beside/", "tests/storm/reading/")
"""Folders whose tests compare times with and without a load."""
KILLS: Final = ("tests/crash/", "tests/storm/")
"""Folders whose tests kill nodes again and again."""
CLUSTERS: Final = ("tests/many/",)
"""Folders whose tests run several nodes over PostgreSQL and Redis."""
CROWDS: Final = (*MEASURED, *KILLS, *CLUSTERS)
"""Folders whose tests start many processes, have time limits, and take longest, mostly by waiting."""
PROCESSES: Final = (
    "tests/bench/",
    "tests/browser/",
    "tests/clients/",
    "tests/docs/",
    "tests/fuzz/",
    "tests/gateway/cli/",
    "tests/gateway/node/workers/",
    "tests/hostile/",
    "tests/openapi/",
    "tests/scheduler/sessions/",
    "tests/test_docs.py",
    "tests/upstreams/web/",
    "tests/upstreams/workers/",
)
"""Tests that start commands, whole nodes, browsers or pools of processes."""
MATRICES: Final = (
    "tests/billing/archive/",
    "tests/cases/",
    "tests/contract/",
    "tests/gateway/calls/test_money_machine.py",
    "tests/gateway/docs/test_documents.py",
    "tests/limits/test_window_long_run.py",
    "tests/platforms/test_astray.py",
    "tests/platforms/test_odd_bodies.py",
    "tests/scheduler/monitors/runs/test_clock_simulation.py",
    "tests/scheduler/monitors/runs/test_clock_skew.py",
    "tests/simulation/",
    "tests/spec/test_2_1_envelope.py",
    "tests/spec/test_2_4_guide.py",
    "tests/spec/test_4_3_pagination.py",
    "tests/spec/test_7_2_no_500.py",
    "tests/spec/test_8_cache.py",
    "tests/spec/test_price_asked.py",
)
"""Tests of every endpoint, value or order of events, and long simulations."""
TIMED: Final = (
    "tests/gateway/api/test_overload.py",
    "tests/gateway/node/test_loop_steps.py",
    "tests/storage/postgres/test_away.py",
)
"""Tests whose result depends on how fast the machine is."""
HEAVY: Final = (*CROWDS, *PROCESSES, *MATRICES, *TIMED)


def crowd_of(path: str) -> str | None:
    """Return the name of the crowd of a test; None if it is in none. No two tests of a crowd run concurrently."""
    crowds = {"measured": MEASURED, "kills": KILLS, "clusters": CLUSTERS}
    return next((name for name, folders in crowds.items() if path.startswith(folders)), None)


def is_heavy(path: str) -> bool:
    """Return whether the tests in a file or folder of the project are heavy."""
    return path.startswith(HEAVY)
