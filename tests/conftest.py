"""The fixtures of more than one package, and how the whole suite is shared out among processes."""

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
"""Folders whose tests are many processes each, hold them to bounds of time and take longest, mostly by waiting."""
MEASURING = (*CROWDS, "tests/bench/")
"""Folders whose tests compare times with those of other processes, by the machine's own clock."""
PROCESSES = 5
"""Tests wait for more than half of their time, so that three processes leave one of two cores idle."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""A whole run holds a tenth of it at a time."""

# Hypothesis plays the same examples each time and everywhere, until their test changes: what has passed passes again.
# `pytest --hypothesis-profile search` looks for new ones. No machine is too slow for either.
UNHURRIED = settings(deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNHURRIED, derandomize=True)
settings.register_profile("search", UNHURRIED, derandomize=False)
settings.load_profile("same")
HypothesisProvider._local_constants = Constants()  # else examples hang on the constants of all modules loaded so far


def pytest_configure(config: pytest.Config) -> None:
    """Tests end programs with Ctrl-C and by closing a terminal; one that ignores these would start such as do."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        share_out_no_waits()
        if FAILURES_FILE in os.environ:
            config.pluginmanager.register(FailureRecorder(Path(os.environ[FAILURES_FILE])))


def share_out_no_waits() -> None:
    """Keep from all processes of the run what proves nothing: waits for a disk, and compiling a module twice.

    Files of tests are in memory, where there is room. No test cuts the machine's power, so none sees what a disk holds.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """All that is loaded until the tests are collected stays, and to walk over it again and again takes long."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Garbage is looked for among what the tests make, and not among the thousands of tests themselves.

    As often as Python does by itself, a tenth of all CPU went into it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes run the tests: one, where only some were asked for, which is easier to look into."""
    return PROCESSES if config.args == config.getini("testpaths") else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The crowds come first where processes share the work; else last, when whatever is quicker to fail has failed.

    Tests of SQLite itself are deselected on another engine. A test runs on the patient clock unless it measures time or
    names another clock. Tests in the folders and modules of `tests/gate/critical.py` are marked as critical.
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
    """A file is run by one process, and all crowds by one, so that no two of them ever meet on the machine."""

    def _split_scope(self, nodeid: str) -> str:
        return "crowds" if nodeid.startswith(CROWDS) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares:
    """Return the scheduler that shares the tests out."""
    return Shares(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole session; each test takes a fresh database of it."""
    with open_postgres() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def stores() -> Iterator[Stores | None]:
    """The server of all stores, where `SLUICE_TEST_STORE` asks for one."""
    with open_stores() as opened:
        yield opened


@pytest.fixture(autouse=True)
def stores_dropped(stores: Stores | None) -> Iterator[None]:
    """Drop all that a test has stored on that server."""
    with stores.dropping() if stores is not None else nullcontext():
        yield


@pytest.fixture(params=["sqlite", "postgres"] if engine() == "sqlite" else ["postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for the whole session; a test takes it as `empty_redis`."""
    with open_redis(tmp_path_factory.mktemp("redis"), options=("--enable-debug-command", "local")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A running server without any key or script, whatever the test before has done to it."""
    redis_server.empty()
    return redis_server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """The runner of short commands."""
    with open_commands() as commands:
        yield commands
