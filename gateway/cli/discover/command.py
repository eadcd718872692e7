"""`sluice discover`: search many keywords on every platform, with a key and a node's URL (decisions 19)."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import click
import orjson

from gateway.cli.dispatch import operate
from gateway.cli.endings import CommandEnded, Endings
from gateway.cli.feed.client import FeedClient, Question, words_of
from gateway.cli.feed.command import address_of, key_of
from gateway.cli.run import Refusal, WholeNumber, json_option, say, show

_RUNS: Final = "/v1/prism/discover/runs"
_CHECK_S: Final = 1.0
_ATTEMPTS: Final = 5
_TOLD: Final = ("run_id", "status", "stopped_because", "view", "counts", "credits", "version")
_SETTLED: Final = ("completed", "partial", "failed", "cancelled", "paused")


def _caller_options(command: Callable[..., None]) -> Callable[..., None]:
    url = click.option(
        "--url",
        envvar="SLUICE_URL",
        default="http://127.0.0.1:8080",
        show_default=True,
        help="URL of the node, instead of SLUICE_URL.",
    )
    key_file = click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the API key, instead of SLUICE_API_KEY.",
    )
    return url(key_file(command))


_as_operator: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False),
    help="As the operator, read from the store in this config.",
)


@click.group()
def discover() -> None:
    """Search many keywords on all platforms, and read the results."""


@discover.command("run")
@click.argument("keywords", nargs=-1, required=True)
@click.option("--max-credits", type=WholeNumber(1, 10_000), required=True, help="Maximum cost in credits.")
@click.option("--platform", "platforms", multiple=True, help="Slug of a platform (default all searchable platforms).")
@click.option("--view", type=click.Choice(["posts", "accounts", "items"]), default="posts", show_default=True)
@click.option("--date-from", help="Date or ISO 8601 time; no older results.")
@click.option("--date-to", help="Date or ISO 8601 time; no newer results.")
@click.option("--language", help="Language code such as en.")
@click.option(
    "--max-rows", type=WholeNumber(1, 10_000), default=1_000, show_default=True, help="Maximum number of rows."
)
@click.option("--no-wait", is_flag=True, help="Print the run without waiting for it to finish.")
@_caller_options
@json_option
def discover_run(**o: Any) -> None:
    """Start a run, wait until it finishes, and print it. The run continues if this command ends first."""
    body = {
        "keywords": list(o["keywords"]),
        "max_credits": o["max_credits"],
        "view": o["view"],
        "max_rows": o["max_rows"],
        "background": True,
        **({"platforms": list(o["platforms"])} if o["platforms"] else {}),
        **{name: o[name] for name in ("date_from", "date_to", "language") if o[name] is not None},
    }
    with _client(o["url"], o["key_file"]) as client:
        begun = _read(client, Question("POST", _RUNS, orjson.dumps(body), once=f"cli_{secrets.token_hex(16)}"))
        while not o["no_wait"] and begun["status"] not in _SETTLED:
            client.pause(_CHECK_S)
            begun = _read(client, Question("GET", f"{_RUNS}/{begun['run_id']}"))
    _show(begun, as_json=o["as_json"])


@discover.command("show")
@click.argument("run_id")
@_as_operator
@_caller_options
@json_option
def discover_show(run_id: str, config_path: str | None, url: str, key_file: Path | None, *, as_json: bool) -> None:
    """Print the current state of a run."""
    if config_path is not None:
        show(operate(config_path, "discover.show", run=run_id), as_json=as_json)
        return
    with _client(url, key_file) as client:
        run = _read(client, Question("GET", f"{_RUNS}/{quote(run_id, safe='')}"))
    _show(run, as_json=as_json)


@discover.command("results")
@click.argument("run_id")
@click.option("--after", help="Continue after the row with this row_id.")
@click.option("--new", is_flag=True, help="Only rows that no earlier run of its schedule has found.")
@_as_operator
@_caller_options
def discover_results(
    run_id: str, after: str | None, config_path: str | None, url: str, key_file: Path | None, *, new: bool
) -> None:
    """Print the rows of a run as JSON lines."""
    if config_path is not None:
        if after or new:
            raise click.UsageError("--after and --new cannot be used with --config")
        _print_rows(config_path, run_id)
        return
    query = urlencode({**({"after": after} if after else {}), **({"new": "true"} if new else {})})
    path = f"{_RUNS}/{quote(run_id, safe='')}/results.jsonl{f'?{query}' if query else ''}"
    with _client(url, key_file) as client:
        answer = client.ask(Question("GET", path))
    if answer.status != 200:
        raise Refusal(words_of(answer))
    if answer.body:
        say(answer.body.decode(), end="")


def _print_rows(config_path: str, run_id: str) -> None:
    """Print the rows of a run from the store, page by page."""
    after = 0
    while rows := operate(config_path, "discover.results", run=run_id, after=after):
        say("".join(f"{orjson.dumps(one).decode()}\n" for one in rows), end="")
        after = rows[-1]["number"]


@contextmanager
def _client(url: str, key_file: Path | None) -> Iterator[FeedClient]:
    """Open a client. On a signal, it stops together with the command."""
    address, key = address_of(url), key_of(key_file)
    if sys.stdout is None:  # Python sets stdout to None if it was closed before the start.
        raise Refusal("stdout is closed; there is nowhere to print", exit_code=2)
    endings = Endings(sys.stdout.fileno())
    with endings.observed():
        try:
            yield FeedClient(address, key, endings=endings, attempts=_ATTEMPTS, rng=Random())
        except CommandEnded:
            raise click.Abort from None


def _read(client: FeedClient, question: Question) -> dict[str, Any]:
    """Return the `data` of a response. Raises Refusal for an error response."""
    answer = client.ask(question)
    if answer.status not in (200, 202):
        raise Refusal(words_of(answer))
    data: dict[str, Any] = orjson.loads(answer.body)["data"]
    return data


def _show(run: dict[str, Any], *, as_json: bool) -> None:
    show(run if as_json else {name: run[name] for name in _TOLD}, as_json=as_json)
