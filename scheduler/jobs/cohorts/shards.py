"""A shard as a step of a query's job: its members are read one after another, and the findings are sealed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
import trio

from billing.errors import SealBroken
from events.instants import iso_or_none
from scheduler.jobs.cohorts import cohort_rows, query_rows
from scheduler.jobs.cohorts.cohort_rows import MemberRecord
from scheduler.jobs.cohorts.matching import Keywords, keywords_of
from scheduler.jobs.cohorts.query_rows import ShardCounts
from scheduler.jobs.cohorts.reading import MemberPosts, QueryWindow, read_member
from scheduler.jobs.cohorts.sealing import CohortKey, open_key
from scheduler.jobs.cohorts.setting import CohortSetting
from scheduler.jobs.cohorts.spec import QuerySpec, read_keywords, sealed_member_of, spec_of
from scheduler.jobs.records import JobKind, JobRecord, JobStep, Outcome, StepStatus
from scheduler.recipes import RecipeInvalid
from storage.store import Tx

KEY_GONE: Final = "KEY_GONE"
"""The error of a shard whose cohort was destroyed in the meantime, or sealed with another secret."""

NOTHING: Final = ShardCounts(0, 0, 0, 0, 0)


class ShardFindings(NamedTuple):
    """The sealed findings of a shard, and their counts."""

    sealed: bytes
    counts: ShardCounts


class _Shard(NamedTuple):
    account_id: str
    key: CohortKey
    keywords: Keywords
    members: Sequence[MemberRecord]


class CohortShards(JobKind):
    """The job kind of cohort queries."""

    at_once = 4
    is_private = True

    def __init__(self, setting: CohortSetting) -> None:
        self._store = setting.store
        self._cipher = setting.cipher
        self._recipes = setting.recipes
        self._routes = setting.routes
        self._now = setting.now

    async def perform(self, job: JobRecord, step: JobStep) -> Outcome:
        """Read the members of a shard."""
        spec = spec_of(job.spec)
        shard = await self._open(job.account_id, spec, step)
        if shard is None:
            return Outcome("failed", error=KEY_GONE)
        rows, counts, used, failed = [], NOTHING, 0, 0
        for member in shard.members:
            row, found = await self._read(spec, shard, member)
            rows.append(row)
            used += found.pages_used * spec.prices.get(member.platform, 0)
            failed += found.status == "failed"
            counts = _counted(counts, found)
        body = await trio.to_thread.run_sync(_packed, rows)
        sealed = shard.key.seal(body, results_of(job.id, step.number))
        status: StepStatus = "done" if counts.pages_succeeded else "failed" if failed else "empty"
        return Outcome(status, credits_used=used, kept_value=ShardFindings(sealed, counts))

    def keep(self, tx: Tx, job: JobRecord, step: JobStep, outcome: Outcome, *, at: float) -> None:  # noqa: ARG002
        """Store the findings of the shard."""
        if outcome.kept_value is not None:
            query_rows.add_results(tx, job.id, step.number, *outcome.kept_value)

    async def _open(self, account_id: str, spec: QuerySpec, step: JobStep) -> _Shard | None:
        first, last = map(int, step.name.split("-"))

        def read(tx: Tx) -> tuple[bytes | None, list[MemberRecord]]:
            members = cohort_rows.members_between(tx, spec.cohort_id, first, last)
            return cohort_rows.read_key(tx, spec.cohort_id), members

        kept, members = await self._store.read(read)
        if kept is None:
            return None
        try:
            key = open_key(self._cipher, spec.cohort_id, kept)
            keywords = await trio.to_thread.run_sync(keywords_of, read_keywords(key, spec))
        except SealBroken:
            return None
        chosen = [one for one in members if not spec.platforms or one.platform in spec.platforms]
        return _Shard(account_id, key, keywords, chosen)

    async def _read(self, spec: QuerySpec, shard: _Shard, member: MemberRecord) -> tuple[dict[str, Any], MemberPosts]:
        sealed_for = sealed_member_of(spec.cohort_id, bytes(member.identity))
        told = orjson.loads(shard.key.unseal(bytes(member.sealed), sealed_for))
        found = await self._posts(spec, shard, member.platform, told["handle"])
        route = self._routes.get(member.platform)
        endpoint = member.platform if route is None else route.endpoint
        return _row(member, told["external_id"], endpoint, found), found

    async def _posts(self, spec: QuerySpec, shard: _Shard, platform: str, handle: str) -> MemberPosts:
        route = self._routes.get(platform)
        if route is None or not route.is_available or platform not in spec.prices:
            return MemberPosts("unsupported")
        try:
            recipe = route.recipe(self._recipes, handle)
        except RecipeInvalid:
            return MemberPosts("not_found", error="INVALID_REQUEST")
        window = QueryWindow(spec.date_from, spec.date_to, spec.max_items, spec.max_pages)
        page = partial(self._recipes.page, recipe, account_id=shard.account_id)
        return await read_member(page, shard.keywords, window, now=self._now)


def results_of(query_id: str, number: int) -> str:
    """Return the context that a shard's results are bound to when they are sealed."""
    return f"shard {number} of {query_id}"


def _row(member: MemberRecord, external_id: str | None, endpoint: str, found: MemberPosts) -> dict[str, Any]:
    """Return a member with its findings, in the form that a shard stores."""
    return {
        "member_id": member.id,
        "external_id": external_id,
        "platform": member.platform,
        "route": endpoint,
        "status": found.status,
        "window_complete": found.window_complete,
        "oldest_seen": iso_or_none(found.oldest_at),
        "pages": found.pages,
        "error": found.error,
        "items": [one._asdict() for one in found.matches],
    }


def _counted(counts: ShardCounts, found: MemberPosts) -> ShardCounts:
    return ShardCounts(
        counts.members + 1,
        counts.routes + (found.status != "unsupported"),
        counts.pages_succeeded + found.pages,
        counts.pages_failed + (found.error is not None and found.status != "not_found"),
        counts.matches + len(found.matches),
    )


def _packed(rows: list[dict[str, Any]]) -> bytes:
    return zlib.compress(orjson.dumps(rows))
