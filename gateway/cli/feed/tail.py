"""Follows the feed page by page. Events are printed before the position moves (spec 4.4, 7.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
import orjson

from gateway.cli.endings import CommandEnded
from gateway.cli.feed.client import WAIT_S, FeedAnswer, FeedClient, Question, details_of, printable, words_of
from gateway.cli.feed.positions import FeedPosition
from gateway.cli.run import Refusal, complain
from gateway.observability.standard_streams import STDOUT, write_all


class _Data(msgspec.Struct):
    items: list[dict[str, Any]]
    dropped: int = 0
    restarted_from: str | None = None


class _Pagination(msgspec.Struct):
    next_cursor: str


class _Page(msgspec.Struct):
    data: _Data
    pagination: _Pagination


@dataclass(frozen=True, slots=True)
class Tail:
    """Follows the feed. `filters` is the constant part of each query."""

    client: FeedClient
    place: FeedPosition
    filters: Mapping[str, str]
    as_json: bool

    def run(self) -> None:
        """Print each event once, and move the position only after its events were printed.

        Raises:
            Refusal: the node rejects a read, or fails too often.
            CommandEnded: the command must end.
        """
        is_expired = False
        while True:
            query = urlencode({"wait_s": WAIT_S, **self.filters, **self.place.query()}, safe=",*")
            answer = self.client.ask(Question("GET", f"/v1/events?{query}"))
            if answer.status == 410 and not is_expired:
                is_expired = True
                self._warn_expired(answer)
                self.place.restart()
                continue
            if answer.status != 200:
                raise Refusal(words_of(answer))
            is_expired = False
            self._take(_read(answer))
            if interval_s := answer.seconds("x-poll-interval"):
                self.client.pause(interval_s)

    def _warn_expired(self, answer: FeedAnswer) -> None:
        missed = details_of(answer)
        since = f" from {missed.missed_from}" if missed.missed_from else ""
        until = f" until {missed.missed_until}" if missed.missed_until else ""
        complain(
            printable(
                f"events{since}{until} were removed by retention before they were read; "
                "continuing at the oldest stored event"
            )
        )

    def _take(self, page: _Page) -> None:
        if page.data.restarted_from is not None:
            complain(f"the consumer restarts at the oldest stored event; {page.data.dropped} positions were lost")
        if page.data.items:
            _print(_lines(page.data.items, as_json=self.as_json))
        self.place.move(page.pagination.next_cursor)


def _read(answer: FeedAnswer) -> _Page:
    try:
        return msgspec.json.decode(answer.body, type=_Page)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Refusal(words_of(answer)) from exc


def _lines(items: Iterable[Mapping[str, Any]], *, as_json: bool) -> bytes:
    return b"".join(orjson.dumps(item) + b"\n" if as_json else f"{in_short(item)}\n".encode() for item in items)


def in_short(event: Mapping[str, Any]) -> str:
    """Describe an event in one readable line, without control characters."""
    subject = event["subject"]
    name = f" ({subject['name']})" if subject.get("name") else ""
    known = {None, subject["id"]}
    data = " ".join(f"{path}={value}" for path, value in _leaves(event["data"], "") if value not in known)
    return printable(
        f"{event['created_at']}  {event['type']}  {subject['kind']} {subject['id']}{name}  {data}".rstrip()
    )


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", orjson.dumps(inner).decode() if isinstance(inner, list | bool) else inner


def _print(lines: bytes) -> None:
    """Write everything unbuffered, so that nothing is lost after the cursor has moved.

    Raises:
        CommandEnded: the reader of stdout is gone.
        Refusal: stdout cannot be written.
    """
    try:
        write_all(STDOUT, lines)
    except BrokenPipeError as exc:
        raise CommandEnded from exc
    except OSError as exc:
        raise Refusal(f"stdout cannot be written: {exc.strerror}") from exc
