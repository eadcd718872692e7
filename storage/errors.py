"""Errors that the store raises. Each message says what the operator can do."""


class StorageError(Exception):
    """Base class of all errors of the store."""


class StoreUnavailable(StorageError):
    """The database cannot be read or written now: disk full, I/O error, closed, or a failed commit."""


class StoreContended(StoreUnavailable):
    """Another transaction held a lock, or the connection was lost before the commit. Nothing was changed."""


class CommitUnknown(StoreUnavailable):
    """The connection was lost during the commit, so the call may have taken effect (see `Tx.on_doubt`)."""


class StoreBusy(StoreUnavailable):
    """The writer's queue is full. No part of this call took effect."""


class HandlerFailed(StorageError):
    """A batch handler raised an exception, so none of its requests took effect. `__cause__` is the bug."""


class ConstraintViolated(StorageError):
    """The rows violate a constraint of the schema. No part of this call took effect."""


class PartitionRefused(StorageError):
    """A partition was not created, because too many of its rows had arrived before. They stay where they are."""


class StoreUnusable(StorageError):
    """The address, folder or file cannot be used for a store. The operator must fix the cause."""


class StoreInUse(StoreUnusable):
    """Another process owns the store."""


class StoreCorrupt(StoreUnusable):
    """The database file is damaged."""


class StoreTooNew(StoreUnusable):
    """A newer version of the program has migrated the database."""


class StateUnavailable(StorageError):
    """Redis is unavailable. `happened` is False if the call changed nothing, and None if this is unknown."""

    def __init__(self, why: str, *, happened: bool | None = False) -> None:
        super().__init__(why)
        self.happened = happened


def reason_of(exc: BaseException) -> str:
    """Return the reason for a failed connection, which is the innermost exception's message, on one line."""
    while inner := exc.exceptions[0] if isinstance(exc, BaseExceptionGroup) else exc.__cause__:
        exc = inner
    words = (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__
    return " ".join(words.split())
