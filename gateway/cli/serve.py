"""`sluice serve` and `sluice sandbox`: commands that run until they are stopped."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from gateway.cli.run import (
    Refusal,
    config_option,
    credentials_by_platform,
    doubt_of_secret,
    known_platforms,
    port_type,
    read_config,
    read_secrets,
    run,
)
from gateway.config import Config, load_config
from gateway.config.certificate import certificate_doubts
from gateway.config.doubts import doubts_of
from gateway.config.secrets import Secrets
from gateway.node.serve import Start, announce, open_sandbox
from gateway.node.serve import serve as serve_node
from gateway.node.workers.worker import read_worker
from gateway.observability.logs import Log, open_log
from upstreams.index import load_indexed

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform


@click.command()
@config_option
@click.option("--sandbox", is_flag=True, help="Use the built-in upstream sandbox instead of the platforms.")
@click.option("--drift", is_flag=True, help="With --sandbox: change its numbers over time.")
@click.option("--new-store", is_flag=True, help="Create a new database if the previous one is missing.")
def serve(config_path: str | None, sandbox: bool, drift: bool, new_store: bool) -> None:
    """Run a node."""
    if drift and not sandbox:
        raise click.UsageError("--drift changes the numbers of the sandbox; it needs --sandbox")
    gc.disable()  # until the node is open; see `tune_garbage_collection`
    config = read_config(config_path, to_serve=True)
    secrets = read_secrets(config, new_store=new_store)
    worker, unstored = read_worker(os.environ), list[str]()
    platforms = load_indexed(unstored.append)
    doubts = _doubts(config, platforms, unstored) if worker is None else []
    if worker is None and config.server.workers > 1:
        _supervise(config, secrets, doubts)
        return

    def read_again() -> Config:
        return load_config(config_path, os.environ, known_platforms(), to_serve=True)

    async def main(log: Log) -> None:
        start = Start(config, read_again, secrets, os.environ, log, platforms, worker=worker, new_store=new_store)
        if not sandbox:
            await serve_node(start)
            return
        from upstreams.sandbox.app import Behaviour

        async with open_sandbox(Behaviour(drifts=drift)) as url:
            await serve_node(start.over_sandbox(url))

    also = {} if worker is None else {"worker": worker.number}
    with open_log(config.log.level, access=config.log.access, also=also) as log:
        _log_doubts(log, doubts)
        run(partial(main, log))


def _doubts(config: Config, platforms: Iterable[Platform], unstored: list[str]) -> list[tuple[str, str]]:
    """Return warnings that do not prevent a start, each with the name of its log event and its text."""
    secret = doubt_of_secret(config)
    of_tls = [("tls_doubtful", doubt) for doubt in certificate_doubts(config.server, time.time())]
    found = doubts_of(config, os.environ, credentials_by_platform(platforms))
    of_settings = [("config_doubtful", doubt) for doubt in found]
    of_index = [("index_not_stored", problem) for problem in unstored]
    return [*([("secret_doubtful", secret)] if secret else []), *of_tls, *of_settings, *of_index]


def _log_doubts(log: Log, doubts: list[tuple[str, str]]) -> None:
    for event, doubt in doubts:
        log.event("warning", event, problem=doubt)


def _supervise(config: Config, secrets: Secrets, doubts: list[tuple[str, str]]) -> None:
    """Run a supervisor that starts each worker with the same command line."""
    from gateway.node.workers.supervisor import SupervisorPlan, WorkersRefused, supervise

    gc.enable()
    program = (sys.executable, *sys.orig_argv[1:])
    try:
        with open_log(config.log.level) as log:
            _log_doubts(log, doubts)
            run(partial(supervise, SupervisorPlan(config, secrets.admin_token, program, os.environ, log)))
    except WorkersRefused as exc:
        raise Refusal(str(exc)) from exc


@click.command("sandbox")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=port_type, default=0, help="Port to listen on; 0 picks a free one.")
@click.option("--drift", is_flag=True, help="Change its numbers over time.")
@click.option("--latency-ms", type=click.FloatRange(0, 60_000), default=0.0, help="Latency added to each response.")
@click.option(
    "--failure-rate", type=click.FloatRange(0, 1), default=0.0, help="Share of requests that fail with a 503."
)
def sandbox(host: str, port: int, drift: bool, latency_ms: float, failure_rate: float) -> None:
    """Run the upstream sandbox alone. Set `upstreams.egress` to its URL."""

    from upstreams.sandbox.app import Behaviour

    async def main(log: Log) -> None:
        behaviour = Behaviour(latency_ms / 1000, failure_rate, drift)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with open_sandbox(behaviour, host=host, port=port) as url, trio.open_nursery() as announcing:
                announcing.start_soon(announce, {"event": "listening", "url": url}, log)
                async for _ in signals:
                    break
                announcing.cancel_scope.cancel()

    with open_log("warning") as log:
        run(partial(main, log))
