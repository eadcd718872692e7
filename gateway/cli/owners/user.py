"""`sluice user`: the people who can sign in to an account's dashboard."""

from __future__ import annotations

import click

from gateway.cli.dispatch import operate
from gateway.cli.run import config_option, confirm, json_option, show


@click.group()
def user() -> None:
    """Invite, list, reset, sign out and delete users."""


@user.command("invite")
@config_option
@click.option("--account", "account_id", required=True, help="Id of the user's account.")
@click.option("--email", required=True, help="E-mail address that the user signs in with.")
@json_option
def user_invite(config_path: str | None, account_id: str, email: str, as_json: bool) -> None:
    """Print a one-time link with which a new user sets a password. With [mail] it is also sent by e-mail.

    Inviting a user again who has not joined yet revokes the previous link.
    """
    show(operate(config_path, "user.invite", account=account_id, email=email), as_json=as_json)


@user.command("list")
@config_option
@click.option("--account", "account_id", required=True, help="Id of the account.")
@json_option
def user_list(config_path: str | None, account_id: str, as_json: bool) -> None:
    """List the users of an account."""
    show(operate(config_path, "user.list", account=account_id), as_json=as_json)


@user.command("reset")
@config_option
@click.argument("user_id", metavar="USER")
@json_option
def user_reset(config_path: str | None, user_id: str, as_json: bool) -> None:
    """Print a one-time link for a new password. The old password, second factor and sessions stop working."""
    show(operate(config_path, "user.reset", user=user_id), as_json=as_json)


@user.command("sign-out")
@config_option
@click.argument("user_id", metavar="USER")
@json_option
def user_sign_out(config_path: str | None, user_id: str, as_json: bool) -> None:
    """End all sessions of a user."""
    show(operate(config_path, "user.signout", user=user_id), as_json=as_json)


@user.command("delete")
@config_option
@click.argument("user_id", metavar="USER")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def user_delete(config_path: str | None, user_id: str, yes: bool, as_json: bool) -> None:
    """Delete a user and sign them out. The account and its keys do not change."""
    if not yes:
        confirm(f"Delete the user {user_id}?")
    show(operate(config_path, "user.delete", user=user_id), as_json=as_json)
