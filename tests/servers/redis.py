"""Real Redis servers: one, three with two sentinels, or a cluster of three."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from coredis.exceptions import RedisError
from coredis.parser import NotEnoughData, Parser

from storage.redis.wire import pack
from tests.processes.children import finish, launch
from tests.processes.waiting import wait_until
from tests.servers.ports import free_port

SERVER = "redis-server"
WITHIN_S = 60.0
ANSWER_S = 30.0
SLOTS = 16384
_QUIET = (
    "--save",
    "",
    "--appendonly",
    "no",
    "--bind",
    "127.0.0.1",
    "--protected-mode",
    "no",
    "--repl-diskless-sync-delay",
    "0",
)


def ask(port: int, *parts: str | bytes | int, password: str = "") -> object:
    """Send one command over a new connection. Raises the server's error."""
    commands = [[b"AUTH", password.encode()]] if password else []
    commands.append([part if isinstance(part, bytes) else str(part).encode() for part in parts])
    parser = Parser()
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
        connection.sendall(b"".join(pack(command) for command in commands))
        answers: list[object] = []
        while len(answers) < len(commands):
            data = connection.recv(65536)
            assert data, "the server closed the connection"
            parser.feed(data)
            while not isinstance(parsed := parser.parse(), NotEnoughData):
                answers.append(parsed[1])
    if isinstance(answers[-1], RedisError):
        raise answers[-1]
    return answers[-1]


@dataclass(slots=True)
class RedisServer:
    """One server process that tests can kill, freeze and restart on the same port."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    password: str = ""
    sentinel_file: Path | None = None
    popen: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the server's address for `state.url`."""
        user = f":{self.password}@" if self.password else ""
        return f"redis://{user}127.0.0.1:{self.port}"

    def ask(self, *parts: str | bytes | int) -> object:
        """Send one command from another connection."""
        return ask(self.port, *parts, password=self.password)

    def start(self) -> None:
        """Start the server without data, and wait until it responds."""
        first = [str(self.sentinel_file), "--sentinel"] if self.sentinel_file else []
        quiet = [] if self.sentinel_file else [*_QUIET, "--dir", str(self.folder)]
        secret = ["--requirepass", self.password] if self.password else []
        command = [SERVER, *first, "--port", str(self.port), *quiet, *secret, *self.options]
        with (self.folder / f"{self.port}.log").open("ab") as log:
            self.popen = launch(command, out=log, err=log)
        self._wait_ready()

    def empty(self) -> None:
        """Ensure that the server runs and is empty."""
        if self.popen is None:
            self.start()
        self.thaw()
        self.ask("FLUSHALL")
        self.ask("SCRIPT", "FLUSH")

    def _wait_ready(self) -> None:
        give_up_at = time.monotonic() + WITHIN_S
        while True:
            assert self.popen is not None
            assert self.popen.poll() is None, (self.folder / f"{self.port}.log").read_text()[-2000:]
            with suppress(OSError, RedisError, AssertionError):
                self.ask("PING")
                return
            assert time.monotonic() < give_up_at, "the server does not answer"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill the server immediately, if it runs."""
        if self.popen is not None:
            finish(self.popen)
            self.popen = None

    def hang_up(self) -> None:
        """Close every connection."""
        self.ask("CLIENT", "KILL", "TYPE", "normal")

    def freeze(self) -> None:
        """Freeze the server. Connections stay open without responses."""
        assert self.popen is not None
        self.popen.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server continue."""
        assert self.popen is not None
        self.popen.send_signal(signal.SIGCONT)


def need_redis() -> None:
    """Skip the test without a server program; fail it if servers are required."""
    if shutil.which(SERVER) is None:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{SERVER} is not installed"
        pytest.skip(f"{SERVER} is not installed")


@contextmanager
def open_redis(folder: Path, *, options: Sequence[str] = (), password: str = "") -> Iterator[RedisServer]:
    """Run a server."""
    need_redis()
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(folder, free_port(), tuple(options), password)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def open_cluster(folder: Path, *, replicas: bool = False) -> Iterator[list[RedisServer]]:
    """Run three primaries with a third of the slots each, optionally with a replica each."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no")
    with ExitStack() as stack:
        servers = []
        for number in range(6 if replicas else 3):
            config = ("--cluster-config-file", f"nodes-{number}.conf", "--cluster-replica-validity-factor", "0")
            servers.append(stack.enter_context(open_redis(folder / str(number), options=(*options, *config))))
        _join(servers)
        yield servers


def _join(servers: Sequence[RedisServer]) -> None:
    primaries, replicas = servers[:3], servers[3:]
    for number, server in enumerate(primaries):
        server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        server.ask("CLUSTER", "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
    for server in servers[1:]:
        server.ask("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
    wait_until(lambda: all(_knows(server, len(servers)) for server in servers))
    for primary, replica in zip(primaries, replicas, strict=False):
        replica.ask("CLUSTER", "REPLICATE", str(_text(primary.ask("CLUSTER", "MYID"))))
    wait_until(lambda: all(_follows(replica) for replica in replicas))


def _text(told: object) -> str:
    assert isinstance(told, bytes)
    return told.decode()


def _knows(server: RedisServer, count: int) -> bool:
    info = _text(server.ask("CLUSTER", "INFO"))
    return "cluster_state:ok" in info and f"cluster_known_nodes:{count}" in info


def _follows(replica: RedisServer) -> bool:
    role = replica.ask("ROLE")
    assert isinstance(role, list)
    return bool(role[0] == b"slave" and role[3] == b"connected")


@dataclass(frozen=True, slots=True)
class Watched:
    """A primary, its replica and their sentinels."""

    servers: list[RedisServer]
    sentinels: list[RedisServer]

    @property
    def url(self) -> str:
        """Return their address for `state.url`."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/main"


@contextmanager
def open_watched(folder: Path) -> Iterator[Watched]:
    """Run a primary and a replica under two sentinels, which fail over half a second after the primary's death."""
    with ExitStack() as stack:
        primary = stack.enter_context(open_redis(folder / "a"))
        replica = stack.enter_context(open_redis(folder / "b", options=("--replicaof", "127.0.0.1", str(primary.port))))
        wait_until(lambda: "master_link_status:up" in _text(replica.ask("INFO")))
        sentinels = [
            stack.enter_context(_open_sentinel(folder / f"s{number}", primary.port, replica.port)) for number in (0, 1)
        ]
        wait_until(lambda: all(_watches(sentinel) for sentinel in sentinels))
        yield Watched([primary, replica], sentinels)


@contextmanager
def _open_sentinel(folder: Path, primary: int, replica: int) -> Iterator[RedisServer]:
    folder.mkdir(parents=True)
    file = folder / "sentinel.conf"
    file.write_text(
        f"sentinel monitor main 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds main 500\n"
        f"sentinel failover-timeout main 3000\nsentinel known-replica main 127.0.0.1 {replica}\n"
        f"dir {folder}\nbind 127.0.0.1\n"
    )
    server = RedisServer(folder, free_port(), sentinel_file=file)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _watches(sentinel: RedisServer) -> bool:
    told = sentinel.ask("SENTINEL", "MASTER", "main")
    assert isinstance(told, list)
    fields = dict(zip(told[::2], told[1::2], strict=True))
    return fields[b"num-slaves"] == b"1" and fields[b"num-other-sentinels"] == b"1" and fields[b"flags"] == b"master"
