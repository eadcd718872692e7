"""A connection to PostgreSQL in libpq's pipeline mode, which sends several statements in one round trip.

This module uses psycopg's libpq layer, which is faster than psycopg's cursors. Each wait has a deadline, because the
sockets of a hung server stay open.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Sequence

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from storage.postgres.text import encode, encode_array, translate, type_of
from storage.store import Value

CONNECT_S = 2
STATEMENT_MS = 3000
# The limit is below one second, after which the server would look for deadlocks. A transaction that waits too long
# therefore gives up first, and is retried.
LOCK_MS = 900
IDLE_IN_TRANSACTION_MS = 10_000
PATIENCE_S = 4.0  # longer than the server's own limits, so after this time the server or the network hangs
STATEMENTS_KEPT = 500

_SUCCESS = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class LinkLost(Exception):
    """The connection was lost. Statements in progress may have taken effect."""


class PostgresLink:
    """A connection for use by one thread. Only `cut` may be called from other threads."""

    def __init__(self, connection: "psycopg.Connection[object]", *, query_only: bool, patience_s: float) -> None:
        """Take ownership of `connection`."""
        self._connection = connection
        self._query_only = query_only
        self._patience_s = patience_s
        self._wire = connection.pgconn
        self._wire.nonblocking = 1
        self._wire.enter_pipeline_mode()
        self._poll = select.poll()
        self._names: dict[tuple[str, tuple[type, ...]], bytes] = {}
        self._fresh: list[tuple[str, tuple[type, ...]]] = []
        self._prepared = 0
        self._lock = threading.Lock()
        self._why: str | None = None
        self.is_pending = False
        """Whether there are queued statements that were not fetched."""

    def queue(self, sql: str, params: Sequence[Value] = ()) -> None:
        """Queue a statement. `fetch` returns its result or raises its error."""
        self._send(sql, (), [encode(value) for value in params])

    def queue_rows(self, sql: str, rows: Sequence[Sequence[Value]], params: Sequence[Value] = ()) -> None:
        """Queue a statement with `{rows}`. All `params` come after the rows."""
        columns = list(zip(*rows, strict=True))
        types = tuple([type_of(column) for column in columns])
        arrays = [encode_array(column, kind) for column, kind in zip(columns, types, strict=True)]
        self._send(sql, types, [*arrays, *map(encode, params)])

    def queue_list(self, sql: str, values: Sequence[Value], params: Sequence[Value] = ()) -> None:
        """Queue a statement with `{in}`. All `params` come before the list."""
        kind = type_of(values)
        self._send(sql, (kind,), [*map(encode, params), encode_array(values, kind)])

    def fetch(self) -> pq.abc.PGresult:
        """Run all queued statements and return the result of the last one.

        Raises:
            psycopg.Error: one of the statements failed, and the ones after it did not run.
            LinkLost: it is unknown how many of the statements ran.
        """
        if self._why is not None:
            raise LinkLost(self._why)
        try:
            return self._fetch(time.monotonic() + self._patience_s)
        except psycopg.OperationalError as exc:
            if exc.sqlstate is None or self._wire.status == pq.ConnStatus.BAD:
                raise self._lose(str(exc)) from exc
            raise
        finally:
            self.is_pending = False
            self._fresh.clear()

    def cut(self) -> None:
        """End the connection, from any thread. A waiting call fails immediately."""
        with self._lock:
            if self._wire.status == pq.ConnStatus.OK:
                with socket.socket(fileno=os.dup(self._wire.socket)) as other_end:
                    _shut_down(other_end)

    def close(self) -> None:
        """Close the connection."""
        self._why = self._why or "the connection was closed"
        with self._lock:
            self._connection.close()

    def _send(self, sql: str, types: tuple[type, ...], params: Sequence[bytes | None]) -> None:
        if self._why is not None:
            raise LinkLost(self._why)
        key = (sql, types)
        self.is_pending = True
        try:
            self._wire.send_query_prepared(self._names.get(key) or self._prepare(key), params)
        except psycopg.OperationalError as exc:
            raise self._lose(str(exc)) from exc

    def _prepare(self, key: tuple[str, tuple[type, ...]]) -> bytes:
        if len(self._names) >= STATEMENTS_KEPT:
            self._names.clear()
            self._wire.send_query_params(b"DEALLOCATE ALL", None)
        self._prepared += 1
        name = self._names[key] = b"s%d" % self._prepared
        self._fresh.append(key)
        self._wire.send_prepare(name, translate(*key, query_only=self._query_only).encode())
        return name

    def _fetch(self, deadline: float) -> pq.abc.PGresult:
        wire = self._wire
        wire.pipeline_sync()
        self._flush(deadline)
        last: pq.abc.PGresult | None = None
        failed: pq.abc.PGresult | None = None
        while True:
            while wire.is_busy():
                self._wait(select.POLLIN, deadline)
                wire.consume_input()
            result = wire.get_result()
            if result is None:  # libpq returns None between the results of two statements
                if wire.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(wire.get_error_message())
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            if result.status in _SUCCESS:
                last = result
            elif failed is None:
                failed = result
        if failed is not None:
            for key in self._fresh:  # prepare these again, because they may not be prepared on the server
                self._names.pop(key, None)
            raise psycopg.errors.error_from_result(failed)
        assert last is not None, "nothing was queued"
        return last

    def _flush(self, deadline: float) -> None:
        while self._wire.flush():
            self._wait(select.POLLIN | select.POLLOUT, deadline)
            self._wire.consume_input()

    def _wait(self, events: int, deadline: float) -> None:
        self._poll.register(self._wire.socket, events)
        if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self.cut()
            raise psycopg.OperationalError("the server does not respond")

    def _lose(self, why: str) -> LinkLost:
        self._why = why.strip().partition("\n")[0]
        return LinkLost(self._why)


def _shut_down(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the server has already closed the connection


def open_link(
    url: str, *, name: str, query_only: bool = False, statement_ms: int = STATEMENT_MS, lock_ms: int = LOCK_MS
) -> PostgresLink:
    """Open a new connection, with `name` as the application name on the server.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses the connection.
    """
    settings = {
        "statement_timeout": statement_ms,
        "lock_timeout": lock_ms,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
        "default_transaction_isolation": "repeatable\\ read" if query_only else "read\\ committed",
        "default_transaction_read_only": "on" if query_only else "off",
        "bytea_output": "hex",
    }
    options = [str(conninfo_to_dict(url).get("options") or "")]
    options += [f"-c {setting}={value}" for setting, value in settings.items()]
    address = make_conninfo(
        url,
        connect_timeout=CONNECT_S,
        application_name=name,
        client_encoding="UTF8",
        options=" ".join(options).strip(),
    )
    connection = psycopg.connect(address, autocommit=True)
    return PostgresLink(
        connection, query_only=query_only, patience_s=statement_ms / 1000 + PATIENCE_S - STATEMENT_MS / 1000
    )
