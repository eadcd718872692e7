"""Fixtures that several packages use, and how the suite is distributed among processes."""

import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import Constants, HypothesisProvider
from xdist.scheduler import LoadFileScheduling

from tests.fakes.patient_clock import run_patiently
from tests.fakes.stores import Stores, engine, open_stores
from tests.gate.critical import is_critical
from tests.gate.failures import FAILURES_FILE, FailureRecorder
from tests.processes.commands import Commands, open_commands
from tests.servers.postgres import PostgresServer, open_postgres
from tests.servers.redis import RedisServer, open_redis

CROWDS = ("tests/crash/", "tests/hostile/neighbours/", "tests/many/", "tests/storm/")
"""Folders whose tests start many processes and have time limits. They take longest, mostly because they wait."""
MEASURING = (*CROWDS, "tests/bench/")
"""Folders whose tests compare their times with those of other processes. They use the machine's own clock."""
PROCESSES = 5
"""The number of test processes. Tests wait for more than half of their time, so three processes would leave one of two
cores idle."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""The free memory that is required to keep files in memory. A whole run uses at most a tenth of it."""

# Hypothesis runs the same examples each time on every machine until the test changes, so a test that has passed passes
# again. `pytest --hypothesis-profile search` searches for new examples. Neither profile has a deadline, because
# machines may be slow.
UNHURRIED = settings(deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNHURRIED, derandomize=True)
settings.register_profile("search", UNHURRIED, derandomize=False)
settings.load_profile("same")
HypothesisProvider._local_constants = Constants()  # otherwise examples depend on the loaded modules


def pytest_configure(config: pytest.Config) -> None:
    """Restore the default signal handlers, because tests end programs with Ctrl-C and by closing a terminal.

    Programs started by a process that ignores these signals would ignore them too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        share_out_no_waits()
        if FAILURES_FILE in os.environ:
            config.pluginmanager.register(FailureRecorder(Path(os.environ[FAILURES_FILE])))


def share_out_no_waits() -> None:
    """Avoid waits that prove nothing: for a disk, and for compiling the same module in each process.

    Test files are in memory if there is enough. No test turns off the machine, so it does not matter what reaches the
    disk.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Disable the garbage collector until tests are collected.

    Everything loaded by then stays, and scanning it takes long.
    """
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude everything loaded so far, such as the thousands of tests, from garbage collection.

    Collections are also made less frequent, because with Python's default thresholds they took a tenth of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of test processes. If only some tests are selected, it is one, which is easier to debug."""
    return PROCESSES if config.args == config.getini("testpaths") else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark, deselect and sort the tests.

    The tests in `CROWDS` come first if processes share the work. Otherwise, they come last, so that faster tests fail
    first. Tests of SQLite itself are deselected on another engine. A test runs on the patient clock unless it measures
    time or names another clock. Tests in the folders and modules of `tests/gate/critical.py` are marked as critical.
    """
    for item in items:
        is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if is_async and not item.nodeid.startswith(MEASURING) and item.get_closest_marker("trio") is None:
            item.add_marker(pytest.mark.trio(run=run_patiently))
        if is_critical(item.nodeid):
            item.add_marker(pytest.mark.critical)
    if engine() != "sqlite":
        about_sqlite = {item for item in items if item.get_closest_marker("sqlite")}
        items[:] = [item for item in items if item not in about_sqlite]
        config.hook.pytest_deselected(items=list(about_sqlite))
    items.sort(key=lambda item: item.nodeid.startswith(CROWDS), reverse=hasattr(config, "workerinput"))


class Shares(LoadFileScheduling):
    """Runs each file in one process, and all tests in `CROWDS` in one process, so that these never run concurrently."""

    def _split_scope(self, nodeid: str) -> str:
        return "crowds" if nodeid.startswith(CROWDS) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares:
    """Return the scheduler that distributes the tests."""
    return Shares(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL server for the whole session. Each test uses a fresh database on it."""
    with open_postgres() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def stores() -> Iterator[Stores | None]:
    """The server for the stores of all tests, if `SLUICE_TEST_STORE` selects one."""
    with open_stores() as opened:
        yield opened


@pytest.fixture(autouse=True)
def stores_dropped(stores: Stores | None) -> Iterator[None]:
    """Drop everything that a test has stored on that server."""
    with stores.dropping() if stores is not None else nullcontext():
        yield


@pytest.fixture(params=["sqlite", "postgres"] if engine() == "sqlite" else ["postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store. A test runs once for each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis server for the whole session. Tests use it through `empty_redis`."""
    with open_redis(tmp_path_factory.mktemp("redis"), options=("--enable-debug-command", "local")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A running Redis server without keys or scripts, regardless of what the previous test did."""
    redis_server.empty()
    return redis_server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """The runner of short commands."""
    with open_commands() as commands:
        yield commands
