"""Accounts, credits, keys and the ledger: through the running node's admin address, or on the store itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from random import Random
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click
import orjson

from gateway.books import open_books
from gateway.cli.run import Refusal, config_option, json_option, read_config, read_secrets, run, say, show
from gateway.config import Config
from gateway.ids import id_maker
from gateway.listening import in_url
from gateway.operations import OperationRefused
from gateway.secrets import Secrets
from gateway.state import open_gate, open_state
from storage.errors import StoreInUse
from storage.opening import is_shared, read_owner_note

_TRIES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 2.0, 2.0)
"""Pauses while another process holds the store and has not said its admin address yet."""
_ADMIN_TIMEOUT_S = 30.0
_CONNECT_S = 2.0


DoHere = Callable[[Config, Secrets, str, Mapping[str, Any]], Awaitable[Any]]
"""Does an operation in this process, which has the store to itself or is one of its nodes."""


def operate(config_path: str | None, operation: str, /, *, do_here: DoHere | None = None, **arguments: Any) -> Any:
    """Do one operation where the store is: in the node that owns it, or here while nobody does, by `do_here`.

    Raises:
        Refusal: it cannot be done.
    """
    config = read_config(config_path)
    secrets = read_secrets(config)
    sent = {key: value for key, value in arguments.items() if value is not None}
    body = _encoded(sent)
    for pause_s in (*_TRIES_S, None):
        if admin_url := _node_of(config):
            return _ask_node(admin_url, secrets, operation, body)
        try:
            return run(lambda: (do_here or _do_here)(config, secrets, operation, sent))
        except Refusal as exc:
            if not isinstance(exc.__cause__, StoreInUse) or pause_s is None:
                raise
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


def operate_on_node(config_path: str | None, operation: str, /, **arguments: Any) -> Any:
    """Do an operation that only a running node can do.

    Raises:
        Refusal: no node runs, or it refuses.
    """
    if _node_of(read_config(config_path)) is None:
        raise Refusal("no node runs on this store")
    return operate(config_path, operation, **arguments)


def _node_of(config: Config) -> str | None:
    """The admin address of the node that has the store, empty while it has not said it; None while none runs.

    A database is nobody's own, so there it is whoever answers at the config's admin address: this machine's node.
    """
    if not is_shared(config.store.url):
        note = read_owner_note(config.store.url)
        return None if note is None else note.get("admin_url", "")
    host, port = config.admin.host, config.admin.port
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError:
        return None
    return f"http://{in_url(host)}:{port}"


async def _do_here(config: Config, secrets: Secrets, name: str, arguments: Mapping[str, Any]) -> Any:
    make_id = id_maker(time.time, Random())
    async with (
        open_state(config.state.url) as state,
        open_gate(state, config.limits) as gate,
        open_books(config, secrets, now=time.time, make_id=make_id, shared=None if state is None else gate) as books,
    ):
        try:
            return await books.operations.run(name, arguments)
        except OperationRefused as exc:
            raise Refusal(str(exc)) from exc


def _encoded(arguments: Mapping[str, Any]) -> bytes:
    """The arguments as a node takes them; what cannot be sent to a node is refused without one just the same."""
    try:
        return orjson.dumps(arguments)
    except orjson.JSONEncodeError as exc:
        raise Refusal(f"an argument cannot be used: {exc}", exit_code=2) from exc


def _ask_node(admin_url: str, secrets: Secrets, name: str, body: bytes) -> Any:
    request = Request(  # noqa: S310 - the address is the node's own note
        f"{admin_url}/admin/{name}",
        data=body,
        headers={"authorization": f"Bearer {secrets.admin_token}", "content-type": "application/json"},
    )
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=_ADMIN_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())
    except HTTPError as exc:
        raise Refusal(_error_of(exc.read())) from exc
    except (HTTPException, URLError, OSError) as exc:
        raise Refusal(f"the running node does not answer at {admin_url}: {exc}") from exc


def _error_of(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "the node refused without saying why"


@click.group()
def account() -> None:
    """Make and list accounts."""


@account.command("create")
@config_option
@click.option("--name", required=True, help="What you call it.")
@click.option("--credits", "credits_", type=int, default=None, help="Its first credits; the welcome 100 when absent.")
@click.option("--plan", type=click.Choice(["free", "starter", "growth", "pro", "enterprise"]), default="free")
@click.option(
    "--unlimited", is_flag=True, help="Never refuse for want of credits; every charge is entered all the same."
)
@json_option
def account_create(**o: Any) -> None:
    """Make an account."""
    made = operate(
        o["config_path"],
        "account.create",
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
    show(operate(config_path, "account.list"), as_json=as_json)


@click.group("credits")
def credits_group() -> None:
    """Give credits."""


@credits_group.command("grant")
@config_option
@click.argument("account_id", metavar="ACCOUNT")
@click.argument("amount", type=int)
@json_option
def credits_grant(config_path: str | None, account_id: str, amount: int, as_json: bool) -> None:
    """Give an account credits."""
    show(operate(config_path, "credits.grant", account=account_id, amount=amount), as_json=as_json)


@click.group()
def key() -> None:
    """Make, list, change and revoke API keys."""


@key.command("create")
@config_option
@click.option("--account", "account_id", required=True, help="The id of the account that it is for.")
@click.option("--name", default="", help="What you call it.")
@click.option("--credit-limit", type=int, default=None, help="The most that it may use; no limit when absent.")
@click.option("--expires-at", default=None, help="ISO 8601, such as 2030-01-31T12:00:00Z; never when absent.")
@json_option
def key_create(**o: Any) -> None:
    """Make a key. This is the only time that the whole key is shown."""
    made = operate(
        o["config_path"],
        "key.create",
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
    show(operate(config_path, "key.list", account=account_id), as_json=as_json)


@key.command("revoke")
@config_option
@click.argument("key_id")
@json_option
def key_revoke(config_path: str | None, key_id: str, as_json: bool) -> None:
    """End a key for good."""
    show(operate(config_path, "key.revoke", key=key_id), as_json=as_json)


@key.command("update")
@config_option
@click.argument("key_id")
@click.option("--credit-limit", default=None, help="A number of credits, or none.")
@click.option("--reset-usage", is_flag=True, help="Count its usage from 0 again.")
@json_option
def key_update(**o: Any) -> None:
    """Change a key's credit limit or reset its usage."""
    arguments: dict[str, Any] = {"key": o["key_id"], "reset_usage": o["reset_usage"]}
    if o["credit_limit"] is not None:
        arguments["credit_limit"] = _limit(o["credit_limit"])
    show(operate(o["config_path"], "key.update", **arguments), as_json=o["as_json"])


def _limit(text: str) -> int | str:
    if text == "none" or text.isdecimal():
        return text if text == "none" else int(text)
    raise click.BadParameter("must be a number of credits, or none", param_hint="--credit-limit")


@click.group()
def ledger() -> None:
    """Prove the ledger."""


@ledger.command("verify")
@config_option
@json_option
def ledger_verify(config_path: str | None, as_json: bool) -> None:
    """Prove the ledger's invariants. Exit 1 with every violation."""
    result = operate(config_path, "ledger.verify")
    if as_json:
        show(result, as_json=True)
    if not result["ok"]:
        raise Refusal(*(f"{v['rule']}: {v['subject']}: {v['detail']}" for v in result["violations"]))
    if not as_json:
        say("the ledger holds")


@click.command()
@config_option
@json_option
def reload(config_path: str | None, as_json: bool) -> None:
    """Make the running node read its config again."""
    show(operate_on_node(config_path, "reload"), as_json=as_json)
