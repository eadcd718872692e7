"""The position of a feed reader: a cursor that it stores itself, or the acknowledged position of a consumer."""

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
    """The position of the next read."""

    def query(self) -> Mapping[str, str]:
        """Return the query parameters for a read from this position."""
        ...

    def move(self, cursor: str) -> None:
        """Store that everything before `cursor` was handled. Raises Refusal."""
        ...

    def restart(self) -> None:
        """Continue at the oldest event, because events after this position were removed."""
        ...


class AtCursor:
    """A cursor, which is stored in a file if one is given."""

    def __init__(self, start: str, file: Path | None) -> None:
        """Start at the cursor in the file, or at `start` if there is none. Raises Refusal."""
        if file is not None and not file.resolve().parent.is_dir():
            raise Refusal(f"{file} cannot be written: the folder {file.parent} does not exist")
        self._file = file
        self._cursor = (file and read_cursor(file)) or start

    def query(self) -> Mapping[str, str]:
        """Return the cursor as a parameter.

        A read at `now` does not wait, so that its position is stored before new events arrive.
        """
        return {"cursor": self._cursor, **({"wait_s": "0"} if self._cursor == "now" else {})}

    def move(self, cursor: str) -> None:
        """Move to a cursor and store it for the next start."""
        if cursor != self._cursor:
            self._cursor = cursor
            if self._file is not None:
                write_cursor(self._file, cursor)

    def restart(self) -> None:
        """Move to the oldest event."""
        self._cursor = "oldest"


class AsConsumer:
    """A named consumer of the key. The node stores its position."""

    def __init__(self, name: str, start: str | None, client: FeedClient) -> None:
        self._query = {"consumer": name, **({"start": start} if start else {})}
        self._ack_path = f"/v1/events/consumers/{name}/ack"
        self._client = client
        self._acked = ""

    def query(self) -> Mapping[str, str]:
        """Return the parameters that name the consumer."""
        return self._query

    def move(self, cursor: str) -> None:
        """Acknowledge the position."""
        if cursor == self._acked:
            return
        body = orjson.dumps({"cursor": cursor})
        answer = self._client.ask(Question("POST", self._ack_path, body, may_end=False))
        if answer.status != 200:
            raise Refusal(words_of(answer))
        self._acked = cursor

    def restart(self) -> None:
        """Do nothing, because the next read restarts the consumer."""


def read_cursor(file: Path) -> str | None:
    """Return the cursor in a file; None if the file does not exist. Raises Refusal."""
    try:
        cursor = file.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise Refusal(f"{file} cannot be read: {reason_of(exc)}") from exc
    if not cursor.startswith("cur_"):
        raise Refusal(f"{file} does not contain a cursor; delete it to start over")
    return cursor


def write_cursor(file: Path, cursor: str) -> None:
    """Replace a file's cursor atomically: after a crash it contains the old or the new cursor. Raises Refusal."""
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
