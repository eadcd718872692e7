"""Operations on the ledger and its archive: verify them, archive old days, and export rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import trio

from billing.archive.archiver import Archived, Archiver, ArchiveTaken
from billing.archive.export import ExportMoved, export_page
from billing.archive.files import ArchiveBroken
from billing.archive.verification import next_day, verify_chain, verify_day
from billing.ledger.rules import Violation
from billing.ledger.verification import prove
from gateway.admin.operations import Nothing, Operation, OperationId, OperationRefused, Operations
from storage.store import Store

STEP_S: Final = 10.0
"""Time limit for one `ledger.archive` operation. Callers repeat the operation until nothing is left to archive."""
ROWS_A_PAGE: Final = 1_000

Day = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class ProofName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `ledger.verify` and `ledger.progress`. `proof` is the name under which progress is reported."""

    proof: OperationId | None = None


class ArchiveDay(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `archive.verify`.

    `after` is the day that was verified last, and is omitted at first. `proof` is the name under which progress is
    reported.
    """

    after: Day | None = None
    proof: OperationId | None = None


class ExportArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `ledger.export`.

    Days are counted from 1970-01-01, which is day 0. `after` is `next` of the previous page, and empty for the first
    page.
    """

    first_day: Day
    last_day: Day
    after: str = ""


class LedgerOperations:
    """Verifies, archives and exports a store's ledger. `archiver` is None if no archive is configured."""

    def __init__(self, store: Store, archiver: Archiver | None, *, now: Callable[[], float]) -> None:
        self._store = store
        self._archiver = archiver
        self._now = now
        self._proved_rows: dict[str, int] = {}

    def add_to(self, operations: Operations) -> None:
        """Register the operations."""
        operations.add("ledger.verify", Operation(ProofName, self._prove))
        operations.add("ledger.progress", Operation(ProofName, self._progress))
        operations.add("ledger.archive", Operation(Nothing, self._archive))
        operations.add("archive.verify", Operation(ArchiveDay, self._verify))
        operations.add("ledger.export", Operation(ExportArguments, self._export))

    async def _prove(self, args: ProofName) -> dict[str, Any]:
        """Verify the whole ledger, without a time limit, and return all violations.

        `ledger.progress` reports the progress meanwhile.
        """
        with self._progress_of(args.proof) as progress:
            found = await prove(self._store.read, progress=progress)
        return {"ok": not found, "violations": [asdict(one) for one in found]}

    async def _progress(self, args: ProofName) -> dict[str, int | None]:
        """Return how many rows have been verified under this name; None if no such verification is running."""
        await trio.lowlevel.checkpoint()
        return {"rows": self._proved_rows.get(args.proof or "")}

    async def _archive(self, _args: Nothing) -> dict[str, Any]:
        run = self._configured_archiver().run(self._now(), until=trio.current_time() + STEP_S)
        archived: Archived = await _result_or_refused(run)
        return archived._asdict()

    async def _verify(self, args: ArchiveDay) -> dict[str, Any]:
        """Verify the first archived day after `after`, and return its violations.

        `next` is the verified day, or None if there was none left. The first call, without `after`, also verifies the
        chain of all files.
        """
        folder, found = self._configured_archiver().folder, list[Violation]()
        if args.after is None:
            found += await self._store.read(partial(verify_chain, folder=folder))
        day = await self._store.read(partial(next_day, after=-1 if args.after is None else args.after))
        if day is not None:
            with self._progress_of(args.proof) as progress:
                found += await self._store.read(partial(verify_day, folder=folder, day=day, progress=progress))
        return {"violations": [asdict(one) for one in found], "next": day}

    async def _export(self, args: ExportArguments) -> dict[str, Any]:
        page = partial(
            export_page,
            folder=None if self._archiver is None else self._archiver.folder,
            days=range(args.first_day, args.last_day + 1),
            after=args.after,
            limit=ROWS_A_PAGE,
        )
        rows, following = await _result_or_refused(self._store.read(page))
        return {"rows": [msgspec.to_builtins(row) for row in rows], "next": following}

    @contextmanager
    def _progress_of(self, proof: str | None) -> Iterator[Callable[[int], None]]:
        """Yield a function that stores the number of rows which a verification has checked so far."""
        name = proof or ""
        try:
            yield partial(self._proved_rows.__setitem__, name)
        finally:
            self._proved_rows.pop(name, None)

    def _configured_archiver(self) -> Archiver:
        if self._archiver is None:
            raise OperationRefused("no archive is configured; set ledger.archive to its folder")
        return self._archiver


async def _result_or_refused(done: Awaitable[Any]) -> Any:
    """Return the awaited result. Raises OperationRefused for errors that an operator can fix."""
    try:
        return await done
    except (ArchiveBroken, ArchiveTaken, ExportMoved, OSError, ValueError) as exc:
        raise OperationRefused(_message_of(exc)) from exc


def _message_of(exc: Exception) -> str:
    return f"{exc.filename} is not usable: {exc.strerror}" if isinstance(exc, OSError) and exc.filename else str(exc)
