"""`sluice openapi`: the document that a node with this config serves at `/v1/openapi.json`, without one running."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gateway.cli.run import Refusal, config_option, read_config, run, say
from gateway.config.secrets import load_secret

if TYPE_CHECKING:
    from gateway.config import Config


@click.command()
@config_option
@click.option("--platform", default=None, help="Only the operations of this platform, of account or of utility.")
def openapi(config_path: str | None, platform: str | None) -> None:
    """Print the OpenAPI document. It has what the config offers, or the defaults where there is none."""
    with TemporaryDirectory(prefix="sluice-openapi-") as folder:
        if config_path is None and "SLUICE_CONFIG" not in os.environ and not Path("config.toml").exists():
            config_path = f"{folder}/config.toml"
            Path(config_path).touch()
        config = read_config(config_path)
        say(run(lambda: _document(config, Path(folder), platform)))


async def _document(config: Config, folder: Path, platform: str | None) -> str:
    """The document of a node that is made on a store of its own and never listens."""
    from gateway.node.node import NodeSetting
    from gateway.node.wiring import open_node
    from gateway.observability.logs import open_log
    from upstreams.platforms import load_platforms

    store, state = replace(config.store, url=f"sqlite:///{folder}/sluice.db"), replace(config.state, url="memory:")
    alone = replace(config, store=store, state=state)
    with open_log("error", access=False) as log:
        setting = NodeSetting(
            config=alone,
            read_config=lambda: alone,
            secrets=load_secret(os.environ, folder),
            environ=os.environ,
            base_url=config.server.public_url(config.server.port),
            log=log,
            platforms=load_platforms(),
            now=time.time,
            rng=Random(),
            keeps_time=False,
        )
        async with open_node(setting) as node:
            known = node.description.reference.platforms
            if platform not in (None, *known):
                raise Refusal(f"there is no platform {platform}; there are {', '.join(known)}", exit_code=2)
            return node.description.documents.document(platform).decode()
