"""Nodes as processes that are forked from one which has the program loaded, since loading is most of a start.

Run as a program, this file is the process that forks: a JSON line in for each thing to do, a number out. It and all of
its nodes are one process group, which is killed at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson

from tests.fakes.commands import PROJECT, become


class Forker:
    """Starts nodes and kills them."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """`popen` is the process that forks."""
        self._popen = popen

    def start(self, config: Path, environ: Mapping[str, str], *, name: str, skew_s: float = 0.0) -> int:
        """`sluice serve` on this config, its clock so many seconds ahead; the process id.

        What it prints goes to `name`.out and `name`.log beside the config.
        """
        folder = config.parent
        arguments = [os.fsencode(one).hex() for one in ("serve", "--config", str(config))]
        out, err = str(folder / f"{name}.out"), str(folder / f"{name}.log")
        Path(out).write_bytes(b"")
        request = {"arguments": arguments, "folder": str(folder), "environ": dict(environ), "out": out, "err": err}
        return self._ask({**request, "skew_s": skew_s})

    def kill(self, pid: int) -> int:
        """SIGKILL, and wait until it is gone; minus the signal's number, unless it had ended before."""
        return self._ask({"kill": pid})

    def _ask(self, request: Mapping[str, object]) -> int:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE))
        self._popen.stdin.flush()
        return int(self._popen.stdout.readline())


@contextmanager
def open_forker() -> Iterator[Forker]:
    """The process that forks, gone with all of its nodes when the block ends."""
    command = [sys.executable, "-m", "tests.many.forking"]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as popen:
        try:
            yield Forker(popen)
        finally:
            os.killpg(popen.pid, signal.SIGKILL)


def _fork_each() -> None:
    from gateway.cli import main  # noqa: PLC0415 - only the process that forks loads the program

    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if "kill" in request:
            os.kill(request["kill"], signal.SIGKILL)
            _, status = os.waitpid(request["kill"], 0)
            os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if not pid:
            become(request)
            _serve_skewed(request) if request["skew_s"] else main()
            return
        os.write(1, b"%d\n" % pid)


def _serve_skewed(request: Mapping[str, Any]) -> None:
    """A node from the composition root, as `sluice serve` makes it but for its clock."""
    import trio  # noqa: PLC0415 - as above

    from gateway.app import Setting, open_node  # noqa: PLC0415
    from gateway.config import load_config  # noqa: PLC0415
    from gateway.listening import bind, port_of  # noqa: PLC0415
    from gateway.logs import Log  # noqa: PLC0415
    from gateway.secrets import load_secret  # noqa: PLC0415
    from gateway.serve import print_line  # noqa: PLC0415
    from gateway.server.serve import serve_native  # noqa: PLC0415
    from upstreams.platforms import load_platforms  # noqa: PLC0415

    skew_s, platforms = float(request["skew_s"]), load_platforms()

    async def serve() -> None:
        known = {platform.slug for platform in platforms}
        read_config = partial(load_config, os.fsdecode(bytes.fromhex(request["arguments"][2])), os.environ, known)
        public, private = await bind("127.0.0.1", 0, key_path="server"), await bind("127.0.0.1", 0, key_path="admin")
        setting = Setting(
            config=read_config(),
            read_config=read_config,
            secrets=load_secret(os.environ, Path(request["folder"])),
            environ=os.environ,
            base_url=f"http://127.0.0.1:{port_of(public)}",
            log=Log("info", access=False),
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

    trio.run(serve, strict_exception_groups=True)


if __name__ == "__main__":
    _fork_each()
