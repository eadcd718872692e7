"""The operations on the ledger and its archive: prove them, archive what is old enough, and read it back."""

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
"""The longest that one operation archives; whoever wants more asks again."""
ROWS_A_PAGE: Final = 1_000

Day = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class ProofName(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `ledger.verify` and `ledger.progress`: by which name one hears how far a proof has come."""

    proof: OperationId | None = None


class ArchiveDay(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `archive.verify`: the day that was proved last, none at first, and as those of `ledger.verify`."""

    after: Day | None = None
    proof: OperationId | None = None


class ExportArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `ledger.export`: days since 1970, both included, and where the page begins."""

    first_day: Day
    last_day: Day
    after: str = ""


class LedgerOperations:
    """The operations over a store's ledger and archive; `archiver` is None where no folder is named."""

    def __init__(self, store: Store, archiver: Archiver | None, *, now: Callable[[], float]) -> None:
        self._store = store
        self._archiver = archiver
        self._now = now
        self._proved_rows: dict[str, int] = {}

    def add_to(self, operations: Operations) -> None:
        """Offer them."""
        operations.add("ledger.verify", Operation(ProofName, self._prove))
        operations.add("ledger.progress", Operation(ProofName, self._progress))
        operations.add("ledger.archive", Operation(Nothing, self._archive))
        operations.add("archive.verify", Operation(ArchiveDay, self._verify))
        operations.add("ledger.export", Operation(ExportArguments, self._export))

    async def _prove(self, args: ProofName) -> dict[str, Any]:
        """Every violation of the ledger, however long that takes; meanwhile `ledger.progress` tells of it."""
        with self._progress_of(args.proof) as progress:
            found = await prove(self._store.read, progress=progress)
        return {"ok": not found, "violations": [asdict(one) for one in found]}

    async def _progress(self, args: ProofName) -> dict[str, int | None]:
        """How many rows the proof of this name has added up; None where there is none under way."""
        await trio.lowlevel.checkpoint()
        return {"rows": self._proved_rows.get(args.proof or "")}

    async def _archive(self, _args: Nothing) -> dict[str, Any]:
        run = self._named().run(self._now(), until=trio.current_time() + STEP_S)
        archived: Archived = await _refusing(run)
        return archived._asdict()

    async def _verify(self, args: ArchiveDay) -> dict[str, Any]:
        """The violations of the chain, or of the next day behind `after`, which is None once there is none."""
        folder, found = self._named().folder, list[Violation]()
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
        rows, following = await _refusing(self._store.read(page))
        return {"rows": [msgspec.to_builtins(row) for row in rows], "next": following}

    @contextmanager
    def _progress_of(self, proof: str | None) -> Iterator[Callable[[int], None]]:
        """Takes the rows that a proof has come to, for as long as it goes on."""
        name = proof or ""
        try:
            yield partial(self._proved_rows.__setitem__, name)
        finally:
            self._proved_rows.pop(name, None)

    def _named(self) -> Archiver:
        if self._archiver is None:
            raise OperationRefused("no archive is configured: name its folder as ledger.archive")
        return self._archiver


async def _refusing(done: Awaitable[Any]) -> Any:
    """Its result; raises OperationRefused for what an operator can mend."""
    try:
        return await done
    except (ArchiveBroken, ArchiveTaken, ExportMoved, OSError, ValueError) as exc:
        raise OperationRefused(_words_of(exc)) from exc


def _words_of(exc: Exception) -> str:
    return f"{exc.filename} cannot be used: {exc.strerror}" if isinstance(exc, OSError) and exc.filename else str(exc)
