"""`sluice demo`: try Sluice on any machine, without internet access and without leaving files behind."""

from __future__ import annotations

import gc
import os
import signal
import socket
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio

from gateway.cli.run import Refusal, known_platforms, port_type, read_secrets, run, say_in_background
from gateway.config import load_config
from gateway.config.settings import Config
from gateway.node.serve import Start, open_sandbox, open_served_node, tune_garbage_collection
from gateway.observability.logs import Log, open_log
from upstreams.sandbox.app import Behaviour

_CREDITS = 1_000
_HOST, _USUAL_PORT = "127.0.0.1", 8080
_TRIES = (
    "/v1/github/profile?handle=octocat",
    "/v1/hackernews/search?query=trio&limit=3",
    "/v1/bluesky/user/posts?handle=ada.example.com&limit=2",
)


@click.command()
@click.option(
    "--port",
    type=port_type,
    default=None,
    help="Port to listen on; 0 picks a free one (default 8080 if free).",
)
@click.option(
    "--drift/--no-drift", default=True, help="Whether the sandbox's numbers change over time.", show_default=True
)
def demo(port: int | None, drift: bool) -> None:
    """Try Sluice. Start a node and the upstream sandbox, and print a key and three calls to copy."""
    gc.disable()  # until the node is open; see `tune_garbage_collection`
    with TemporaryDirectory(prefix="sluice-demo-") as folder:
        config = _demo_config(Path(folder), _port_of(port))
        secrets = read_secrets(config)

        async def main(log: Log) -> None:
            # SIGHUP too, so that closing the terminal does not leave the folder behind.
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
                async with open_sandbox(Behaviour(drifts=drift)) as egress:
                    start = Start(config, lambda: config, secrets, {}, log).over_sandbox(egress)
                    async with open_served_node(start) as (node, line):
                        tune_garbage_collection()
                        operations = node.operations
                        account = await operations.run("account.create", {"name": "demo", "credits": _CREDITS})
                        key = await operations.run("key.create", {"account": account["id"], "name": "demo"})
                        async with trio.open_nursery() as saying:
                            saying.start_soon(say_in_background, _welcome(line["url"], key["key"]))
                            async for _ in signals:
                                break
                            saying.cancel_scope.cancel()

        # Level `error`, because the warning about local webhook targets does not apply here.
        with open_log("error", access=False) as log:
            run(partial(main, log))


def _demo_config(folder: Path, port: int) -> Config:
    """Return the default config, with the store in `folder` and with local webhook targets allowed."""
    file = folder / "config.toml"
    file.write_text(
        f'[server]\nport = {port}\ndrain_s = 1\n[admin]\nport = 0\n[store]\nurl = "sqlite:///{folder}/demo.db"\n'
        "[webhooks]\nallow_insecure_targets = true\n"
    )
    return load_config(file, os.environ, known_platforms())


def _port_of(port: int | None) -> int:
    """Return the port to use. The default is 8080, or 0 if 8080 is in use.

    Raises:
        Refusal: the port is not available (exit 1).
    """
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((_HOST, _USUAL_PORT if port is None else port))
        except OSError as exc:
            if port is None:
                return 0
            raise Refusal(f"cannot listen on {_HOST}:{port}: {exc.strerror}; choose another --port") from exc
    return _USUAL_PORT if port is None else port


def _welcome(url: str, key: str) -> str:
    calls = "\n\n".join(f'  curl -s -H "x-api-key: $KEY" "$URL{path}"' for path in _TRIES)
    return (
        f"Sluice is running at {url}\n\n"
        f"In another terminal, with {_CREDITS} credits on this key:\n\n"
        f"  export URL={url}\n  export KEY={key}\n\n{calls}\n\n"
        "The built-in sandbox responds with invented data over real HTTP. Press Ctrl-C to stop; it leaves no files."
    )
