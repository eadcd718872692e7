"""The accounts view: authors and user searches, read if they lack details, and judged by documented weights."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.api.routes.discover.shapes import changes_data
from scheduler.jobs.discover.judging import WEIGHTS, judge, judge_one
from scheduler.jobs.discover.run_rows import record_of
from scheduler.jobs.discover.service import RunPatch
from tests.scheduler.desk import Desk
from tests.scheduler.jobs.discover.net import DiscoverDesk, Net, a_post, an_account, name_of, search
from tests.scheduler.jobs.discover.test_runs import again

SEARCHES = (search("social"), search("social", "account", "author", "search/users"))


async def test_accounts_are_found_read_judged_and_dropped(desk: Desk) -> None:
    net = Net(
        {
            ("social/search", "trio"): [[a_post("p1", by="trio"), a_post("p2", by="gone"), a_post("p3", by="trio")]],
            ("social/search/users", "trio"): [[an_account("known", followers=1, bio="likes trio"), an_account("trio")]],
        },
        profiles={"trio": an_account("trio", display_name="Trio", followers=9, bio="Structured", verified=True)},
    )
    desk_ = DiscoverDesk(desk, net, SEARCHES, ("social",))
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, view="accounts")
        view = await desk_.settled(owner, job.id)
    rows = {name_of(record_of(one)): one for one in await desk_.rows(job.id)}
    assert set(rows) == {"trio", "known"}
    assert (view.job.status, view.run.rows_kept, view.run.rows_total) == ("completed", 2, 3)
    assert {name: count for name, count in net.calls.items() if name.startswith("@")} == {"@trio": 1, "@gone": 1}
    assert orjson.loads(rows["trio"].judged or "") == {
        "keyword": "trio",
        "label": "same",
        "score": 0.95,
        "reasons": ["handle_equals", "name_equals", "verified"],
    }
    assert orjson.loads(rows["known"].judged or "")["label"] == "uncertain"
    assert record_of(rows["trio"])["author"]["followers"] == 9
    assert view.job.used_credits == 3  # two pages and one account: a missing account is free
    types = [type_ for type_, _ in await desk_.events(owner.account_id)]
    assert types[-2:] == ["discover.accounts_ready", "discover.completed"]
    changes = changes_data(await desk_.service.changes(owner.account_id, job.id, 0, limit=100), 0)
    assert changes["gone"] == []  # a client that starts at version 0 never had this row
    gone = await desk.store.read(
        lambda tx: tx.one("SELECT row_id, first_version FROM discover_rows WHERE is_gone = 1 AND record IS NULL")
    )
    later = changes_data(await desk_.service.changes(owner.account_id, job.id, gone[1], limit=100), gone[1])
    assert later["gone"] == [gone[0]]


async def test_account_with_the_same_url_is_merged_into_its_row(desk: Desk) -> None:
    nameless = a_post("p1", by="renamed")
    nameless["post"]["author"]["url"] = None
    net = Net(
        {
            ("social/search", "trio"): [[nameless]],
            ("social/search/users", "trio"): [[an_account("trio", followers=1, bio="")]],
        },
        profiles={"renamed": an_account("trio", followers=2, bio="x")},
    )
    desk_ = DiscoverDesk(desk, net, SEARCHES, ("social",))
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, view="accounts")
        view = await desk_.settled(owner, job.id)
    (row,) = await desk_.rows(job.id)
    assert (view.run.rows_kept, view.run.rows_total, name_of(record_of(row))) == (1, 2, "trio")
    assert {one["endpoint"] for one in orjson.loads(row.found_in)} == {"social/search", "social/search/users"}


async def test_accounts_are_read_within_the_budget_and_the_rest_after_it_is_raised(desk: Desk) -> None:
    names = [f"n{n}" for n in range(6)]
    net = Net(
        {("social/search", "trio"): [[a_post(one, by=one) for one in names]]},
        profiles={one: an_account(one, followers=1, bio="x") for one in names},
    )
    desk_ = DiscoverDesk(desk, net, SEARCHES[:1], ("social",))
    owner = await desk_.owner()
    async with desk_.open():
        job = await desk_.begin(owner, view="accounts", max_credits=4)
        paused = await desk_.settled(owner, job.id)
        assert (paused.job.status, paused.job.used_credits) == ("paused", 4)
        labels = [orjson.loads(one.judged or "")["label"] for one in await desk_.rows(job.id)]
        assert sorted(labels) == ["different"] * 3 + ["uncertain"] * 3
        await desk_.service.change(again(owner), job.id, RunPatch("running", 50))
        ended = await desk_.settled(owner, job.id)
    assert (ended.job.status, ended.job.used_credits) == ("completed", 7)
    assert {orjson.loads(one.judged or "")["label"] for one in await desk_.rows(job.id)} == {"different"}


def account(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = an_account(fields.pop("username", ""), **fields)["author"]
    return found


@pytest.mark.parametrize(
    ("keyword", "author", "label", "score", "reasons"),
    [
        ("octocat", account(username="octocat"), "possible", 0.5, ("handle_equals",)),
        ("Octo Cat", account(username="@octo_cat@code.test"), "possible", 0.5, ("handle_equals",)),
        (
            "octocat",
            account(username="octocat", display_name="Octocat"),
            "same",
            0.85,
            ("handle_equals", "name_equals"),
        ),
        ("octocat", account(username="octocat", bio="I am octocat."), "same", 0.65, ("handle_equals", "bio_contains")),
        ("octocat", account(username="theoctocat2"), "different", 0.2, ("handle_contains",)),
        ("cat", account(username="theoctocat2"), "different", 0.0, ()),
        ("Acme", account(username="x", display_name="\uff21\uff23\uff2d\uff25"), "possible", 0.35, ("name_equals",)),
        ("acme", account(username="x", display_name="Acme News"), "different", 0.2, ("name_contains",)),
        ("acme", account(username="x", display_name="Acmecorp"), "different", 0.0, ()),
        ("acme", account(username="x", external_url="https://www.acme.co.uk/"), "possible", 0.3, ("site_equals",)),
        ("acme", account(username="x", external_url="https://[broken"), "different", 0.0, ()),
        ("acme", account(username="x", bio="We love #acme"), "different", 0.15, ("bio_contains",)),
        ("acme", account(username="x", verified=True), "different", 0.0, ()),
        ("acme", account(username="acme", verified=True), "same", 0.6, ("handle_equals", "verified")),
        (
            "acme",
            account(username="acme", display_name="Acme", external_url="https://acme.test", bio="acme", verified=True),
            "same",
            1.0,
            ("handle_equals", "name_equals", "site_equals", "bio_contains", "verified"),
        ),
        ("東京", account(username="x", display_name="東京"), "possible", 0.35, ("name_equals",)),
        ("straße", account(username="STRASSE"), "possible", 0.5, ("handle_equals",)),
    ],
)
def test_judge_applies_weights_and_labels(
    keyword: str, author: dict[str, Any], label: str, score: float, reasons: tuple[str, ...]
) -> None:
    match = judge_one(keyword, author, is_read=True)
    assert (match.label, match.score, match.reasons) == (label, score, reasons)
    if label == "different":
        assert judge_one(keyword, author, is_read=False).label == "uncertain"


def test_judge_uses_the_best_keyword() -> None:
    match = judge(["other", "octocat", "cat"], account(username="octocat"), is_read=True)
    assert (match.keyword, match.score) == ("octocat", 0.5)


def test_documentation_lists_every_weight() -> None:
    from pathlib import Path  # noqa: PLC0415 - of this test alone

    text = (Path(__file__).parents[4] / "docs" / "discover.md").read_text()
    assert [name for name, weight in WEIGHTS.items() if f"| `{name}` | {weight:.2f} |" not in text] == []
