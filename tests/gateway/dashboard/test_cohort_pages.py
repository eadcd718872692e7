"""The pages of cohorts: counts, queries with coverage and results, cancelling, and deletion with the key."""

from __future__ import annotations

import orjson
import pytest
import trio

from tests.fakes.node import OpenNode
from tests.fakes.panel import Panel
from tests.gateway.api.routes.test_cohorts import ADA, BOB, QUERY, ask, ended, make, results_of
from tests.gateway.dashboard.owner import PASSWORD, Owner
from tests.gateway.dashboard.test_keys import stale

NODE = {"breaker": {"failures": 10_000}, "upstreams": {"defaults": {"retries": 0}}}


def panel(takes_s: float = 0.0) -> Panel:
    return Panel({"ada.test": ADA, "bob.test": BOB}, broken=frozenset(("down.test",)), takes_s=takes_s)


@pytest.fixture
async def owner(owner: Owner) -> Owner:
    """An owner whose upstream has the members of the panel."""
    owner.node.upstream.script = panel()
    return owner


async def new_query(node: OpenNode, cohort: str) -> str:
    status, begun = await ask(node, "POST", f"/v1/cohorts/{cohort}/queries", QUERY)
    assert status == 202, begun
    return str(begun["data"]["query_id"])


async def test_cohort_page_shows_member_count_and_queries(owner: Owner) -> None:
    node = owner.node
    await owner.get("/cohorts")
    assert "No cohorts yet" in owner.words
    cohort = await make(node, "ada.test", "bob.test", "gone.test", "down.test", name="Panel <b>")
    await owner.get(f"/cohorts/{cohort}")
    assert "No queries yet" in owner.words
    query = await new_query(node, cohort)
    await ended(node, query)
    await owner.get("/cohorts")
    assert "Panel <b>" in owner.words
    page = await owner.get(f"/cohorts/{cohort}")
    assert "Members 4" in owner.words
    assert "succeeded" in owner.words
    assert "refresh" not in page.headers
    path = f"/cohorts/queries/{query}"
    await owner.get(path)
    for words in ("Acme is here", "id-ada.test", "not found", "failed", "UPSTREAM", "Used 4", "complete"):
        assert words in owner.words, (words, owner.words)
    items, coverage = await results_of(node, query)
    lines = [orjson.loads(one) for one in (await owner.get(f"{path}/results.jsonl")).text.splitlines()]
    assert sorted(map(orjson.dumps, lines)) == sorted(map(orjson.dumps, [*items, *coverage]))
    for nonsense in ("1", "a-b", "999999999-0", "-1-0"):
        assert (await owner.get(f"{path}?from={nonsense}")).status_code == 200


async def test_query_results_are_paginated(owner: Owner) -> None:
    many = [(f"acme {n}", at) for n, (_, at) in enumerate(BOB)]
    owner.node.upstream.script = Panel({f"m{n}.test": many for n in range(3)})
    cohort = await make(owner.node, "m0.test", "m1.test", "m2.test")
    query = await new_query(owner.node, cohort)
    await ended(owner.node, query)
    items, _ = await results_of(owner.node, query)
    place, shown = f"/cohorts/queries/{query}", 0
    while place:
        page = await owner.get(place)
        shown += page.text.count('<li class="thing">')
        place = (
            page.text.partition('">More results')[0].rpartition('href="/dashboard')[2]
            if "More results" in page.text
            else ""
        )
    assert shown == len(items) == 75


async def test_page_of_running_query_refreshes_and_cancels_it(owner: Owner) -> None:
    owner.node.upstream.script = panel(takes_s=20.0)
    cohort = await make(owner.node, "ada.test")
    path = f"/cohorts/queries/{await new_query(owner.node, cohort)}"
    for place in (path, f"/cohorts/{cohort}"):
        assert (await owner.get(place)).headers["refresh"] == f"5;url=/dashboard{place}"
    await owner.get(path)
    await owner.send(f"{path}/cancel")
    assert "Cancel this query?" in owner.words
    page = await owner.follow(await owner.send(f"{path}/cancel", sure="yes"))
    assert "The query was cancelled" in owner.words
    assert "refresh" not in page.headers
    assert (await owner.get(f"{path}/results.jsonl")).status_code == 404
    await owner.get(f"/cohorts/{cohort}")
    assert (await owner.send(f"{path}/cancel", sure="yes")).status_code == 400
    assert "The query is cancelled." in owner.words


async def test_cohort_deletion_requires_the_password_and_leaves_no_data(owner: Owner) -> None:
    cohort = await make(owner.node, "ada.test", name="Panel")
    query = await new_query(owner.node, cohort)
    await ended(owner.node, query)
    path = f"/cohorts/{cohort}"
    await stale(owner)
    await owner.get(path)
    asked = await owner.send(f"{path}/delete", sure="yes")
    assert asked.headers["location"] == f"/dashboard/confirm?next=%2Fdashboard%2Fcohorts%2F{cohort}"
    await owner.follow(asked)
    await owner.follow(await owner.send("/confirm", password=PASSWORD, next=f"/dashboard{path}"))
    await owner.send(f"{path}/delete")
    assert "is destroyed immediately" in owner.words
    with trio.fail_after(30):
        await owner.follow(await owner.send(f"{path}/delete", sure="yes"))
    assert "can no longer be decrypted" in owner.words
    assert "No cohorts yet" in owner.words
    for gone in (path, f"/cohorts/queries/{query}", f"/cohorts/queries/{query}/results.jsonl"):
        assert (await owner.get(gone)).status_code == 404
    keys = await owner.node.node.stores.store.read(lambda tx: tx.all("SELECT cohort_id FROM cohort_keys"))
    assert (cohort,) not in keys
