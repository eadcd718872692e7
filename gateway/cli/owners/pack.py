"""`sluice pack`: the packs of credits on sale, granting one, and the purchases of an account."""

from __future__ import annotations

import click

from gateway.cli.dispatch import change, operate
from gateway.cli.operate import operation_id_option
from gateway.cli.run import config_option, json_option, show


@click.group()
def pack() -> None:
    """Grant packs of credits, and list them and their purchases."""


@pack.command("grant")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.argument("name", metavar="PACK")
@operation_id_option
@json_option
def pack_grant(config_path: str | None, account_id: str, name: str, operation_id: str | None, as_json: bool) -> None:
    """Grant an account a pack from [[packs]] that was paid for elsewhere.

    The account gets the credits, and the plan if it is larger.
    """
    show(change(config_path, "pack.grant", operation_id, account=account_id, pack=name), as_json=as_json)


@pack.command("list")
@config_option
@json_option
def pack_list(config_path: str | None, as_json: bool) -> None:
    """List the packs on sale."""
    show(operate(config_path, "pack.list"), as_json=as_json)


@pack.command("purchases")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@json_option
def pack_purchases(config_path: str | None, account_id: str, as_json: bool) -> None:
    """List the latest 1,000 purchases of an account, with the credits that reversals deducted."""
    show(operate(config_path, "pack.purchases", account=account_id), as_json=as_json)
