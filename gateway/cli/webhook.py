"""`sluice webhook`: tools for building a receiver (spec 5.3). Neither command needs a node or a config."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import click
import orjson
import trio

from gateway.cli.run import Refusal, json_option, port_type, run, say_in_background, show
from gateway.cli.webhook_receiver import Received, Receiver
from gateway.http.edge_answers import plain_edge_answer
from gateway.node.listeners import port_of
from gateway.server.serve import serve_native
from scheduler.webhooks.errors import SignatureRefused
from scheduler.webhooks.signature import TOLERANCE_S, verify

_HOST = "127.0.0.1"
_SHOWN_MAX = 60
"""Maximum number of characters of one value on a delivery's line."""


def _require_text(_context: click.Context, _option: click.Parameter, text: str) -> str:
    if not text.strip():
        raise click.BadParameter("is empty; use the `webhook_secret` of the Monitor")
    return text


secret_option = click.option(
    "--secret",
    envvar="SLUICE_WEBHOOK_SECRET",
    required=True,
    callback=_require_text,
    help="Signing secret, instead of SLUICE_WEBHOOK_SECRET.",
)
tolerance_option = click.option(
    "--tolerance-s",
    type=click.FloatRange(0),
    default=TOLERANCE_S,
    show_default=True,
    help="Maximum age of the signature in seconds; raise it for stored deliveries.",
)


@click.group()
def webhook() -> None:
    """Receive and verify webhooks."""


@webhook.command("verify")
@secret_option
@click.option("--header", required=True, help="Value of the signature header: t=...,v1=...")
@tolerance_option
@json_option
def verify_(secret: str, header: str, tolerance_s: float, as_json: bool) -> None:
    """Verify the signature of a body on stdin. Pass the exact bytes received; exit 1 if it is not valid."""
    body = sys.stdin.buffer.read()
    value = header.rpartition(": ")[2]  # The user may have pasted the header with its name.
    try:
        signed_at = verify(secret, value, body, now=time.time(), tolerance_s=tolerance_s)
    except SignatureRefused as exc:
        raise Refusal(str(exc)) from exc
    show({"verified": True, "signed_at": int(signed_at), "body_bytes": len(body)}, as_json=as_json)


@webhook.command("listen")
@secret_option
@click.option("--port", type=port_type, default=0, help="Port to listen on; 0 picks a free one.")
@click.option("--header-name", default="x-sluice-signature", show_default=True)
@tolerance_option
@click.option("--full", is_flag=True, help="Print the whole body of each delivery instead of one line.")
@json_option
def listen(secret: str, port: int, **o: Any) -> None:
    """Receive and verify deliveries, and print a line for each. The command listens on this machine until Ctrl-C.

    A valid delivery receives a 204, and an invalid one a 401 with the reason.
    """
    line = _json_line if o["as_json"] else partial(_line, full=o["full"])
    first = partial(_first_line, as_json=o["as_json"])
    header_name, tolerance_s = o["header_name"].lower(), o["tolerance_s"]
    run(partial(_listen, secret, port, header_name=header_name, tolerance_s=tolerance_s, line=line, first=first))


async def _listen(
    secret: str,
    port: int,
    *,
    header_name: str,
    tolerance_s: float,
    line: Callable[[Received], str],
    first: Callable[[str], str],
) -> None:
    try:
        listeners = await trio.open_tcp_listeners(port, host=_HOST)
    except OSError as exc:
        raise Refusal(f"cannot listen on {_HOST}:{port}: {os.strerror(exc.errno or 0)}") from exc
    unread, one_at_a_time = trio.Event(), trio.Lock()
    failures: list[BrokenPipeError | Refusal] = []

    async def publish(received: Received) -> None:
        """Print a delivery before the response is sent, so that a slow reader of stdout slows down the deliveries."""
        try:
            async with one_at_a_time:
                await say_in_background(line(received))
        except (BrokenPipeError, Refusal) as exc:
            failures.append(exc)
            unread.set()

    check = partial(verify, secret, tolerance_s=tolerance_s)
    receiver = Receiver(check, header_name=header_name, publish=publish, now=time.time)
    serve = partial(serve_native, receiver, listeners, shutdown=unread, drain_s=0.0, edge_answer=plain_edge_answer)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            url = f"http://{_HOST}:{port_of(listeners)}"
            nursery.start_soon(_end_on_signal, signals, nursery.cancel_scope)
            await say_in_background(first(url))
            await unread.wait()
            nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]


async def _end_on_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


def _first_line(url: str, *, as_json: bool) -> str:
    return orjson.dumps({"event": "listening", "url": url}).decode() if as_json else f"listening on {url}"


def _json_line(received: Received) -> str:
    fields = {"event": "delivery", "verified": received.problem is None, "problem": received.problem}
    return orjson.dumps({**fields, "webhook_id": received.webhook_id, "body": received.body}).decode()


def _line(received: Received, *, full: bool) -> str:
    """Format a delivery as one line: its id, the plain values of its body, and the number of changes.

    With `full`, the line contains the whole body.
    """
    if received.problem is not None:
        return f"rejected: {received.problem}"
    if full or not isinstance(received.body, dict):
        return f"verified: {orjson.dumps(received.body, option=orjson.OPT_INDENT_2).decode()}"
    plain = {name: value for name, value in received.body.items() if not isinstance(value, dict | list)}
    values = "  ".join(f"{name}={_shown(value)}" for name, value in plain.items() if value is not None)
    alerts, deltas = received.body.get("alerts_fired"), received.body.get("deltas")
    fired = f"  alerts_fired={len(alerts)}" if isinstance(alerts, list) else ""
    changes = f"  changes={len(deltas.get('rows', deltas))}" if isinstance(deltas, dict) else ""
    return f"verified  {received.webhook_id or '-'}  {values}{changes}{fired}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _SHOWN_MAX else f"{one_line[: _SHOWN_MAX - 3]}..."
