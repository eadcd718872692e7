"""The operations on cohorts: create, add members, read and delete (spec 4.6, decisions 20)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from billing.errors import SealBroken
from scheduler.errors import CohortIdentityConflict, CohortLimitReached, CohortMembersLimitReached, JobInvalid
from scheduler.jobs.cohorts import cohort_rows
from scheduler.jobs.cohorts.cohort_rows import CohortRecord
from scheduler.jobs.cohorts.removal import destroy, scrub
from scheduler.jobs.cohorts.sealing import CohortKey, make_key, open_key
from scheduler.jobs.cohorts.setting import CohortSetting
from scheduler.jobs.cohorts.spec import (
    COHORTS_MAX,
    MEMBERS_AT_ONCE,
    MEMBERS_MAX,
    CohortBody,
    MembersBody,
    SealedMember,
    check_cohort,
    sealed_members,
    sent_member,
)
from storage.store import Tx, Write

READ_AT_ONCE: Final = 50
"""How many members are validated between two checkpoints."""


class Cohort(NamedTuple):
    """A cohort with its decrypted name. The name is None if there is none, or if it was sealed with another secret."""

    record: CohortRecord
    name: str | None


class MembersChange(NamedTuple):
    """The numbers of added, changed and unchanged members, and the new total."""

    inserted: int
    updated: int
    unchanged: int
    member_count: int


class CohortService:
    """Cohorts. Every method takes an account id, and treats cohorts of other accounts as unknown."""

    def __init__(self, setting: CohortSetting) -> None:
        self._store = setting.store
        self._charges = setting.charges
        self._cipher = setting.cipher
        self._recipes = setting.recipes
        self._routes = setting.routes
        self._now = setting.now
        self._make_id = setting.make_id

    async def create(self, account_id: str, sent: CohortBody, *, write: Write | None = None) -> str:
        """Create a cohort with its own key, and return its id.

        Raises:
            JobInvalid, CohortLimitReached: nothing was created.
        """
        check_cohort(sent)
        cohort_id, now = self._make_id("coh_"), self._now()
        key, kept = make_key(self._cipher, cohort_id)
        name = None if sent.name is None else key.seal(sent.name.encode(), _name_of(cohort_id))
        expires_at = now + sent.retention_days * 86_400.0
        record = CohortRecord(cohort_id, account_id, name, sent.retention_days, 0, now, now, expires_at)

        def add(tx: Tx) -> str:
            tx.lock([f"cohorts of {account_id}"])
            if cohort_rows.count_cohorts(tx, account_id, now) >= COHORTS_MAX:
                raise CohortLimitReached(COHORTS_MAX)
            cohort_rows.add_cohort(tx, record, kept)
            return cohort_id

        return await (write or self._store.write)(add)

    async def get(self, account_id: str, cohort_id: str) -> Cohort:
        """Return one cohort.

        Raises:
            CohortUnknown: the account has no such cohort.
        """
        record, kept = await self._store.read(partial(self._read, account_id=account_id, cohort_id=cohort_id))
        return self._named(record, kept)

    async def list(self, account_id: str) -> list[Cohort]:
        """Return all cohorts of the account, newest first."""

        def read(tx: Tx) -> list[tuple[CohortRecord, bytes | None]]:
            found = cohort_rows.cohorts_of(tx, account_id, self._now(), COHORTS_MAX)
            keys = cohort_rows.read_keys(tx, [record.id for record in found])
            return [(record, keys.get(record.id)) for record in found]

        return [self._named(record, kept) for record, kept in await self._store.read(read)]

    def _named(self, record: CohortRecord, kept: bytes | None) -> Cohort:
        if record.name is None or kept is None:
            return Cohort(record, None)
        try:
            name = open_key(self._cipher, record.id, kept).unseal(record.name, _name_of(record.id))
        except SealBroken:
            return Cohort(record, None)
        return Cohort(record, name.decode())

    async def open(self, account_id: str, cohort_id: str) -> CohortKey:
        """Return the key of a cohort.

        Raises:
            CohortUnknown: the account has no such cohort.
            SealBroken: the cohort was sealed with another secret.
        """
        _, kept = await self._store.read(partial(self._read, account_id=account_id, cohort_id=cohort_id))
        return open_key(self._cipher, cohort_id, kept or b"")

    def _read(self, tx: Tx, account_id: str, cohort_id: str) -> tuple[CohortRecord, bytes | None]:
        record = cohort_rows.owned(tx, account_id, cohort_id, self._now())
        return record, cohort_rows.read_key(tx, cohort_id)

    async def delete(self, account_id: str, cohort_id: str) -> None:
        """Destroy a cohort's key, which makes all data sealed with it unreadable.

        Running queries are cancelled, and the pages read so far are charged.

        Raises:
            CohortUnknown: the account has no such cohort.
        """

        def forget(tx: Tx) -> None:
            cohort_rows.owned(tx, account_id, cohort_id, self._now())
            destroy(tx, self._charges, account_id, cohort_id, self._now(), gone="deleted")

        await self._store.write(forget)
        await scrub(self._store)

    async def put_members(
        self, account_id: str, cohort_id: str, sent: MembersBody, *, write: Write | None = None
    ) -> MembersChange:
        """Add members, and set the external ids of existing members that have none.

        Either all members are saved or none.

        Raises:
            CohortUnknown, JobInvalid, CohortPlatformUnsupported, CohortIdentityConflict, CohortMembersLimitReached:
                nothing was changed.
            SealBroken: the cohort was sealed with another secret.
        """
        key = await self.open(account_id, cohort_id)
        if not 1 <= len(sent.members) <= MEMBERS_AT_ONCE:
            how = "Send them in several requests."
            raise JobInvalid("members", f"must contain 1 to {MEMBERS_AT_ONCE:,} members", how)
        members = []
        for place, one in enumerate(sent.members):
            if place % READ_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            members.append(sent_member(place, one, self._routes, self._recipes))
        sealed = await trio.to_thread.run_sync(sealed_members, key, cohort_id, members)
        change = partial(self._change, account_id=account_id, cohort_id=cohort_id, sealed=sealed, sent=len(members))
        return await (write or self._store.write)(change)

    def _change(
        self, tx: Tx, *, account_id: str, cohort_id: str, sealed: Sequence[SealedMember], sent: int
    ) -> MembersChange:
        now = self._now()
        cohort = cohort_rows.owned(tx, account_id, cohort_id, now, locked=True)
        known = cohort_rows.known_members(tx, [one.identity for _, *both in sealed for one in both])
        new, named = [], []
        for param, kept, plain in sealed:
            one = plain if plain.identity in known else kept
            external = known.get(one.identity)
            if one.identity not in known:
                new.append(one)
            elif external is None and one.external is not None:
                named.append(one)
            elif one.external not in (None, external):
                raise CohortIdentityConflict(param)
        total = cohort.member_count + len(new)
        if total > MEMBERS_MAX:
            raise CohortMembersLimitReached(total, MEMBERS_MAX)
        cohort_rows.add_members(tx, cohort, new, [self._make_id("mbr_") for _ in new])
        for one in named:
            cohort_rows.name_member(tx, one)
        cohort_rows.renew(tx, cohort, now, added=len(new))
        return MembersChange(len(new), len(named), sent - len(new) - len(named), total)


def _name_of(cohort_id: str) -> str:
    return f"name of {cohort_id}"
