"""Accounts, credits, keys and the ledger: through the running node's admin address, or on the store itself."""

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
_FROM_NONE = WholeNumber(0, CREDITS_MAX)
_PLANS = ["free", "starter", "growth", "pro", "enterprise"]
_OPERATION_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


def _operation_id(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and _OPERATION_ID.fullmatch(text) is None:
        raise click.BadParameter("must be 8 to 64 of A-Z, a-z, 0-9, _ and -")
    return text


operation_id_option = click.option(
    "--operation-id",
    callback=_operation_id,
    metavar="ID",
    help="Under which it happens once however often it is repeated, for 30 days; made when absent.",
)


@click.group()
def account() -> None:
    """Make, list and change accounts."""


@account.command("create")
@config_option
@click.option("--name", required=True, help="What you call it.")
@click.option("--credits", "credits_", type=_FROM_NONE, help="Its first credits; the welcome 100 when absent.")
@click.option("--plan", type=click.Choice(_PLANS), default="free")
@click.option(
    "--unlimited", is_flag=True, help="Never refuse for want of credits; every charge is entered all the same."
)
@operation_id_option
@json_option
def account_create(**o: Any) -> None:
    """Make an account."""
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
    """List every account."""
    show_pages(pages(config_path, "account.list"), as_json=as_json)


@account.command("show")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@json_option
def account_show(config_path: str | None, account_id: str, as_json: bool) -> None:
    """Show one account, with what it spent lately."""
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
    """Refuse an account's keys and skip its Monitors until it is resumed. What is under way goes on."""
    show(change(config_path, "account.suspend", operation_id, account=account_id), as_json=as_json)


@account.command("resume")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@operation_id_option
@json_option
def account_resume(config_path: str | None, account_id: str, operation_id: str | None, as_json: bool) -> None:
    """Let a suspended account go on."""
    show(change(config_path, "account.resume", operation_id, account=account_id), as_json=as_json)


@account.command("unmark")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@operation_id_option
@json_option
def account_unmark(config_path: str | None, account_id: str, operation_id: str | None, as_json: bool) -> None:
    """Remove the marks that payments left (a refund, a dispute, a wrong amount), and print them."""
    show(change(config_path, "account.unmark", operation_id, account=account_id), as_json=as_json)


@account.command("delete")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--yes", is_flag=True, help="Delete it without asking first.")
@operation_id_option
@json_option
def account_delete(**o: Any) -> None:
    """End an account for good: its keys, Monitors, events and names go, its ledger stays."""
    account_id = o["account_id"]
    if not o["yes"]:
        found = operate(o["config_path"], "account.show", account=account_id)
        what = f"the account {account_id} ({found['name']}), with {found['balance']} credits"
        confirm(f"Delete {what}? This cannot be undone.")
    show(change(o["config_path"], "account.delete", o["operation_id"], account=account_id), as_json=o["as_json"])


@account.command("transactions")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.option("--request-id", default=None, help="Only those of this request.")
@json_option
def account_transactions(config_path: str | None, account_id: str, request_id: str | None, as_json: bool) -> None:
    """List every transaction of an account, the newest first."""
    found = pages(config_path, "account.transactions", account=account_id, request_id=request_id)
    show_pages(found, as_json=as_json)


@click.group("credits")
def credits_group() -> None:
    """Give credits."""


@credits_group.command("grant")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.argument("amount", type=WholeNumber(1, CREDITS_MAX))
@operation_id_option
@json_option
def credits_grant(**o: Any) -> None:
    """Give an account credits."""
    given = change(o["config_path"], "credits.grant", o["operation_id"], account=o["account_id"], amount=o["amount"])
    show(given, as_json=o["as_json"])


@click.group()
def key() -> None:
    """Make, list, reveal, change and revoke API keys."""


@key.command("create")
@config_option
@click.option("--account", "account_id", required=True, help="The id of the account that it is for.")
@click.option("--name", default="", help="What you call it.")
@click.option("--credit-limit", type=_FROM_NONE, help="The most that it may use; no limit when absent.")
@click.option("--expires-at", callback=instant, help="ISO 8601, such as 2030-01-31T12:00:00Z; never when absent.")
@operation_id_option
@json_option
def key_create(**o: Any) -> None:
    """Make a key, and print the whole of it. Keep it: later only `key reveal` shows it again."""
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
    """List every key, or those of one account."""
    show_pages(pages(config_path, "key.list", account=account_id), as_json=as_json)


@key.command("revoke")
@config_option
@click.argument("key_id")
@operation_id_option
@json_option
def key_revoke(config_path: str | None, key_id: str, operation_id: str | None, as_json: bool) -> None:
    """End a key for good."""
    show(change(config_path, "key.revoke", operation_id, key=key_id), as_json=as_json)


@key.command("reveal")
@config_option
@click.argument("key_id")
@click.option("--yes", is_flag=True, help="Show it without asking first.")
@json_option
def key_reveal(config_path: str | None, key_id: str, yes: bool, as_json: bool) -> None:
    """Show a whole key again. Whoever sees it can spend the account's credits."""
    if not yes:
        confirm(f"Show the whole key {key_id} here?")
    show(operate(config_path, "key.reveal", key=key_id), as_json=as_json)


@key.command("update")
@config_option
@click.argument("key_id")
@click.option("--credit-limit", default=None, help="A number of credits, or none.")
@click.option("--reset-usage", is_flag=True, help="Count its usage from 0 again.")
@operation_id_option
@json_option
def key_update(**o: Any) -> None:
    """Change a key's credit limit or reset its usage."""
    arguments: dict[str, Any] = {"key": o["key_id"], "reset_usage": o["reset_usage"]}
    if o["credit_limit"] is None and not o["reset_usage"]:
        raise click.UsageError("Nothing is to be changed: name --credit-limit or --reset-usage.")
    if o["credit_limit"] is not None:
        arguments["credit_limit"] = _limit(o["credit_limit"])
    show(change(o["config_path"], "key.update", o["operation_id"], **arguments), as_json=o["as_json"])


def _limit(text: str) -> int | str:
    if text == "none" or text.isdecimal():
        return text if text == "none" else int(text)
    raise click.BadParameter("must be a number of credits, or none", param_hint="--credit-limit")


@click.group()
def admin() -> None:
    """Reach the admin address with other tools."""


@admin.command("token")
@config_option
def admin_token(config_path: str | None) -> None:
    """Print the admin address's bearer token. Whoever has it can do all that an operator can."""
    say(read_secrets(read_config(config_path)).admin_token)


@click.command()
@config_option
@json_option
def reload(config_path: str | None, as_json: bool) -> None:
    """Make the running node read its config again."""
    show(operate_on_node(config_path, "reload"), as_json=as_json)
