"""`sluice demo`: the main job on a fresh machine, without internet and without leaving anything behind."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio

from gateway.cli.run import known_platforms, read_secrets, run, say_beside
from gateway.config import load_config
from gateway.config.settings import Config, with_egress
from gateway.node.serve import Start, open_sandbox, open_served_node
from gateway.observability.logs import Log, open_log
from upstreams.sandbox.app import Behaviour

_CREDITS = 1_000
_TRIES = (
    "/v1/github/profile?handle=octocat",
    "/v1/hackernews/search?query=trio&limit=3",
    "/v1/bluesky/user/posts?handle=ada.example.com&limit=2",
)


@click.command()
@click.option("--port", type=int, default=0, help="0 picks a free one.")
def demo(port: int) -> None:
    """Try Sluice. Starts a node and the upstream sandbox, and prints a key and three calls to copy."""
    with TemporaryDirectory(prefix="sluice-demo-") as folder:
        config = _demo_config(Path(folder), port)
        secrets = read_secrets(config)

        async def main(log: Log) -> None:
            # SIGHUP too: a terminal that is closed must not leave the folder behind.
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
                async with open_sandbox(Behaviour()) as egress:
                    start = Start(with_egress(config, egress), lambda: with_egress(config, egress), secrets, {}, log)
                    async with open_served_node(start) as (node, line):
                        operations = node.operations
                        account = await operations.run("account.create", {"name": "demo", "credits": _CREDITS})
                        key = await operations.run("key.create", {"account": account["id"], "name": "demo"})
                        async with trio.open_nursery() as saying:
                            saying.start_soon(say_beside, _welcome(line["url"], key["key"]))
                            async for _ in signals:
                                break
                            saying.cancel_scope.cancel()

        with open_log("warning", access=False) as log:
            run(partial(main, log))


def _demo_config(folder: Path, port: int) -> Config:
    """The defaults, on free ports, with the store in `folder`."""
    file = folder / "config.toml"
    file.write_text(
        f'[server]\nport = {port}\ndrain_s = 1\n[admin]\nport = 0\n[store]\nurl = "sqlite:///{folder}/demo.db"\n'
    )
    return load_config(file, os.environ, known_platforms())


def _welcome(url: str, key: str) -> str:
    calls = "\n\n".join(f"  curl -s -H 'x-api-key: {key}' '{url}{path}'" for path in _TRIES)
    return (
        f"Sluice is running at {url}\n"
        f"Your key, with {_CREDITS} credits: {key}\n\n"
        f"Try these, here or in another terminal:\n\n{calls}\n\n"
        "The built-in sandbox answers: real HTTP, invented data. Ctrl-C ends it, and nothing stays behind."
    )
