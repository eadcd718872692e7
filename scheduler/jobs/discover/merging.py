"""How pages and accounts change the rows of a run: rows are unique, and every change has a version. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from scheduler.jobs.discover.judging import judge
from scheduler.jobs.discover.records import DiscoverRecord, DiscoverRow, Sighting
from scheduler.jobs.discover.run_rows import packed

if TYPE_CHECKING:
    from scheduler.jobs.discover.drafts import RowDraft


@dataclass(slots=True)
class Merge:
    """A run, and the rows that one transaction changes in it. Only the methods of this class change them."""

    run: DiscoverRecord
    """The run as it was before the transaction."""
    rows: dict[str, DiscoverRow] = field(default_factory=dict)
    """The changed rows by id."""
    is_cut: bool = False
    """Whether a row was left out or a search was skipped."""
    has_rest: bool = False
    """Whether rows of the page wait for their leg's next turn."""
    _changes: int = 0
    _added: int = 0
    _dropped: int = 0
    _new: int = 0
    _ended: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether the run accepts no more rows."""
        return self.run.rows_kept + self._added - self._dropped >= self.run.max_rows

    def merged(self) -> DiscoverRecord:
        """Return the run with the changes so far."""
        run, ended = self.run, self._ended
        return replace(
            run,
            version=run.version + self._changes,
            rows_total=run.rows_total + self._added,
            rows_kept=run.rows_kept + self._added - self._dropped,
            rows_new=run.rows_new + self._new,
            is_cut=int(run.is_cut or self.is_cut),
            **({} if ended is None else {ended: getattr(run, ended) + 1}),
        )

    def end_page(self, leg_status: str) -> None:
        """Count a finished page, and also its leg if this page was the leg's last."""
        self._changes += 1
        self._ended = None if leg_status == "pending" else f"legs_{leg_status}"

    def take(
        self, drafts: Sequence[RowDraft], known: Iterable[DiscoverRow], place: Sighting, *, share: int, at: float
    ) -> tuple[list[DiscoverRow], Sequence[RowDraft]]:
        """Add the rows of a page until `share` new rows were added.

        `place` describes the page; ranks come from the drafts. Return the rows that are new in the run, and the drafts
        that were not examined.
        """
        rows, added = list(known), list[DiscoverRow]()
        by_key, by_id = {one.key: one for one in rows if not one.is_gone}, {one.row_id: one for one in rows}
        for place_, draft in enumerate(drafts):
            sighting = place._replace(rank=draft.rank)
            row = by_key.get(draft.key) or by_id.get(draft.row_id)
            if row is not None:
                if not row.is_gone:
                    self._add_sightings(row, [sighting])
            elif self.is_full:
                self.is_cut = True
            elif len(added) == share:
                return added, drafts[place_:]
            else:
                added.append(self._add(draft, sighting, at=at))
        return added, ()

    def _add(self, draft: RowDraft, sighting: Sighting, *, at: float) -> DiscoverRow:
        run, version = self.run, self._next_version()
        self._added += 1
        row = DiscoverRow(
            run_id=run.run_id,
            number=run.rows_total + self._added,
            row_id=draft.row_id,
            key=draft.key,
            kind=draft.kind,
            platform=sighting.platform,
            endpoint=sighting.endpoint,
            found_in=orjson.dumps([sighting._asdict()]).decode(),
            record=draft.packed,
            judged=_judged_json([sighting], draft.record, is_read=False) if run.view == "accounts" else None,
            is_new=None,
            first_seen_at=at,
            first_version=version,
            version=version,
        )
        self.rows[row.row_id] = row
        return row

    def mark(self, new: Iterable[str], added: Iterable[DiscoverRow]) -> None:
        """Record which of the added rows no earlier occurrence has found."""
        found = set(new)
        for row in added:
            self.rows[row.row_id] = replace(self.rows[row.row_id], is_new=int(row.row_id in found))
        self._new += len(found)

    def enrich(self, row: DiscoverRow, key: str, record: Mapping[str, Any], other: DiscoverRow | None) -> None:
        """Merge an account's own page into its row. `other` is the row that already has its URL, if any."""
        if other is not None and other.row_id != row.row_id:
            self._add_sightings(other, sightings_of(row))
            self.drop(row)
            return
        judged = _judged_json(sightings_of(row), record, is_read=True)
        self._change(replace(row, key=key, record=packed(record), judged=judged))

    def drop(self, row: DiscoverRow) -> None:
        """Drop a row, because the account does not exist or is the same as another row."""
        self._change(replace(row, record=None, is_gone=1))
        self._dropped += 1
        self._new -= int(row.is_new or 0)

    def _add_sightings(self, row: DiscoverRow, more: Sequence[Sighting]) -> None:
        """Add sightings to a row. For each search and keyword, keep the best rank."""
        before = sightings_of(self.rows.get(row.row_id, row))
        found = {(one.endpoint, one.keyword): one for one in before}
        for one in more:
            kept = found.get((one.endpoint, one.keyword))
            if kept is None or one.rank < kept.rank:
                found[one.endpoint, one.keyword] = one
        listed = list(found.values())
        if listed != before:
            found_json = orjson.dumps([one._asdict() for one in listed]).decode()
            self._change(replace(self.rows.get(row.row_id, row), found_in=found_json))

    def _change(self, row: DiscoverRow) -> None:
        self.rows[row.row_id] = replace(row, version=self._next_version())

    def _next_version(self) -> int:
        self._changes += 1
        return self.run.version + self._changes


def sightings_of(row: DiscoverRow) -> list[Sighting]:
    """Return the sightings of a row: the searches and keywords that found it."""
    return [Sighting(**one) for one in orjson.loads(row.found_in)]


def _judged_json(found: Iterable[Sighting], record: Mapping[str, Any], *, is_read: bool) -> str:
    keywords = dict.fromkeys(one.keyword for one in found)
    return orjson.dumps(judge(keywords, record["author"], is_read=is_read)._asdict()).decode()
