"""Where a reader of the feed stands: at a cursor that it keeps itself, or where a named consumer was acknowledged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import orjson

from gateway.cli.feed.client import FeedClient, Question, words_of
from gateway.cli.run import Refusal
from storage.errors import reason_of


class FeedPosition(Protocol):
    """Where to read on."""

    def query(self) -> Mapping[str, str]:
        """Return the query parameters that make a read begin here."""
        ...

    def move(self, cursor: str) -> None:
        """All before `cursor` was handled: remember that. Raises Refusal."""
        ...

    def restart(self) -> None:
        """Events behind it were removed: read on at the oldest kept one."""
        ...


class AtCursor:
    """A cursor, kept in a file if there is one."""

    def __init__(self, start: str, file: Path | None) -> None:
        """The file's cursor goes before `start`. Raises Refusal."""
        if file is not None and not file.resolve().parent.is_dir():
            raise Refusal(f"{file} cannot be written: there is no folder {file.parent}")
        self._file = file
        self._cursor = (file and read_cursor(file)) or start

    def query(self) -> Mapping[str, str]:
        """The cursor; of `now` no wait, so that what comes meanwhile comes behind a position that is known."""
        return {"cursor": self._cursor, **({"wait_s": "0"} if self._cursor == "now" else {})}

    def move(self, cursor: str) -> None:
        """Stand there, also after the next start."""
        if cursor != self._cursor:
            self._cursor = cursor
            if self._file is not None:
                write_cursor(self._file, cursor)

    def restart(self) -> None:
        """Stand before the oldest event."""
        self._cursor = "oldest"


class AsConsumer:
    """A named consumer of the key, whose place the node keeps."""

    def __init__(self, name: str, start: str | None, client: FeedClient) -> None:
        self._query = {"consumer": name, **({"start": start} if start else {})}
        self._ack_path = f"/v1/events/consumers/{name}/ack"
        self._client = client
        self._acked = ""

    def query(self) -> Mapping[str, str]:
        """The consumer's name."""
        return self._query

    def move(self, cursor: str) -> None:
        """Acknowledge."""
        if cursor == self._acked:
            return
        body = orjson.dumps({"cursor": cursor})
        answer = self._client.ask(Question("POST", self._ack_path, body, may_end=False))
        if answer.status != 200:
            raise Refusal(words_of(answer))
        self._acked = cursor

    def restart(self) -> None:
        """Nothing: the consumer's next read restarts it."""


def read_cursor(file: Path) -> str | None:
    """The cursor in a file; None while there is no such file. Raises Refusal."""
    try:
        cursor = file.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise Refusal(f"{file} cannot be read: {reason_of(exc)}") from exc
    if not cursor.startswith("cur_"):
        raise Refusal(f"{file} holds no cursor; remove it to begin anew")
    return cursor


def write_cursor(file: Path, cursor: str) -> None:
    """Replace a file's cursor; whoever reads it, also after a crash, finds the old or the new one. Raises Refusal."""
    place = file.resolve()
    beside = place.with_name(f"{place.name}.new")
    try:
        with beside.open("w") as out:
            out.write(f"{cursor}\n")
            out.flush()
            os.fsync(out.fileno())
        beside.replace(place)
    except OSError as exc:
        raise Refusal(f"{file} cannot be written: {exc.strerror}") from exc
