"""`sluice events`: follow an account's events, with a key and a node's URL (spec 4.4)."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click

from gateway.cli.endings import CommandEnded, Endings
from gateway.cli.feed.client import FeedClient
from gateway.cli.feed.positions import AsConsumer, AtCursor, FeedPosition
from gateway.cli.feed.tail import Tail
from gateway.cli.run import Refusal, WholeNumber, json_option
from storage.errors import reason_of

_KEY_NAME = "SLUICE_API_KEY"
_CONSUMER = re.compile(r"[a-z0-9_-]{1,64}")


@click.group()
def events() -> None:
    """Follow an account's events."""


@events.command("tail")
@click.option(
    "--url",
    envvar="SLUICE_URL",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="URL of the node, instead of SLUICE_URL.",
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the API key, instead of {_KEY_NAME}.",
)
@click.option("--consumer", help="Read as this named consumer, and acknowledge printed events.")
@click.option("--types", multiple=True, help="Event types such as key.revoked, discover.* or *; comma-separated.")
@click.option("--subject-id", multiple=True, help="Ids of the subjects of events; comma-separated.")
@click.option(
    "--from",
    "start",
    help="oldest (default), now, a cursor or an event's id; for a consumer, used only by its first read.",
)
@click.option(
    "--cursor-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Start at the cursor in this file, and update the file.",
)
@click.option(
    "--attempts",
    type=WholeNumber(0),
    default=5,
    show_default=True,
    help="Consecutive failed attempts before giving up; 0 for no limit.",
)
@json_option
def tail(**o: Any) -> None:
    """Print events as they arrive, oldest first, until Ctrl-C.

    With a cursor file, each event is printed once across restarts.
    """
    url, key = address_of(o["url"]), key_of(o["key_file"])
    filters = {"types": ",".join(o["types"]), "subject_id": ",".join(o["subject_id"])}
    _check_place(o["consumer"], o["start"], o["cursor_file"])
    if sys.stdout is None:  # Python sets stdout to None if it was closed before the start.
        raise Refusal("stdout is closed; there is nowhere to print", exit_code=2)
    endings = Endings(sys.stdout.fileno())
    client = FeedClient(url, key, endings=endings, attempts=o["attempts"], rng=Random())
    place: FeedPosition = (
        AsConsumer(o["consumer"], o["start"], client)
        if o["consumer"] is not None
        else AtCursor(o["start"] or "oldest", o["cursor_file"])
    )
    try:
        with endings.observed():
            Tail(client, place, {name: text for name, text in filters.items() if text}, o["as_json"]).run()
    except CommandEnded:
        return


def _check_place(consumer: str | None, start: str | None, cursor_file: Path | None) -> None:
    """Raise UsageError if options contradict each other."""
    is_word = start in (None, "oldest", "now")
    if not is_word and not str(start).startswith(("cur_", "evt_")):
        raise click.BadParameter("must be oldest, now, a cursor or an event's id", param_hint="--from")
    if consumer is None:
        return
    if _CONSUMER.fullmatch(consumer) is None:
        raise click.BadParameter("must be 1 to 64 characters of a-z, 0-9, _ and -", param_hint="--consumer")
    if not is_word:
        raise click.BadParameter(
            "must be oldest or now for a consumer, which has its own position", param_hint="--from"
        )
    if cursor_file is not None:
        raise click.BadParameter(
            "cannot be used with --consumer, which has its own position", param_hint="--cursor-file"
        )


def address_of(text: str) -> SplitResult:
    """Parse the node's URL. URLs that may contain secrets are rejected."""
    try:
        url = urlsplit(text)
        is_good = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
    except ValueError:
        is_good = False
    if not is_good or not text.isascii() or not text.isprintable() or " " in text:
        raise click.BadParameter("must be a URL such as https://sluice.example.com", param_hint="--url")
    if url.username is not None or url.query or url.fragment:
        raise click.BadParameter(f"must be only the node's URL; put the key in {_KEY_NAME}", param_hint="--url")
    return url


def key_of(file: Path | None) -> str:
    """Return the key from its file or the environment.

    The key is not an option of the command, because other users can see the arguments of a running command.
    """
    if file is None:
        key = os.environ.get(_KEY_NAME, "").strip()
        source = _KEY_NAME
    else:
        source = str(file)
        try:
            key = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise Refusal(f"{file} cannot be read: {reason_of(exc)}", exit_code=2) from exc
    if not key:
        raise Refusal(f"no API key: set {_KEY_NAME}, or use --key-file", exit_code=2)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Refusal(f"{source} does not contain a valid key", exit_code=2)
    return key
