"""Manages the writer's connection: its loss, reconnecting, and whether the server is available.

After a loss, a thread tries to reconnect until it succeeds. It then ends what remains of the lost connection on the
server, checks whether the interrupted commit took effect, and reports that the server is back.
"""

import secrets
import threading
from collections.abc import Callable, Iterator

import psycopg

from storage.errors import CommitUnknown, StoreContended, StoreUnavailable
from storage.link_log import LinkLog
from storage.postgres.link import LinkLost, PostgresLink, open_link
from storage.postgres.text import rows_of

# If the connection is back within this time, the loss affects only calls in progress.
REJOIN_S = 0.03
RESOLVE_S = 1.0
PAUSE_S_MAX = 0.8
END_MS = 2000

# Every transaction stores its number here. The server's own transaction ids are not suitable, because the server may
# assign an id again after a crash in which the transaction's records were lost.
MARK = """
INSERT INTO store_writers (id, batch, at) VALUES (?, ?, {now})
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, at = excluded.at
"""
READ_MARK = "SELECT batch FROM store_writers WHERE id = ?"
FORGET = "DELETE FROM store_writers WHERE id = ?"
FORGET_OLD = "DELETE FROM store_writers WHERE at < {now} - 86400"
END = """
SELECT pg_terminate_backend(pid, ?) FROM pg_stat_activity WHERE application_name = ? AND pid <> pg_backend_pid()
"""


class WriterConnection:
    """The writer's current connection, if any. Only the writer's thread may call methods other than `close`."""

    def __init__(self, url: str, link: PostgresLink, *, id_: str, publish: Callable[[str | None], None]) -> None:
        """`link` is the first connection.

        `publish` is called with the reason when the server becomes unavailable, and with None when it is back.
        """
        self._url = url
        self._link: PostgresLink | None = link
        self._publish = publish
        self._is_published = False
        self._lock = threading.Lock()
        self._why = ""
        self._unresolved: int | None = None
        self._happened = False
        self._back = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = LinkLog("PostgreSQL")
        self.id = id_

    def link(self) -> PostgresLink:
        """Return the connection. Raises StoreUnavailable while the server is unavailable."""
        if self._link is None:
            raise StoreUnavailable(f"the database is unavailable: {self._why}")
        return self._link

    def lose(self, link: PostgresLink, why: str, *, unresolved: int | None = None) -> None:
        """Start to replace a lost `link`, and wait a moment for the new connection.

        If the loss interrupted the commit of a batch, `unresolved` is the number of that batch.
        """
        if link is not self._link:
            return
        link.close()
        self._link = None
        self._why, self._unresolved = why, unresolved
        self._back.clear()
        self._thread = threading.Thread(target=self._reconnect, name="storage-connect", daemon=True)
        self._thread.start()
        if self._back.wait(REJOIN_S):
            return
        with self._lock:
            self._is_published = not self._back.is_set()
            if self._is_published:
                self._publish(why)

    def check_happened(self) -> None:
        """Check that the interrupted commit took effect.

        Raises:
            StoreContended: the commit did not take effect.
            CommitUnknown: the server is still unavailable.
        """
        if not self._back.wait(RESOLVE_S):
            raise CommitUnknown(f"the connection was lost during a commit: {self._why}")
        if not self._happened:
            raise StoreContended(f"the connection was lost during a commit, which did not happen: {self._why}")

    def close(self) -> None:
        """End the connection, or stop trying to reconnect."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._link is not None:
            _forget(self._link, self.id)
            self._link.close()

    def _reconnect(self) -> None:
        for pause_s in _pauses():
            if self._closing.wait(pause_s):
                return
            try:
                self._link = self._connect()
                break
            except (psycopg.Error, LinkLost) as exc:
                self._why = str(exc).strip().partition("\n")[0]
                self._log.down(self._why)
        self._log.up()
        with self._lock:
            if self._is_published:
                self._is_published = False
                self._publish(None)
            self._back.set()

    def _connect(self) -> PostgresLink:
        link = open_link(self._url, name=self.id)
        try:
            prepare_writer(link)
            end_others(link, self.id)
            if self._unresolved is not None:
                link.queue(READ_MARK, (self.id,))
                self._happened = rows_of(link.fetch()) == [(self._unresolved,)]
        except BaseException:
            link.close()
            raise
        return link


def new_id() -> str:
    """Return a name for a writer, used on all its connections."""
    return f"sluice-writer-{secrets.token_hex(8)}"


def prepare_writer(link: PostgresLink) -> None:
    """Set up a writer's connection, so that commits are durable and plans do not change.

    Hot statements must use an index for each row, even if the tables were small when the statement was planned. With
    the setting for this, the planner considers statements without an index very expensive and would compile them, so
    JIT compilation must be off.
    """
    link.queue(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    link.queue("SET plan_cache_mode = force_generic_plan")
    for kind in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"):
        link.queue(f"SET {kind} = off")
    link.fetch()


def end_others(link: PostgresLink, id_: str) -> None:
    """End what remains of the writer's earlier connections, so that no statement of theirs takes effect later.

    Raises:
        LinkLost: one of them has not ended.
    """
    link.queue(END, (END_MS, id_))
    if not all(ended for (ended,) in rows_of(link.fetch())):
        raise LinkLost("an earlier connection has not ended yet")


def _forget(link: PostgresLink, id_: str) -> None:
    try:
        link.queue(FORGET, (id_,))
        link.fetch()
    except (psycopg.Error, LinkLost):
        return  # the row will be deleted later because of its age


def _pauses() -> Iterator[float]:
    yield 0.0
    pause_s = 0.02
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
