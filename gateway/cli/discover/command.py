"""`sluice discover`: runs of many keywords on every search, for anybody with a key and an address (decisions 19)."""

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
_LOOK_S: Final = 1.0
_ATTEMPTS: Final = 5
_TOLD: Final = ("run_id", "status", "stopped_because", "view", "counts", "credits", "version")
_SETTLED: Final = ("completed", "partial", "failed", "cancelled", "paused")


def _caller_options(command: Callable[..., None]) -> Callable[..., None]:
    url = click.option(
        "--url", envvar="SLUICE_URL", default="http://127.0.0.1:8080", show_default=True, help="Or SLUICE_URL."
    )
    key_file = click.option(
        "--key-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Holds the key; else SLUICE_API_KEY.",
    )
    return url(key_file(command))


_as_operator: Final = click.option(
    "--config", "config_path", type=click.Path(dir_okay=False), help="As the operator: of the store that it names."
)


@click.group()
def discover() -> None:
    """Search many keywords everywhere, and read what was found."""


@discover.command("run")
@click.argument("keywords", nargs=-1, required=True)
@click.option("--max-credits", type=WholeNumber(1, 10_000), required=True, help="The most that it may cost.")
@click.option("--platform", "platforms", multiple=True, help="A slug; all that can be searched when absent.")
@click.option("--view", type=click.Choice(["posts", "accounts", "items"]), default="posts", show_default=True)
@click.option("--date-from", help="A day or an instant: nothing older.")
@click.option("--date-to", help="A day or an instant: nothing newer.")
@click.option("--language", help="A code such as en.")
@click.option("--max-rows", type=WholeNumber(1, 10_000), default=1_000, show_default=True, help="The most rows.")
@click.option("--no-wait", is_flag=True, help="Print the run as it was begun.")
@_caller_options
@json_option
def discover_run(**o: Any) -> None:
    """Begin a run, wait until it has settled, and print it. It goes on when this command ends before."""
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
            client.pause(_LOOK_S)
            begun = _read(client, Question("GET", f"{_RUNS}/{begun['run_id']}"))
    _show(begun, as_json=o["as_json"])


@discover.command("show")
@click.argument("run_id")
@_as_operator
@_caller_options
@json_option
def discover_show(run_id: str, config_path: str | None, url: str, key_file: Path | None, *, as_json: bool) -> None:
    """Print a run as it stands."""
    if config_path is not None:
        show(operate(config_path, "discover.show", run=run_id), as_json=as_json)
        return
    with _client(url, key_file) as client:
        run = _read(client, Question("GET", f"{_RUNS}/{quote(run_id, safe='')}"))
    _show(run, as_json=as_json)


@discover.command("results")
@click.argument("run_id")
@click.option("--after", help="The row_id behind which to go on.")
@click.option("--new", is_flag=True, help="Only rows that no earlier occurrence of its schedule has found.")
@_as_operator
@_caller_options
def discover_results(
    run_id: str, after: str | None, config_path: str | None, url: str, key_file: Path | None, *, new: bool
) -> None:
    """Print the rows of a run, a line of JSON each."""
    if config_path is not None:
        if after or new:
            raise click.UsageError("--after and --new are for callers with a key")
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
    """A client that a signal ends, as it ends the command."""
    address, key = address_of(url), key_of(key_file)
    if sys.stdout is None:  # Python's word for a stdout that was closed before it began
        raise Refusal("stdout is closed: there is nowhere to print to", exit_code=2)
    endings = Endings(sys.stdout.fileno())
    with endings.observed():
        try:
            yield FeedClient(address, key, endings=endings, attempts=_ATTEMPTS, rng=Random())
        except CommandEnded:
            raise click.Abort from None


def _read(client: FeedClient, question: Question) -> dict[str, Any]:
    """The `data` of an answer. Raises Refusal: it is an error's."""
    answer = client.ask(question)
    if answer.status not in (200, 202):
        raise Refusal(words_of(answer))
    data: dict[str, Any] = orjson.loads(answer.body)["data"]
    return data


def _show(run: dict[str, Any], *, as_json: bool) -> None:
    show(run if as_json else {name: run[name] for name in _TOLD}, as_json=as_json)
