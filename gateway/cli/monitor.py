"""`sluice monitor`: run a slot of a Monitor now, in the running node or, if none runs, in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from math import floor
from random import Random
from typing import TYPE_CHECKING, Any

import click

from events.instants import iso
from gateway.cli.dispatch import operate
from gateway.cli.run import Refusal, complain, config_option, instant, show
from gateway.config import Config
from gateway.config.secrets import Secrets

if TYPE_CHECKING:
    from gateway.node.node import NodeSetting
    from gateway.observability.logs import Log

_TURNS = 6
"""Maximum number of requests to the node. Each request waits some time for the run to end."""


@click.group()
def monitor() -> None:
    """Run a Monitor's slot."""


@monitor.command("run")
@config_option
@click.argument("monitor_id")
@click.option("--slot", callback=instant, help="ISO 8601, to the second (default now).")
def monitor_run(config_path: str | None, monitor_id: str, slot: str | None) -> None:
    """Run one slot now, and print the run as JSON.

    The run is charged and reported like any other, and no slot runs twice.
    """
    slot = slot or iso(floor(time.time()))  # Chosen here, so that a retry uses the same slot.
    was_begun = False
    for _ in range(_TURNS):
        record = operate(config_path, "monitor.run", do_here=_run_here, monitor=monitor_id, slot=slot)
        was_begun |= record.pop("begun_now")
        if record["finished_at"] is not None:
            break
        slot = record["scheduled_for"]
    if not was_begun:
        complain(f"the slot {record['scheduled_for']} has already run; nothing was run now, and its record follows")
    show(record, as_json=True)


async def _run_here(config: Config, secrets: Secrets, name: str, arguments: Mapping[str, Any]) -> Any:
    from gateway.observability.logs import open_log

    with open_log("warning", access=False) as log:
        return await _run_logged(_setting(config, secrets, log), name, arguments)


def _setting(config: Config, secrets: Secrets, log: Log) -> NodeSetting:
    """Return the settings for a node without listeners and scheduler, which runs only this slot."""
    from gateway.node.node import NodeSetting
    from upstreams.index import load_indexed

    return NodeSetting(
        config=config,
        read_config=lambda: config,
        secrets=secrets,
        environ=os.environ,
        base_url=config.server.public_url(config.server.port),
        log=log,
        platforms=load_indexed(),
        now=time.time,
        rng=Random(),
        keeps_time=False,
    )


async def _run_logged(setting: NodeSetting, name: str, arguments: Mapping[str, Any]) -> Any:
    from gateway.admin.operations import OperationRefused
    from gateway.node.wiring import open_node

    async with open_node(setting) as node:
        try:
            record = await node.operations.run(name, arguments)
            begun_now = record["begun_now"]
            for _ in range(_TURNS):
                if record["finished_at"] is not None:
                    break
                record = await node.operations.run(name, {**arguments, "slot": record["scheduled_for"]})
            return {**record, "begun_now": begun_now}
        except OperationRefused as exc:
            raise Refusal(str(exc)) from exc
