"""The refusals of the store, each with words an operator can act on."""


class StorageError(Exception):
    """A refusal of the store."""


class StoreUnavailable(StorageError):
    """The database cannot be read or written now: disk full, I/O error, closed, or the commit failed."""


class StoreContended(StoreUnavailable):
    """Somebody else held what the call needed, or the connection was lost before the commit; nothing happened."""


class CommitUnknown(StoreUnavailable):
    """The connection was lost during the commit: the call may have happened (see `Tx.on_doubt`)."""


class StoreBusy(StoreUnavailable):
    """More calls wait for the writer than its queue holds; nothing of this one happened."""


class HandlerFailed(StorageError):
    """A batch handler raised, so none of the requests it was given happened; the cause is the bug."""


class ConstraintViolated(StorageError):
    """The rows break a rule of the schema; nothing of the call happened."""


class PartitionRefused(StorageError):
    """Too many rows of the range came before their partition; they stay where they are."""


class StoreUnusable(StorageError):
    """The address, the folder or the file cannot hold a store; a person has to act."""


class StoreInUse(StoreUnusable):
    """Another process owns the store."""


class StoreCorrupt(StoreUnusable):
    """The database file is damaged."""


class StoreTooNew(StoreUnusable):
    """The database was migrated by a newer program."""


class StateUnavailable(StorageError):
    """Redis cannot be asked now. `happened` is False when the call surely changed nothing, None when nobody knows."""

    def __init__(self, why: str, *, happened: bool | None = False) -> None:
        super().__init__(why)
        self.happened = happened


def reason_of(exc: BaseException) -> str:
    """The reason of a connection's failure in the system's own words: the innermost one, on one line."""
    while inner := exc.exceptions[0] if isinstance(exc, BaseExceptionGroup) else exc.__cause__:
        exc = inner
    words = (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__
    return " ".join(words.split())
