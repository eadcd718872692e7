"""The `sluice` command as an operator meets it, in a folder with its config."""

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
    """A command that has run."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as JSON."""
        return orjson.loads(self.out)

    def refused(self, exit_code: int) -> str:
        """The one line on stderr of a command that refuses, without the command's name; nothing is on stdout."""
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
        """GET on the public address."""
        return get(self.url + target, key, **headers)

    def wait_for_recovery(self) -> None:
        """Until what the dead have left is closed: the owner of a file serves only then, a node of a server before."""
        if engine() != "sqlite":
            self.logged("recovered")

    def admin(self, target: str) -> Answered:
        """GET on the admin address."""
        return get(self.admin_url + target)

    def wait_logged(self) -> None:
        """Until each line so far is written, of each worker where there are some."""
        waiting = re.compile(rb"^sluice_log_lines_waiting(?:{.*})? (.*)$", re.MULTILINE)
        wait_until(lambda: set(waiting.findall(self.admin("/metrics").body)) == {b"0.0"})


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a config.toml in which commands run; their environment holds what is named here and no more."""

    folder: Path
    commands: Commands
    environ: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = SLUICE
    """The program that `start` runs; `sluice`, and a module with a `main`, in a process that has it loaded."""
    admin_port: int = field(default_factory=lambda: 0 if engine() == "sqlite" else free_port())
    """A file's owner tells commands where it listens; on a server they ask where the config says."""

    @property
    def config(self) -> Path:
        """The config file."""
        return self.folder / "config.toml"

    @property
    def database(self) -> Path:
        """The database of the config that `configure` writes, where that is a file."""
        return self.folder / "data" / "sluice.db"

    @property
    def store_url(self) -> str:
        """The address of the store of the config that `configure` writes."""
        return store_at(self.database)

    def configure(self, **changes: Mapping[str, object]) -> None:
        """Write config.toml: free ports, a store in this folder, and the given tables over that."""
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

    def told(self, *arguments: str) -> Any:
        """The output of an operator's command with `--json`; it must succeed without a word on stderr."""
        ended = self.operate(*arguments, "--json")
        assert (ended.exit_code, ended.err) == (0, ""), ended
        return ended.json

    def new_key(self, *, balance: int = 100) -> tuple[str, dict[str, Any]]:
        """A new account's id, and its new key."""
        account = self.told("account", "create", "--name", "test", "--credits", str(balance))["id"]
        return account, self.told("key", "create", "--account", account)

    def recovering(self) -> "Place":
        """The same place, whose nodes recover at once what the nodes before them left when they died.

        The owner of a file does so anyway before it serves; nodes of a server have to look for the dead often.
        """
        self.bury()
        return self if engine() == "sqlite" else replace(self, program=QUICK_NODE)

    def bury(self) -> None:
        """Let a node that has died count as dead from now on, which takes a long silence of a server's nodes."""
        if engine() != "sqlite":
            with open_outsider(self.store_url) as other:
                other.run("UPDATE nodes SET seen_at = 0")

    @contextmanager
    def serve(self, *options: str) -> Iterator[Served]:
        """A node on this place's config, gone when the block ends."""
        with self.start("serve", "--config", str(self.config), *options) as process:
            line = orjson.loads(process.first_line)
            assert line.keys() == {"event", "url", "admin_url"}
            assert line["event"] == "listening"
            yield Served(process.popen, process.log, process.first_line, url=line["url"], admin_url=line["admin_url"])

    @contextmanager
    def sandbox(self, *, latency_s: float = 0.0) -> Iterator[str]:
        """The upstream sandbox; gives its address."""
        with self.start("sandbox", "--latency-ms", str(latency_s * 1000)) as process:
            yield orjson.loads(process.first_line)["url"]

    @contextmanager
    def start(self, *arguments: str, **environ: str) -> Iterator[Process]:
        """A command that goes on running; entered with its first line, and killed at the end if it still runs."""
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
    """JSON's text, numbers, truth values and flat arrays are TOML's too; of tables, inline ones are enough here."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return orjson.dumps(value).decode()
