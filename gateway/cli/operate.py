"""Commands for accounts, credits and keys: through the running node's admin address, or on the store itself."""

from __future__ import annotations

import re
from typing import Any

import click

from gateway.cli.dispatch import change, operate, operate_on_node, pages
from gateway.cli.run import (
    WholeNumber,
    config_option,
    confirm,
    instant,
    json_option,
    read_config,
    read_secrets,
    say,
    show,
    show_pages,
)

CREDITS_MAX = 1_000_000_000_000
_ZERO_OR_MORE = WholeNumber(0, CREDITS_MAX)
_PLANS = ["free", "starter", "growth", "pro", "enterprise"]
_OPERATION_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


def _operation_id(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and _OPERATION_ID.fullmatch(text) is None:
        raise click.BadParameter("must be 8 to 64 characters of A-Z, a-z, 0-9, _ and -")
    return text


operation_id_option = click.option(
    "--operation-id",
    callback=_operation_id,
    metavar="ID",
    help="Repeats with the same id within 30 days have no effect (default a new id).",
)


@click.group()
def account() -> None:
    """Create, list and change accounts."""


@account.command("create")
@config_option
@click.option("--name", required=True, help="Name of the account.")
@click.option("--credits", "credits_", type=_ZERO_OR_MORE, help="Initial credits (default 100, the welcome credits).")
@click.option("--plan", type=click.Choice(_PLANS), default="free")
@click.option("--unlimited", is_flag=True, help="Never reject calls for lack of credits; charges are still recorded.")
@operation_id_option
@json_option
def account_create(**o: Any) -> None:
    """Create an account."""
    made = change(
        o["config_path"],
        "account.create",
        o["operation_id"],
        name=o["name"],
        credits=o["credits_"],
        plan=o["plan"],
        unlimited=o["unlimited"],
    )
    show(made, as_json=o["as_json"])


@account.command("list")
@config_option
@json_option
def account_list(config_path: str | None, as_json: bool) -> None:
    """List all accounts."""
    show_pages(pages(config_path, "account.list"), as_json=as_json)


@account.command("show")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@json_option
def account_show(config_path: str | None, account_id: str, as_json: bool) -> None:
    """Show one account, with its recent spending."""
    show(operate(config_path, "account.show", account=account_id), as_json=as_json)


@account.command("plan")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.argument("plan", metavar="PLAN", type=click.Choice(_PLANS))
@operation_id_option
@json_option
def account_plan(config_path: str | None, account_id: str, plan: str, operation_id: str | None, as_json: bool) -> None:
    """Change an account's plan."""
    show(change(config_path, "account.plan", operation_id, account=account_id, plan=plan), as_json=as_json)


@account.command("suspend")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@operation_id_option
@json_option
def account_suspend(config_path: str | None, account_id: str, operation_id: str | None, as_json: bool) -> None:
    """Reject an account's keys and skip its Monitors until it is resumed. Calls in progress continue."""
    show(change(config_path, "account.suspend", operation_id, account=account_id), as_json=as_json)


@account.command("resume")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@operation_id_option
@json_option
def account_resume(config_path: str | None, account_id: str, operation_id: str | None, as_json: bool) -> None:
    """Resume a suspended account."""
    show(change(config_path, "account.resume", operation_id, account=account_id), as_json=as_json)


@account.command("unmark")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@operation_id_option
@json_option
def account_unmark(config_path: str | None, account_id: str, operation_id: str | None, as_json: bool) -> None:
    """Print and remove the payment marks of an account (refund, dispute, wrong amount)."""
    show(change(config_path, "account.unmark", operation_id, account=account_id), as_json=as_json)


@account.command("delete")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@operation_id_option
@json_option
def account_delete(**o: Any) -> None:
    """Delete an account permanently, with its keys, Monitors, events and names. Its ledger is kept."""
    account_id = o["account_id"]
    if not o["yes"]:
        found = operate(o["config_path"], "account.show", account=account_id)
        what = f"the account {account_id} ({found['name']}), with {found['balance']} credits"
        confirm(f"Delete {what}? This cannot be undone.")
    show(change(o["config_path"], "account.delete", o["operation_id"], account=account_id), as_json=o["as_json"])


@account.command("transactions")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--request-id", default=None, help="Only transactions of this request.")
@json_option
def account_transactions(config_path: str | None, account_id: str, request_id: str | None, as_json: bool) -> None:
    """List all transactions of an account, newest first."""
    found = pages(config_path, "account.transactions", account=account_id, request_id=request_id)
    show_pages(found, as_json=as_json)


@click.group("credits")
def credits_group() -> None:
    """Grant credits."""


@credits_group.command("grant")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.argument("amount", type=WholeNumber(1, CREDITS_MAX))
@operation_id_option
@json_option
def credits_grant(**o: Any) -> None:
    """Grant credits to an account."""
    given = change(o["config_path"], "credits.grant", o["operation_id"], account=o["account_id"], amount=o["amount"])
    show(given, as_json=o["as_json"])


@click.group()
def key() -> None:
    """Create, list, reveal, change and revoke API keys."""


@key.command("create")
@config_option
@click.option("--account", "account_id", required=True, help="Id of the account that owns the key.")
@click.option("--name", default="", help="Name of the key.")
@click.option("--credit-limit", type=_ZERO_OR_MORE, help="Credits that the key may use (default no limit).")
@click.option("--expires-at", callback=instant, help="ISO 8601, such as 2030-01-31T12:00:00Z (default never).")
@operation_id_option
@json_option
def key_create(**o: Any) -> None:
    """Create a key, and print it in full. Later, only `key reveal` shows it again."""
    made = change(
        o["config_path"],
        "key.create",
        o["operation_id"],
        account=o["account_id"],
        name=o["name"],
        credit_limit=o["credit_limit"],
        expires_at=o["expires_at"],
    )
    show(made, as_json=o["as_json"])


@key.command("list")
@config_option
@click.option("--account", "account_id", default=None, help="Only the keys of this account.")
@json_option
def key_list(config_path: str | None, account_id: str | None, as_json: bool) -> None:
    """List all keys, or the keys of one account."""
    show_pages(pages(config_path, "key.list", account=account_id), as_json=as_json)


@key.command("revoke")
@config_option
@click.argument("key_id")
@operation_id_option
@json_option
def key_revoke(config_path: str | None, key_id: str, operation_id: str | None, as_json: bool) -> None:
    """Revoke a key permanently."""
    show(change(config_path, "key.revoke", operation_id, key=key_id), as_json=as_json)


@key.command("reveal")
@config_option
@click.argument("key_id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def key_reveal(config_path: str | None, key_id: str, yes: bool, as_json: bool) -> None:
    """Show a key in full again. Anyone who sees it can spend the account's credits."""
    if not yes:
        confirm(f"Show the key {key_id} in full?")
    show(operate(config_path, "key.reveal", key=key_id), as_json=as_json)


@key.command("update")
@config_option
@click.argument("key_id")
@click.option("--credit-limit", default=None, help="Number of credits, or `none` for no limit.")
@click.option("--reset-usage", is_flag=True, help="Reset the key's usage to 0.")
@operation_id_option
@json_option
def key_update(**o: Any) -> None:
    """Change a key's credit limit or reset its usage."""
    arguments: dict[str, Any] = {"key": o["key_id"], "reset_usage": o["reset_usage"]}
    if o["credit_limit"] is None and not o["reset_usage"]:
        raise click.UsageError("Nothing to change: use --credit-limit or --reset-usage.")
    if o["credit_limit"] is not None:
        arguments["credit_limit"] = _limit(o["credit_limit"])
    show(change(o["config_path"], "key.update", o["operation_id"], **arguments), as_json=o["as_json"])


def _limit(text: str) -> int | str:
    if text == "none" or text.isdecimal():
        return text if text == "none" else int(text)
    raise click.BadParameter("must be a number of credits, or `none` for no limit", param_hint="--credit-limit")


@click.group()
def admin() -> None:
    """Get access to the admin address for other tools."""


@admin.command("token")
@config_option
def admin_token(config_path: str | None) -> None:
    """Print the admin address's bearer token. Anyone who has it has full operator access."""
    say(read_secrets(read_config(config_path)).admin_token)


@click.command()
@config_option
@json_option
def reload(config_path: str | None, as_json: bool) -> None:
    """Reload the config of the running node."""
    show(operate_on_node(config_path, "reload"), as_json=as_json)
