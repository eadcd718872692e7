"""The pages of Discover: runs that pause, resume and end, their rows and files, and schedules."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import orjson
import trio

from scheduler.jobs.discover.schedules import schedule_rows
from scheduler.jobs.discover.schedules.records import Occurrence
from tests.fakes.node import OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.api.routes.asking import ask
from tests.gateway.api.routes.discover.algolia import Algolia, story
from tests.gateway.dashboard.owner import PASSWORD, Owner, open_owner
from tests.gateway.dashboard.test_keys import stale
from tests.gateway.dashboard.test_webhook_pages import shown_until

RUNS = "/v1/prism/discover/runs"
SCHEDULES = "/v1/prism/discover/schedules"
BODY: dict[str, Any] = {"keywords": ["trio"], "platforms": ["hackernews"], "max_credits": 20}


async def new_run(node: OpenNode, **more: Any) -> str:
    status, begun = await ask(node, "POST", RUNS, {**BODY, **more})
    assert status in (200, 202), begun
    return str(begun["data"]["run_id"])


async def new_schedule(node: OpenNode, **more: Any) -> str:
    status, made = await ask(node, "POST", SCHEDULES, {"run": BODY, "cadence": "daily", "name": "mentions", **more})
    assert status == 201, made
    return str(made["data"]["schedule_id"])


async def test_run_page_shows_credits_and_rows_and_downloads_contain_all_rows(owner: Owner) -> None:
    owner.node.upstream.script = Algolia({"trio": range(60)}).answer
    await owner.get("/discover")
    assert "No runs yet" in owner.words
    path = f"/discover/runs/{await new_run(owner.node)}"
    page = await owner.get("/discover")
    assert "1 of 1 search; 60 rows; 2 of 20 credits used." in owner.words
    assert "refresh" not in page.headers
    page = await owner.get(path)
    for words in ("Maximum cost 20", "Reserved 20", "Used 2", "Refunded 18", "hackernews/search"):
        assert words in owner.words, words
    titles = re.findall(r"The story number (\d+)", owner.words)
    while more := re.search(r'href="/dashboard([^"]+)">More rows', page.text):
        page = await owner.get(more[1].replace("&amp;", "&"))
        titles += re.findall(r"The story number (\d+)", owner.words)
    assert sorted(map(int, set(titles))) == list(range(60))
    lines = (await owner.get(f"{path}/rows.jsonl")).text.splitlines()
    from_api = (await owner.node.get(f"{RUNS}/{path.rpartition('/')[2]}/results.jsonl")).body.splitlines()
    assert [orjson.loads(one) for one in lines] == [orjson.loads(one) for one in from_api]
    table = await owner.get(f"{path}/rows.csv")
    assert table.headers["content-disposition"].endswith('.csv"')
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == 60
    assert rows[7]["text"] == "The story number 7 of this search"
    assert rows[7]["url"].startswith("https://")
    for nonsense in ("row_none", "<b>", "", "%00"):
        assert (await owner.get(f"{path}?after={nonsense}")).status_code == 200


async def test_page_of_running_run_refreshes_pauses_resumes_and_cancels_it(owner: Owner) -> None:
    algolia = Algolia({f"k{n}": range(n * 1000, n * 1000 + 500) for n in range(20)}, takes_s=0.5)
    owner.node.upstream.script = algolia.answer
    run = await new_run(owner.node, keywords=list(algolia.found), background=True, max_credits=100)
    path = f"/discover/runs/{run}"
    for place in ("/discover", path):
        assert (await owner.get(place)).headers["refresh"] == f"5;url=/dashboard{place}"
    for bound, words in (("ten", "a whole number"), ("50", "100 to 10000"), ("20000", "100 to 10000")):
        assert (await owner.send(f"{path}/go_on", max_credits=bound)).status_code == 400
        assert f"Maximum credits must be {words}" in owner.words, owner.words
        await owner.get(path)
    await owner.follow(await owner.send(f"{path}/go_on", max_credits="110"))
    assert "The maximum cost of the run was raised" in owner.words
    await owner.follow(await owner.send(f"{path}/pause"))
    assert "The run is paused" in owner.words
    assert "refresh" not in owner.page.headers
    await owner.follow(await owner.send(f"{path}/go_on", max_credits="120"))
    assert "The run was resumed" in owner.words
    assert "Maximum cost 120" in owner.words
    await owner.send(f"{path}/cancel")
    assert "Cancel this run?" in owner.words
    await owner.follow(await owner.send(f"{path}/cancel", sure="yes"))
    assert "The run was cancelled" in owner.words
    _, ended = await ask(owner.node, "GET", f"{RUNS}/{run}")
    money = ended["data"]["credits"]
    assert money["spent"] + money["refunded"] == money["reserved"]
    for deed, words in (("pause", "ended"), ("go_on", "ended")):
        await owner.get("/discover")
        assert (await owner.send(f"{path}/{deed}")).status_code == 400, words
    await owner.node.assert_sound()


async def test_resuming_without_credits_is_rejected(tmp_path: Path) -> None:
    algolia = Algolia({f"k{n}": range(500) for n in range(20)}, takes_s=0.05)
    async with open_test_node(tmp_path, credits=1) as node, open_owner(node) as owner:
        node.upstream.script = algolia.answer
        run = await new_run(node, keywords=list(algolia.found), background=True, max_credits=100)
        path = f"/discover/runs/{run}"
        with trio.fail_after(30):
            while (await ask(node, "GET", f"{RUNS}/{run}"))[1]["data"]["status"] != "paused":  # noqa: ASYNC110 - the node sets no event
                await trio.sleep(0.02)
        await owner.get(path)
        assert (await owner.send(f"{path}/go_on")).status_code == 400
        assert 'role="alert"' in owner.page.text
        assert "credits" in owner.page.text.partition('role="alert">')[2].partition("<")[0]
        await node.assert_sound()


async def test_untrusted_text_is_escaped_and_links_are_safe(owner: Owner) -> None:
    def answer(_asked: str) -> ScriptedAnswer:
        wild = {"title": "<script>alert(1)</script>", "url": "javascript:alert(1)", "author": '"><svg onload=alert(1)>'}
        hits = [{**story(1), **wild}, {**story(2), "title": "=HYPERLINK(1)"}]
        return ScriptedAnswer(200, orjson.dumps({"hits": hits, "nbHits": 2, "page": 0, "nbPages": 1}))

    owner.node.upstream.script = answer
    path = f"/discover/runs/{await new_run(owner.node)}"
    page = await owner.get(path)
    assert "alert(1)" in owner.words
    assert "<script>alert" not in page.text
    assert "<svg onload" not in page.text
    assert 'href="javascript' not in page.text
    assert "'=HYPERLINK(1)" in (await owner.get(f"{path}/rows.csv")).text


async def test_schedule_is_shown_paused_edited_and_deleted(owner: Owner) -> None:
    owner.node.upstream.script = Algolia({"trio": range(5)}).answer
    await owner.get("/discover/schedules")
    assert "No schedules yet" in owner.words
    path = f"/discover/schedules/{await new_schedule(owner.node)}"
    page = await owner.get("/discover/schedules")
    assert "mentions" in owner.words
    assert re.search(r'<time datetime="20\d\d-', page.text)
    await owner.get(path)
    assert "No occurrences yet." in owner.words
    for status, notice in (("paused", "The schedule is paused."), ("active", "The schedule is active.")):
        await owner.follow(await owner.send(f"{path}/status", status=status))
        assert notice in owner.words
    good = {"name": "every morning", "cadence": "cron", "cron": "30 6 * * 1-5", "timezone": "", "max_credits": "30"}
    for wrong, words in (
        ({"name": ""}, "Name must have 1 to 100 characters"),
        ({"cron": "every day"}, "Cron"),
        ({"timezone": "Mars/Olympus"}, "Cron"),
        ({"max_credits": "none"}, "Maximum credits must be 1 to 10000"),
    ):
        answer = await owner.send_fields(f"{path}/save", {**good, **wrong})
        assert answer.status_code == 400, wrong
        assert words in owner.words, (wrong, owner.words)
        assert "<strong>" in answer.text
        await owner.get(path)
    await owner.follow(await owner.send_fields(f"{path}/save", {**good, "timezone": "Europe/Berlin"}))
    assert "30 6 * * 1-5 Europe/Berlin" in owner.words
    assert "every morning" in owner.words
    await stale(owner)
    asked = await owner.send(f"{path}/delete", sure="yes")
    await owner.follow(asked)
    await owner.follow(await owner.send("/confirm", password=PASSWORD, next=f"/dashboard{path}"))
    await owner.send(f"{path}/delete")
    assert "Delete this schedule?" in owner.words
    await owner.follow(await owner.send(f"{path}/delete", sure="yes"))
    assert "No schedules yet" in owner.words
    assert (await owner.get(path)).status_code == 404


async def test_occurrences_link_to_runs_or_explain_skips(owner: Owner) -> None:
    owner.node.upstream.script = Algolia({"trio": range(5)}).answer
    schedule, run = await new_schedule(owner.node), await new_run(owner.node)
    slots = [
        Occurrence(schedule, 1_000.0 + n, run if n % 2 else None, None if n % 2 else "still_running", 2_000.0)
        for n in range(30)
    ]
    await owner.node.node.stores.store.write(lambda tx: schedule_rows.add_occurrences(tx, slots))
    page = await owner.get(f"/discover/schedules/{schedule}")
    assert page.text.count(f'href="/dashboard/discover/runs/{run}"') == 13
    assert page.text.count("skipped: still running") == 12
    older = page.text.partition("?before=")[2].partition('"')[0]
    page = await owner.get(f"/discover/schedules/{schedule}?before={older}")
    assert page.text.count("<tr><td>") == 5
    assert (await owner.get(f"/discover/schedules/{schedule}?before=nonsense")).status_code == 200


async def test_run_events_link_to_their_pages(owner: Owner) -> None:
    owner.node.upstream.script = Algolia({"trio": range(5)}).answer
    run = await new_run(owner.node, background=True)
    await shown_until(owner, "/events", lambda words: "discover.completed" in words)
    assert f'href="/dashboard/discover/runs/{run}"' in owner.page.text
