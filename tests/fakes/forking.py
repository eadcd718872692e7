"""Nodes as processes that are forked from one which has the program loaded, since loading is most of a start.

Without it as many kills fit in a fifth of the time, and more of those during a start meet what can be lost: the opening
of the store, the recovery of charges, the binding of addresses.
Run as a program, this file is the process that forks: a JSON line in for each thing to do, a number out. It and all of
its nodes are one process group, which is killed at the end.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
import trio

from gateway.node.membership import MembershipPace
from tests.fakes.commands import PROJECT, become

READY_S = 90.0
LOOK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Forked:
    """A node from its fork on."""

    pid: int
    out: Path
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    async def listening(self) -> dict[str, str]:
        """Its first line, as soon as it has printed it."""
        with trio.move_on_after(READY_S) as patience:
            while not (text := self.out.read_bytes()).endswith(b"\n"):  # noqa: ASYNC110 - a process sets no event
                await trio.sleep(LOOK_EVERY_S)
        assert not patience.cancelled_caught, f"not ready within {READY_S} s: {self.log.read_text()}"
        line: dict[str, str] = orjson.loads(text)
        return line

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of this name that it has logged; a kill may have cut off the last line."""
        events = [orjson.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1]]
        return [event for event in events if event["event"] == name]


PROGRAM = "gateway.cli"


class Forker:
    """Starts nodes and kills them."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """`popen` is the process that forks."""
        self._popen = popen

    def start(
        self,
        config: Path,
        environ: Mapping[str, str],
        *,
        name: str = "node",
        skew_s: float = 0.0,
        pace: MembershipPace | None = None,
        program: str = PROGRAM,
    ) -> Forked:
        """`sluice serve` on this config, forked when this returns; its clock so many seconds ahead, or at another pace.

        What it prints goes to `name`.out and `name`.log beside the config. Another `program` is a module with a `main`
        that takes the same arguments.
        """
        folder = config.parent
        arguments = [os.fsencode(one).hex() for one in ("serve", "--config", str(config))]
        out, log = folder / f"{name}.out", folder / f"{name}.log"
        out.write_bytes(b"")
        files = {"folder": str(folder), "out": str(out), "err": str(log)}
        how = {"environ": dict(environ), "skew_s": skew_s, "pace": pace, "program": program}
        pid = self._ask({**files, "arguments": arguments, **how})
        return Forked(pid, out, log)

    def kill(self, node: Forked) -> None:
        """SIGKILL, and wait until it is gone; it must not have ended before."""
        node.signal(signal.SIGKILL)
        assert self.wait(node) == -signal.SIGKILL, f"ended by itself: {node.log.read_text()}"

    def wait(self, node: Forked) -> int:
        """Wait until it is gone; its exit code, minus the signal's number when one ended it."""
        return self._ask({"wait": node.pid})

    def _ask(self, request: Mapping[str, object]) -> int:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
        self._popen.stdin.flush()
        return int(self._popen.stdout.readline())


@contextmanager
def open_forker() -> Iterator[Forker]:
    """The process that forks, gone with all of its nodes when the block ends."""
    command = [sys.executable, "-m", "tests.fakes.forking"]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as popen:
        try:
            yield Forker(popen)
        finally:
            os.killpg(popen.pid, signal.SIGKILL)


def _fork_each() -> None:
    for name in (PROGRAM, "storage.postgres.store"):  # which a node on a server loads when it opens its store
        importlib.import_module(name)  # only the process that forks loads the program
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if not pid:
            become(request)
            if request["skew_s"]:
                _serve_skewed(request)
            elif request["pace"]:
                _serve_at_pace(Path(sys.argv[-1]), MembershipPace(**request["pace"]))
            else:
                importlib.import_module(request["program"]).main()
            return
        os.write(1, b"%d\n" % pid)


def _serve_at_pace(config_file: Path, pace: MembershipPace) -> None:
    """`sluice serve`, but for how often it beats and how soon silence is death."""
    from gateway.cli.run import known_platforms  # noqa: PLC0415 - as above
    from gateway.config import load_config  # noqa: PLC0415
    from gateway.config.secrets import load_secret  # noqa: PLC0415
    from gateway.node.serve import Start, serve  # noqa: PLC0415
    from gateway.observability.logs import open_log  # noqa: PLC0415

    read_config = partial(load_config, str(config_file), os.environ, known_platforms())
    config = read_config()
    secrets = load_secret(os.environ, config.store.data_dir)
    with open_log("info", access=False) as log:
        trio.run(serve, Start(config, read_config, secrets, os.environ, log, pace=pace))


def _serve_skewed(request: Mapping[str, Any]) -> None:
    """A node from the composition root, as `sluice serve` makes it but for its clock."""
    from gateway.config import load_config  # noqa: PLC0415
    from gateway.config.secrets import load_secret  # noqa: PLC0415
    from gateway.node.listeners import bind, port_of  # noqa: PLC0415
    from gateway.node.node import NodeSetting  # noqa: PLC0415 - as above
    from gateway.node.serve import print_line  # noqa: PLC0415
    from gateway.node.wiring import open_node  # noqa: PLC0415 - as above
    from gateway.observability.logs import Log, open_log  # noqa: PLC0415
    from gateway.server.serve import serve_native  # noqa: PLC0415
    from upstreams.platforms import load_platforms  # noqa: PLC0415

    skew_s, platforms = float(request["skew_s"]), load_platforms()

    async def serve(log: Log) -> None:
        known = {platform.slug for platform in platforms}
        read_config = partial(load_config, os.fsdecode(bytes.fromhex(request["arguments"][2])), os.environ, known)
        public, private = await bind("127.0.0.1", 0, key_path="server"), await bind("127.0.0.1", 0, key_path="admin")
        setting = NodeSetting(
            config=read_config(),
            read_config=read_config,
            secrets=load_secret(os.environ, Path(request["folder"])),
            environ=os.environ,
            base_url=f"http://127.0.0.1:{port_of(public)}",
            log=log,
            platforms=platforms,
            now=lambda: time.time() + skew_s,
            rng=Random(),
        )
        async with open_node(setting) as node, trio.open_nursery() as nursery:
            for app, listeners in ((node.admin, private), (node.api, public)):
                listen = partial(serve_native, app, listeners, shutdown=node.draining, drain_s=1.0)
                await nursery.start(partial(listen, edge_answer=node.edge_answer))
            admin_url = f"http://127.0.0.1:{port_of(private)}"
            print_line({"event": "listening", "url": setting.base_url, "admin_url": admin_url})
            await trio.sleep_forever()

    with open_log("info", access=False) as log:
        trio.run(serve, log, strict_exception_groups=True)


if __name__ == "__main__":
    _fork_each()
