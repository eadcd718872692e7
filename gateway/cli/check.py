"""`sluice check`: everything that is wrong or doubtful with a config before a node starts with it."""

from __future__ import annotations

import os
import time

import click

from gateway.cli.run import (
    complain,
    config_option,
    credentials_by_platform,
    doubt_of_secret,
    read_config,
    say,
)
from gateway.config.certificate import certificate_doubts
from gateway.config.doubts import doubts_of
from storage.opening import exposures_of


@click.command()
@config_option
def check(config_path: str | None) -> None:
    """Validate the config and the master secret. Exit 2 with a line for each problem; doubts are warnings."""
    config = read_config(config_path, to_serve=True)
    doubt = doubt_of_secret(config, exit_code=2)
    of_tls = certificate_doubts(config.server, time.time())
    of_settings = doubts_of(config, os.environ, credentials_by_platform())
    doubts = [*exposures_of(config.store.url), *([doubt] if doubt else []), *of_tls, *of_settings]
    complain(*(f"warning: {each}" for each in doubts))
    say("the config is good")
