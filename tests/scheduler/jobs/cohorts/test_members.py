"""Members that were stored before URLs were accepted as handles are still found, updated and read."""

from __future__ import annotations

import pytest

from scheduler.errors import CohortIdentityConflict
from scheduler.jobs.cohorts.service import MembersChange
from scheduler.jobs.cohorts.spec import MemberBody, MembersBody
from scheduler.recipes import Recipe
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.cohorts.panel import Accounts, CohortDesk
from tests.scheduler.jobs.cohorts.test_cohort_queries import newest, told


class Addressed(Accounts):
    """Accounts that can also be named by their URL."""

    def read(self, recipe: str, params: object, *, rows: int | None = None) -> Recipe:
        assert isinstance(params, dict)
        params = {**params, "handle": params["handle"].removeprefix("posts.test/")}
        return super().read(recipe, params, rows=rows)


async def test_member_stored_under_its_url_is_found_updated_and_read(desk: Desk) -> None:
    before, panel = CohortDesk(desk, Accounts({})), CohortDesk(desk, Addressed({"ada": newest(2), "bob": newest(3)}))
    owner = await before.owner()
    cohort = await before.cohort(owner)

    async def put(panel: CohortDesk, handle: str, external_id: str | None) -> MembersChange:
        sent = MembersBody([MemberBody("bluesky", handle, external_id)])
        return await panel.cohorts.put_members(owner.account_id, cohort, sent)

    assert (await put(before, "posts.test/ada", None)).inserted == 1
    assert (await put(before, "posts.test/bob", "b")).inserted == 1
    assert await put(panel, "Posts.test/ada", None) == (0, 0, 1, 2)
    assert await put(panel, "posts.test/ada", "a") == (0, 1, 0, 2)
    assert await put(panel, "posts.test/bob", "b") == (0, 0, 1, 2)
    with pytest.raises(CohortIdentityConflict):
        await put(panel, "posts.test/bob", "other")
    query = await panel.begin(owner, cohort)
    async with panel.open():
        await panel.ended(owner, query)
    items, coverage = await panel.results(owner, query)
    assert told(coverage, "external_id", "status") == [("a", "complete"), ("b", "complete")]
    assert len(items) == 5
    await desk.assert_sound(owner.account_id)


async def test_account_already_stored_as_two_members_keeps_both_external_ids(desk: Desk) -> None:
    before, panel = CohortDesk(desk, Accounts({})), CohortDesk(desk, Addressed({}))
    owner = await before.owner()
    cohort = await before.cohort(owner, "ada", "posts.test/ada")
    for handle in ("ada", "posts.test/ada"):
        sent = MembersBody([MemberBody("bluesky", handle, f"external of {handle}")])
        assert await panel.cohorts.put_members(owner.account_id, cohort, sent) == (0, 0, 1, 2)
