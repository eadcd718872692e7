"""A private PostgreSQL server: a new cluster in a temporary folder on a free loopback port, removed at the end."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from bench.peers.shared_servers import postgres_folder, unprivileged
from tests.processes.children import finish, launch
from tests.servers.ports import free_port

START_S = 90.0
STOP_S = 60.0
USER = "sluice"
END_ALL = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",  # with these settings, kill -9 of the server loses nothing; only a crash of the machine could
    "shared_buffers=32MB",
    "max_connections=60",
    "autovacuum_naptime=10s",
    "log_min_messages=fatal",
)


class PostgresServer:
    """A cluster that can be started, killed and frozen, and that provides fresh databases."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._user = unprivileged()
        if self._user is not None:
            os.chown(folder, self._user, self._user)
        self.port = free_port()
        self._run("initdb", "--no-sync", "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8")

    def url(self, port: int | None = None) -> str:
        """Return the address of the server's database. With another port, return the address of a proxy."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/postgres"

    def fresh(self) -> str:
        """Empty the server's database and return its address. Existing connections are cut."""
        self.start()
        self.hang_up()
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=60) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self.url()

    def hang_up(self) -> None:
        """End every connection."""
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=60) as connection:
            connection.execute(END_ALL)

    def start(self) -> None:
        """Start the server if it is not running, and wait until it responds."""
        if self._process is None:
            command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port)]
            for setting in SETTINGS:
                command += ["-c", setting]
            self._process = launch(command, folder=self._folder, user=self._user)
        give_up_at = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < give_up_at, "the server does not start"
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill the whole server immediately, like kill -9 of each of its processes."""
        process, self._process = self._process, None
        assert process is not None
        for pid in [process.pid, *_children(process.pid)]:
            _send(pid, signal.SIGKILL)
        finish(process)

    def freeze(self) -> None:
        """Freeze all of the server's processes."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server continue."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop the server, whatever its state."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            finish(self._process)
        self._process = None

    def _signal(self, number: int) -> None:
        assert self._process is not None
        for pid in [self._process.pid, *_children(self._process.pid)]:
            _send(pid, number)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            user=self._user,
            group=self._user,
        )


@contextmanager
def open_postgres() -> Iterator[PostgresServer]:
    """Run a server. Without PostgreSQL's programs the test is skipped, or fails if `SLUICE_REQUIRE_SERVERS` is set."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
    try:
        server = PostgresServer(folder, programs)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """Return the folder of the newest installed server."""
    found = postgres_folder()
    if found is None and os.environ.get("SLUICE_REQUIRE_SERVERS"):
        pytest.fail("PostgreSQL is not installed")
    return found or pytest.skip("PostgreSQL is not installed")


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
