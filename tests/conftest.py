"""Fixtures that several packages use, and how the whole suite is distributed over processes."""

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

from tests.fakes.shared_loop import run_shared_or_patiently
from tests.fakes.stores import Stores, engine, open_stores
from tests.gate.critical import is_critical
from tests.gate.failures import FAILURES_FILE, FailureRecorder
from tests.gate.heavy import CROWDS, HEAVY, crowd_of, is_heavy
from tests.processes.commands import Commands, open_commands
from tests.servers.postgres import PostgresServer, open_postgres
from tests.servers.redis import RedisServer, open_redis

MEASURING = (*CROWDS, "tests/bench/")
"""Folders whose tests compare times with other processes, so they use the machine's real clock."""
PROCESSES = 5
"""The number of processes for two cores. Tests wait for more than half of their time, so with three processes, one core
would often be idle."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Free bytes that the memory file system needs. A whole run uses at most a tenth of them."""

# Hypothesis runs the same examples every time and everywhere, until their test changes. A test that has passed
# therefore passes again. `pytest --hypothesis-profile search` looks for new examples. Both profiles accept slow
# machines.
UNHURRIED = settings(deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNHURRIED, derandomize=True)
settings.register_profile("search", UNHURRIED, derandomize=False)
settings.load_profile("same")
HypothesisProvider._local_constants = Constants()  # otherwise, examples would depend on all modules loaded so far


def pytest_configure(config: pytest.Config) -> None:
    """Restore the default signal handlers: some tests end programs with Ctrl-C or by closing a terminal.

    A process that ignores these signals would start programs that ignore them too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        avoid_useless_waits()
        if FAILURES_FILE in os.environ:
            config.pluginmanager.register(FailureRecorder(Path(os.environ[FAILURES_FILE])))


def avoid_useless_waits() -> None:
    """Avoid useless work in all processes of the run: waits for a disk, and compiling a module twice.

    Test files are kept in memory if there is enough room. No test cuts the machine's power, so none depends on what a
    disk has stored.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def is_whole_run(config: pytest.Config) -> bool:
    """Return whether pytest was started without naming tests."""
    return bool(config.args == config.getini("testpaths"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the heavy tests, or with `-m heavy` all others, without importing them. Named tests are never skipped."""
    if not is_whole_run(config):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    if config.getoption("markexpr") == "heavy":
        leads_there = collection_path.is_dir() and any(one.startswith(f"{path}/") for one in HEAVY)
        return None if leads_there or is_heavy(path + "/" * collection_path.is_dir()) else True
    return is_heavy(path + "/" * collection_path.is_dir()) or None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Disable garbage collection during the collection of tests.

    Everything that is loaded by then stays in memory, and scanning it repeatedly is slow.
    """
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze the collected tests, so that garbage collection only scans objects that the tests create.

    The threshold is higher than Python's default, with which garbage collection took a tenth of all CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of processes: one for a selection of tests, because one process is easier to debug."""
    return PROCESSES if is_whole_run(config) else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the process-heavy folders first if several processes share the work, otherwise last, after the quicker tests.

    Tests of SQLite itself are deselected on another engine. A test uses the patient clock unless it measures time,
    names another clock, or is in a module with `trio_run = run_virtually`. Tests in the folders and modules of
    `tests/gate/critical.py` and `heavy.py` get the marker.
    """
    for item in items:
        is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if is_async and not item.nodeid.startswith(MEASURING) and item.get_closest_marker("trio") is None:
            module = getattr(item, "module", None)
            item.add_marker(pytest.mark.trio(run=getattr(module, "trio_run", run_shared_or_patiently)))
        if is_heavy(item.nodeid):
            item.add_marker(pytest.mark.heavy)
        if is_critical(item.nodeid):
            item.add_marker(pytest.mark.critical)
    if engine() != "sqlite":
        about_sqlite = {item for item in items if item.get_closest_marker("sqlite")}
        items[:] = [item for item in items if item not in about_sqlite]
        config.hook.pytest_deselected(items=list(about_sqlite))
    items.sort(key=lambda item: item.nodeid.startswith(CROWDS), reverse=hasattr(config, "workerinput"))


class Scheduler(LoadFileScheduling):
    """One process runs all tests of a file, and one process runs all tests of a crowd.

    As a result, no two tests of a crowd run concurrently on the machine.
    """

    def _split_scope(self, nodeid: str) -> str:
        return crowd_of(nodeid) or str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduler:
    """Return the scheduler that distributes the tests."""
    return Scheduler(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole session. Each test uses a new database on it."""
    with open_postgres() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def stores() -> Iterator[Stores | None]:
    """The server of all stores, if `SLUICE_TEST_STORE` names one."""
    with open_stores() as opened:
        yield opened


@pytest.fixture(autouse=True)
def stores_dropped(stores: Stores | None) -> Iterator[None]:
    """Drop everything that a test has stored on that server."""
    with stores.dropping() if stores is not None else nullcontext():
        yield


@pytest.fixture(params=["sqlite", "postgres"] if engine() == "sqlite" else ["postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis server for the whole session. Tests use it as `empty_redis`."""
    with open_redis(tmp_path_factory.mktemp("redis"), options=("--enable-debug-command", "local")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A running Redis without keys and scripts, even if the previous test left some."""
    redis_server.empty()
    return redis_server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """A runner for short commands."""
    with open_commands() as commands:
        yield commands
