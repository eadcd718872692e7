"""Whether the server is there: the writer's connection, its loss, and the way back.

After a loss a thread connects again and again. Before it says that the server is back it ends what the lost connection
has left on the server, and looks up whether the commit that was under way has happened.
"""

import secrets
import threading
from collections.abc import Callable, Iterator

import psycopg

from storage.errors import CommitUnknown, StoreContended, StoreUnavailable
from storage.link_log import LinkLog
from storage.postgres.link import LinkLost, PostgresLink, open_link
from storage.postgres.text import rows_of

# A loss that is over by then fails nobody who was not in the middle of it.
REJOIN_S = 0.03
RESOLVE_S = 1.0
PAUSE_S_MAX = 0.8
END_MS = 2000

# Every transaction leaves its number here. The server's own ids of transactions would not do: one whose records a crash
# has lost is given to somebody else after it.
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
    """The writer's connection while there is one. All but `close` is called by the writer's thread."""

    def __init__(self, url: str, link: PostgresLink, *, id_: str, publish: Callable[[str | None], None]) -> None:
        """`link` is the first connection; `tell` is told why the server is away, and None when it is back."""
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
        """The connection. Raises StoreUnavailable while the server is away."""
        if self._link is None:
            raise StoreUnavailable(f"the database is away: {self._why}")
        return self._link

    def lose(self, link: PostgresLink, why: str, *, unresolved: int | None = None) -> None:
        """`link` is gone, maybe during the commit of the batch `unresolved`; waits a moment for the next one."""
        if link is not self._link:
            return
        link.close()
        self._link = None
        self._why, self._unresolved = why, unresolved
        self._back.clear()
        self._thread = threading.Thread(target=self._return, name="storage-connect", daemon=True)
        self._thread.start()
        if self._back.wait(REJOIN_S):
            return
        with self._lock:
            self._is_published = not self._back.is_set()
            if self._is_published:
                self._publish(why)

    def check_happened(self) -> None:
        """Pass if the batch whose commit was lost has happened.

        Raises:
            StoreContended: it has not.
            CommitUnknown: the server is still away.
        """
        if not self._back.wait(RESOLVE_S):
            raise CommitUnknown(f"the connection was lost during a commit: {self._why}")
        if not self._happened:
            raise StoreContended(f"the connection was lost during a commit, which did not happen: {self._why}")

    def close(self) -> None:
        """End the connection, or the search for one."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._link is not None:
            _forget(self._link, self.id)
            self._link.close()

    def _return(self) -> None:
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
    """A name for a writer, on all its connections."""
    return f"sluice-writer-{secrets.token_hex(8)}"


def prepare_writer(link: PostgresLink) -> None:
    """Set up a writer's connection: what is committed is durable, and plans stay as they are.

    Hot statements look each row up by an index, however small the tables were when they were planned. What has no index
    counts as very dear then, which must not have it compiled.
    """
    link.queue(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    link.queue("SET plan_cache_mode = force_generic_plan")
    for kind in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"):
        link.queue(f"SET {kind} = off")
    link.fetch()


def end_others(link: PostgresLink, id_: str) -> None:
    """End what earlier connections of the writer have left, so that nothing of theirs happens later.

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
        return  # the row is dropped as an old one


def _pauses() -> Iterator[float]:
    yield 0.0
    pause_s = 0.02
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
