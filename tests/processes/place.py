"""The `sluice` command as an operator uses it, in a folder with its config."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.fakes.calling import Answered, get
from tests.fakes.outsider import open_outsider
from tests.fakes.stores import engine, store_at
from tests.processes.children import launch
from tests.processes.commands import PROJECT, SLUICE, Commands
from tests.processes.process import Process
from tests.processes.started import Started
from tests.processes.waiting import wait_until
from tests.servers.ports import free_port

QUICK_NODE = (sys.executable, "-m", "tests.fakes.quick_node")


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return its stdout, parsed as JSON."""
        return orjson.loads(self.out)

    def refused(self, exit_code: int) -> str:
        """Return the only line that a refused command wrote to stderr, without the command's name.

        Its stdout must be empty.
        """
        assert (self.exit_code, self.out) == (exit_code, ""), self
        assert self.err.startswith("sluice: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("sluice: ").removesuffix("\n")


@dataclass(slots=True)
class Served(Process):
    """A running node."""

    url: str = ""
    admin_url: str = ""

    def get(self, target: str, key: str | None = None, **headers: str) -> Answered:
        """Send a GET to the public address."""
        return get(self.url + target, key, **headers)

    def wait_for_recovery(self) -> None:
        """Wait until the node has closed the work that dead nodes left open.

        The owner of a file does so before it serves. On a server, a node already serves before that.
        """
        if engine() != "sqlite":
            self.logged("recovered")

    def admin(self, target: str) -> Answered:
        """Send a GET to the admin address."""
        return get(self.admin_url + target)

    def wait_logged(self) -> None:
        """Wait until all log lines so far are written, by each worker if the node has workers."""
        waiting = re.compile(rb"^sluice_log_lines_waiting(?:{.*})? (.*)$", re.MULTILINE)
        wait_until(lambda: set(waiting.findall(self.admin("/metrics").body)) == {b"0.0"})


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a config.toml in which commands run.

    The commands' environment has only the variables in `environ`.
    """

    folder: Path
    commands: Commands
    environ: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = SLUICE
    """The program that `start` runs. It is forked if it is `sluice` or a module with a `main`, because these are
    already loaded."""
    admin_port: int = field(default_factory=lambda: 0 if engine() == "sqlite" else free_port())
    """The port of the admin address. The owner of a file publishes its port; on a server, commands read the port in the
    config."""

    @property
    def config(self) -> Path:
        """Return the config file."""
        return self.folder / "config.toml"

    @property
    def database(self) -> Path:
        """Return the database of the config that `configure` writes, if it is a file."""
        return self.folder / "data" / "sluice.db"

    @property
    def store_url(self) -> str:
        """Return the address of the store in the config that `configure` writes."""
        return store_at(self.database)

    def configure(self, **changes: Mapping[str, object]) -> None:
        """Write config.toml with free ports, a store in this folder, and the given tables, which take precedence."""
        tables: dict[str, dict[str, object]] = {
            "server": {"port": 0, "drain_s": 5},
            "admin": {"port": self.admin_port},
            "store": {"url": self.store_url},
        }
        for name, table in changes.items():
            tables[name] = {**tables.get(name, {}), **table}
        lines = (
            f"[{name}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in table.items()) for name, table in tables.items()
        )
        self.config.write_text("".join(lines))

    def run(self, *arguments: str, **environ: str) -> Ended:
        """Run a command to its end."""
        out, err = self.folder / "out", self.folder / "err"
        exit_code = self.commands.run(arguments, folder=self.folder, environ=self._environ(environ), out=out, err=err)
        return Ended(exit_code, out.read_text(), err.read_text())

    def operate(self, *arguments: str) -> Ended:
        """Run a command on this place's config."""
        return self.run(*arguments, "--config", str(self.config))

    def json_of(self, *arguments: str) -> Any:
        """Return the output of an operator's command with `--json`. It must succeed without output on stderr."""
        ended = self.operate(*arguments, "--json")
        assert (ended.exit_code, ended.err) == (0, ""), ended
        return ended.json

    def new_key(self, *, balance: int = 100) -> tuple[str, dict[str, Any]]:
        """Create an account and a key. Return the account's id and the key."""
        account = self.json_of("account", "create", "--name", "test", "--credits", str(balance))["id"]
        return account, self.json_of("key", "create", "--account", account)

    def recovering(self) -> "Place":
        """Return the same place, whose nodes immediately recover the work of dead nodes.

        The owner of a file always does so before it serves. Nodes on a server must look for dead nodes often.
        """
        self.bury()
        return self if engine() == "sqlite" else replace(self, program=QUICK_NODE)

    def bury(self) -> None:
        """Make nodes that have died count as dead now. On a server, this would otherwise take a long silence."""
        if engine() != "sqlite":
            with open_outsider(self.store_url) as other:
                other.run("UPDATE nodes SET seen_at = 0")

    @contextmanager
    def serve(self, *options: str) -> Iterator[Served]:
        """Run a node on this place's config until the block ends."""
        with self.start("serve", "--config", str(self.config), *options) as process:
            line = orjson.loads(process.first_line)
            assert line.keys() == {"event", "url", "admin_url"}
            assert line["event"] == "listening"
            yield Served(process.popen, process.log, process.first_line, url=line["url"], admin_url=line["admin_url"])

    @contextmanager
    def sandbox(self, *, latency_s: float = 0.0) -> Iterator[str]:
        """Run the upstream sandbox, and return its address."""
        with self.start("sandbox", "--latency-ms", str(latency_s * 1000)) as process:
            yield orjson.loads(process.first_line)["url"]

    @contextmanager
    def start(self, *arguments: str, **environ: str) -> Iterator[Process]:
        """Start a command that keeps running, and wait for its first line.

        If it still runs at the end, it is killed.
        """
        log = self.folder / f"{arguments[0]}.log"
        process = Process(self._popen(arguments, self._environ(environ), log), log)
        try:
            process.read_first_line()
            yield process
        finally:
            process.close()

    def _popen(
        self, arguments: Sequence[str], environ: Mapping[str, str], log: Path
    ) -> "subprocess.Popen[bytes] | Started":
        forked = partial(self.commands.start, folder=self.folder, environ=environ, err=log)
        if self.program == SLUICE:
            return forked(arguments)
        if self.program[:2] == (sys.executable, "-m"):
            _, _, module, *first = self.program
            return forked([*first, *arguments], program=module)
        with log.open("wb") as errors:
            command = [*self.program, *arguments]
            return launch(command, folder=self.folder, environ=environ, out=subprocess.PIPE, err=errors)

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(PROJECT),
            "TMPDIR": str(self.folder),
            **self.environ,
            **more,
        }


def _toml(value: object) -> str:
    """Return a value as TOML. JSON's texts, numbers, booleans and flat arrays are valid TOML; tables are inline."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return orjson.dumps(value).decode()
