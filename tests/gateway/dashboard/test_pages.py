"""Every page over HTTP: its texts, whose objects it shows, and that untrusted text is never executed."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import orjson
from lxml.html import fromstring

from gateway.dashboard.calls import callable_operations
from gateway.dashboard.folding import PARTS_MAX, Folded
from gateway.dashboard.pictures import qr_svg
from tests.billing.users.test_second_factor import code_at
from tests.fakes.node import OpenNode
from tests.gateway.api.routes.test_cohorts import make
from tests.gateway.dashboard.owner import PASSWORD, Owner, open_browser, open_owned_node, open_owner, rules_of
from tests.gateway.dashboard.test_access import forms_of
from tests.gateway.dashboard.test_cohort_pages import new_query
from tests.gateway.dashboard.test_discover_pages import new_run, new_schedule
from tests.gateway.dashboard.test_keys import stale
from tests.gateway.dashboard.test_webhook_pages import new_webhook

XSS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "javascript:alert(1)",
    "</textarea><script>alert(1)</script>",
    "{{ 7*7 }}{% raw %}",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u202e<b onmouseover=alert(1)>",
)
TRACKED = {
    "recipe": "github/profile",
    "p.handle": "octocat",
    "cadence": "daily",
    "metrics": "author.followers",
    "name": "Followers",
}
RAW = re.compile(r"<script>alert|<img src=x|<svg onload|<b onmouseover|<script>alert", re.I)


async def new_monitor(owner: Owner, **more: str) -> str:
    await owner.get("/monitors/new?recipe=github/profile")
    answer = await owner.send_fields("/monitors", {**TRACKED, "deed": "make", **more})
    assert answer.status_code == 303, owner.words
    return str(answer.headers["location"].rpartition("/")[2])


async def test_pages_of_a_new_account_say_what_to_do_next(node: OpenNode) -> None:
    account = await node.new_account()
    async with open_owner(node, account) as owner:
        for path, words in (
            ("", "Create a key : every call needs one"),
            ("/keys", "No keys yet"),
            ("/usage", "No calls in this period"),
            ("/monitors", "No Monitors yet"),
            ("/events", "No events yet"),
            ("/webhooks", "No webhooks yet"),
            ("/cohorts", "No cohorts yet"),
            ("/discover", "No runs yet"),
            ("/discover/schedules", "No schedules yet"),
            ("/playground?id=github/profile", "You need an API key"),
        ):
            assert (await owner.get(path)).status_code == 200
            assert words in owner.words, path


async def test_usage_and_transactions_show_the_calls(owner: Owner) -> None:
    node = owner.node
    await owner.get("/playground?id=github/profile")
    await owner.send_fields(
        "/playground", {"id": "github/profile", "method": "GET", "p.handle": "octocat", "key": node.key_id}
    )
    await node.node.stores.store.write(lambda _tx: None)
    await owner.get("/transactions")
    assert "Welcome credits" in owner.words
    assert "/v1/github/profile" in owner.words
    table = (await owner.get("/transactions.csv")).text.splitlines()
    assert table[0] == "id,type,amount,balance_after,description,endpoint,request_id,key_id,created_at"
    assert len(table) > 2
    await owner.get("/usage?days=7")
    assert "/v1/github/profile" in owner.words
    rows = (await owner.get("/usage.csv?days=7")).text.splitlines()
    assert rows[0].startswith("day,endpoint,key_id")
    assert "/v1/github/profile" in rows[1]
    await owner.get("/transactions?request_id=req_none")
    assert "No transactions for this request" in owner.words


async def test_playground_shows_price_field_errors_and_response(owner: Owner) -> None:
    call = {"id": "github/profile", "method": "GET", "key": owner.node.key_id}
    await owner.get("/playground?q=github%20profile")
    assert "/v1/github/profile" in owner.words
    await owner.get("/playground?id=github/profile")
    assert "curl" in owner.words
    answer = await owner.send_fields("/playground", {**call, "deed": "call"})
    assert answer.status_code == 400
    assert "handle is required" in owner.words
    await owner.send_fields("/playground", {**call, "p.handle": "octocat", "deed": "price"})
    assert "This call costs 1 credit." in owner.words
    await owner.send_fields("/playground", {**call, "p.handle": "octocat", "key": "key_of_another"})
    assert "Key must be one of your active keys" in owner.words
    before = await owner.node.money()
    await owner.send_fields("/playground", {**call, "p.handle": "octocat", "deed": "call"})
    assert "x-credits-used" in owner.words
    assert "request_id" in owner.words
    assert before == (100_000, 0)


async def test_playground_lists_platforms_and_finds_operations_of_one(owner: Owner) -> None:
    operations = callable_operations(owner.node.node.description.reference)
    page = fromstring((await owner.get("/playground")).text)
    options = page.xpath("//select[@name='platform']//option/@value")
    assert sorted(options) == sorted({"", *(one.platform for one in operations)})
    assert set(page.xpath("//optgroup/@label")) > {"Social networks", "Across platforms", "Account and node"}
    assert page.xpath("//*[@class='thing']") == [], "hundreds of operations are not listed at once"
    links = page.xpath("//main//a[contains(@href, 'platform=')]")
    assert [one.get("href").rpartition("=")[2] for one in links] == options[1:]
    counts = [int(one.getnext().text) for one in links]
    assert counts == [sum(one.platform == slug for one in operations) for slug in options[1:]]
    for query, due in (
        ("platform=lobsters", []),
        ("platform=mastodon", [one.path for one in operations if one.platform == "mastodon"]),
        ("platform=mastodon&q=trending+tag", ["/v1/mastodon/trending/hashtags"]),
        ("q=hackernews+story+comments", ["/v1/hackernews/story/comments"]),
    ):
        page = fromstring((await owner.get(f"/playground?{query}")).text)
        assert page.xpath("//li[@class='thing']//code/text()") == due
        assert page.xpath("//option[@selected]/@value") == (["mastodon"] if "mastodon" in query else [])


async def test_playground_calls_batches_and_account_routes(owner: Owner) -> None:
    for id_, method, fields, words in (
        ("credits/balance", "GET", {}, "balance"),
        ("prism/post-stats", "POST", {"b.urls": '["https://github.com/octocat"]', "deed": "price"}, "costs"),
        ("prism/post-stats", "POST", {"b.urls": "[not json"}, "is not valid JSON"),
        ("monitors/{monitor_id}", "GET", {}, "is part of the path"),
    ):
        await owner.get(f"/playground?id={id_}&method={method}")
        await owner.send_fields("/playground", {"id": id_, "method": method, "key": owner.node.key_id, **fields})
        assert words in owner.words, (id_, owner.words)


async def test_monitor_is_created_from_a_call_and_managed_on_its_page(owner: Owner) -> None:
    page = (await owner.get("/playground?id=github/profile&p.handle=octocat")).text
    made = re.search(r'href="(/dashboard/monitors/new\?[^"]+)">Create Monitor', page)
    assert made is not None
    await owner.get(made[1].removeprefix("/dashboard").replace("&amp;", "&"))
    fields = dict(re.findall(r'name="(p\.handle|metrics|recipe|nonce)"[^>]*value="([^"]*)"', owner.page.text))
    answer = await owner.send_fields("/monitors", {**fields, "cadence": "daily", "deed": "make"})
    assert answer.status_code == 303, owner.words
    await owner.follow(answer)
    assert "github/profile" in owner.words
    path = answer.headers["location"].removeprefix("/dashboard")
    again = await owner.send_fields("/monitors", {**fields, "cadence": "daily", "deed": "make"}, token=owner.token)
    assert again.headers["location"] == answer.headers["location"], "sending the form twice created a second monitor"
    for deed, fields_, notice in (
        ("status", {"status": "paused"}, "is paused"),
        ("status", {"status": "active"}, "is active"),
        ("run", {}, "A run has started"),
    ):
        await owner.get(path)
        await owner.follow(await owner.send_fields(f"{path}/{deed}", fields_))
        assert notice in owner.words
    assert (await owner.send(f"{path}/run")).status_code == 400
    assert "ran a moment ago" in owner.words
    chart = await owner.get(f"{path}/chart.svg?metric=author.followers&row=_")
    assert chart.headers["content-type"].startswith("image/svg+xml")
    table = await owner.get(f"{path}/numbers.csv")
    assert table.text.splitlines()[0] == "t,row_id,metric,value,abs_change,pct_change"
    assert table.headers["content-disposition"].startswith("attachment")
    await owner.get(path)
    await owner.send(f"{path}/delete")
    await owner.send(f"{path}/delete", sure="yes")
    assert (await owner.get(path)).status_code == 404


async def test_invalid_monitor_error_is_shown_at_its_field(owner: Owner) -> None:
    for wrong, words in (
        ({"metrics": "author.folowers"}, "Metrics to track"),
        ({"p.handle": ""}, "handle"),
        ({"cadence": "cron", "cron": "* * * * *"}, "Cron"),
        ({"webhook_url": "http://10.0.0.1/hook"}, "Webhook"),
        ({"metrics": "", "webhook_url": ""}, "Webhook is required"),
        ({"rule_metric_0": "author.likes_count", "rule_op_0": "gt", "rule_value_0": "1"}, "This alert"),
    ):
        await owner.get("/monitors/new?recipe=github/profile")
        answer = await owner.send_fields("/monitors", {**TRACKED, "deed": "make", **wrong})
        assert answer.status_code == 400, wrong
        assert words in owner.words, (wrong, owner.words)
        assert "<strong>" in answer.text
    await owner.send_fields("/monitors", {**TRACKED, "deed": "price"})
    assert "Each run costs 2 credits, and a month costs 60." in owner.words


async def test_events_page_shows_own_events_and_adds_new_rows(owner: Owner) -> None:
    _, key_id = await owner.node.new_key(owner.node.account, name="gone <b>")
    await owner.node.operate("key.revoke", key=key_id)
    page = await owner.get("/events")
    assert "key.revoked" in owner.words
    assert "gone <b>" in owner.words
    (last,) = re.findall(r'data-last="(\d+)"', page.text)
    _, other = await owner.node.new_key(owner.node.account)
    await owner.node.operate("key.revoke", key=other)
    rows = await owner.get(f"/events/new?after={last}")
    assert rows.text.count("<li") == 1
    assert int(rows.headers["x-last"]) == int(last) + 1


async def test_other_accounts_objects_are_unknown_on_every_page(owner: Owner) -> None:
    """Goal: isolation. Method: every route with an id, from the routing table, requested by another account's owner."""
    monitor, webhook = await new_monitor(owner), await new_webhook(owner, "https://example.com/hook")
    run, schedule = await new_run(owner.node), await new_schedule(owner.node)
    cohort = await make(owner.node, "ada.test")
    query = await new_query(owner.node, cohort)
    session = (await owner.node.node.stores.people.sessions.list((await users_of(owner))[0]))[0].id
    async with open_owner(owner.node, await owner.node.new_account()) as eve:
        ids = {"key_id": owner.node.key_id, "monitor_id": monitor, "delivery_id": "whd_1", "session_id": session}
        ids |= {"job_id": "job_none", "webhook_id": webhook, "run_id": run, "schedule_id": schedule}
        ids |= {"cohort_id": cohort, "query_id": query}
        rules = rules_of(owner)
        tried = 0
        for rule in [one for one in rules if "<" in one.rule and one.rule != "/dashboard/account/sessions/others"]:
            path = re.sub(r"<(\w+)>", lambda found: ids[found[1]], rule.rule).removeprefix("/dashboard")
            await eve.get("/keys")
            method = "POST" if "POST" in rule.methods else "GET"
            answer = await (eve.send(path, sure="yes", credit_limit="1") if method == "POST" else eve.get(path))
            assert answer.status_code == 404, (rule.rule, answer.status_code)
            tried += 1
        assert tried >= 35
        hidden = (owner.node.key_id, monitor, webhook, run, schedule, cohort, session, owner.email)
        own = ("/keys", "/monitors", "/webhooks", "/events", "/usage", "/transactions", "/account")
        for path in (*own, "/discover", "/discover/schedules", "/cohorts"):
            page = await eve.get(path)
            assert not any(one in page.text for one in hidden)
    assert (await owner.get(f"/monitors/{monitor}")).status_code == 200
    assert (await owner.node.get("/v1/credits/balance")).status == 200


async def users_of(owner: Owner) -> list[str]:
    return [one["id"] for one in await owner.node.operate("user.list", account=owner.node.account)]


async def test_untrusted_text_is_never_executed_in_a_page(node: OpenNode) -> None:
    """Goal: no stored or reflected XSS. Method: a corpus through every field that is shown, and through every query."""
    for number, text in enumerate(("".join(XSS[:4]), "".join(XSS[4:]))):  # a name has at most 200 characters
        made = await node.operate("account.create", name=text, credits=100_000)
        await node.new_key(made["id"], name=text)
        _, gone = await node.new_key(made["id"], name=text)
        await node.operate("key.revoke", key=gone)
        async with open_owner(node, made["id"], f"o{number}@example.com") as owner:
            owner.headers["user-agent"] = text.encode("ascii", "ignore").decode()
            await owner.sign_in()
            plain = text.replace("\u202e", "")
            monitor = await new_monitor(owner, name=plain)
            webhook = await new_webhook(owner, "https://example.com/hook", description=plain)
            query = {"q": text, "name": text, "metric": text, "row": text, "request_id": text, "done": text}
            for path in (
                *("", "/keys", "/events", "/account", "/monitors", "/usage", "/transactions", "/playground"),
                *(f"/monitors/{monitor}", "/monitors/new", "/playground?id=github/profile", "/sign-in"),
                *("/webhooks", "/webhooks?new=1", f"/webhooks/{webhook}"),
                *("/monitors/new?recipe=github/profile", f"/monitors/{monitor}/chart.svg", "/confirm"),
            ):
                separator = "&" if "?" in path else "?"
                url = f"{node.url}/dashboard{path}{separator}"
                sent = {**query, "p.handle": text, "next": text, "id": "github/profile", "token": text}
                page = await owner.client.get(url.rstrip("?&"), params={**sent} if "?" not in path else None)
                assert RAW.search(page.text) is None, path
                assert "{{" not in page.text or "{{ 7*7 }}" in text
            await owner.get("/playground?id=github/profile")
            for fields in (
                {"id": "github/profile", "method": "GET", "p.handle": text, "key": text, "deed": text},
                {"id": "prism/post-stats", "method": "POST", "b.urls": text, "key": text},
            ):
                page = await owner.send_fields("/playground", fields)
                assert RAW.search(page.text) is None
                await owner.get("/playground?id=github/profile")


def test_upstream_response_folds_and_is_truncated() -> None:
    folded = Folded()
    body = orjson.dumps({text: [text, 1, None, True, {"deep": text}] for text in XSS})
    assert RAW.search(folded.html(body)) is None
    assert not folded.is_cut
    long = Folded()
    html = long.html(orjson.dumps({"items": [{"a": 1, "b": "x" * 5_000}] * 5_000}))
    assert long.is_cut
    assert len(html) < 400 * PARTS_MAX
    assert "&lt;i&gt;" in Folded().html(b"<i>no json</i>")
    nested = b"[" * 500 + b"]" * 500
    assert Folded().html(nested).count("<details") <= 41


def test_qr_code_encodes_the_text_with_a_margin() -> None:
    """Method: different texts have different images, and the margin and the finder pattern are correct."""
    one, other = qr_svg("a <code>", "otpauth://totp/a"), qr_svg("a <code>", "otpauth://totp/b")
    assert one != other
    assert qr_svg("a <code>", "otpauth://totp/a") == one
    assert 'aria-label="a &lt;code&gt;"' in one
    assert 'fill="#fff"' in one
    assert 'd="M4 4.5h7' in one, "four modules of margin, then the seven of the finder pattern"
    assert "style=" not in one


async def test_second_factor_is_turned_on_used_and_turned_off(owner: Owner) -> None:
    await owner.get("/account")
    page = await owner.send("/account/factor")
    secret = re.search(r'class="secret"><code>([A-Z2-7 ]+)<', page.text)
    sealed = re.search(r'name="sealed" value="([^"]+)"', page.text)
    assert secret is not None
    assert sealed is not None
    link = re.search(r'href="(otpauth://[^"]+)"', page.text)
    assert link is not None
    assert secret[1].replace(" ", "") in link[1]
    assert qr_svg("The secret as a QR code", unescape(link[1])) in page.text
    now = owner.node.node.runtime.now()
    code = code_at(secret[1].replace(" ", ""), now)
    assert (await owner.send("/account/factor/on", sealed=sealed[1], code="000000")).status_code == 400
    codes = await owner.send("/account/factor/on", sealed=sealed[1], code=code)
    recovery = re.findall(r"\b(?:[a-z2-7]{4}-){3}[a-z2-7]{4}\b", codes.text)
    assert len(recovery) == 10
    async with open_browser(owner.node) as other:
        other.email = owner.email
        answer = await other.sign_in()
        assert answer.headers["location"].startswith("/dashboard/code")
        assert (await other.get("/keys")).headers["location"] == "/dashboard/code"
        await other.get("/code")
        assert (await other.send("/code", code=code)).status_code == 400, "the code was used before"
        assert (await other.send("/code", code=recovery[0])).status_code == 303
        assert (await other.get("/keys")).status_code == 200
    await owner.get("/account")
    await owner.follow(await owner.send("/account/factor/off"))
    assert "The second factor is off." in owner.words


async def test_new_password_signs_out_other_browsers(owner: Owner) -> None:
    async with open_browser(owner.node) as other:
        other.email = owner.email
        await other.sign_in()
        await owner.get("/account")
        (session,) = re.findall(r"/dashboard/account/sessions/(ses_\w+)", owner.page.text)
        await owner.send(f"/account/sessions/{session}")
        assert (await other.get("/keys")).status_code == 303
        await other.sign_in()
        await owner.get("/account")
        for first, second, words in (
            ("short", "short", "at least 12 characters"),
            ("another river of stones", "not the same", "does not match"),
        ):
            assert (await owner.send("/account/password", password=first, repeated=second)).status_code == 400
            assert words in owner.words
        new = "another river of stones"
        await owner.follow(await owner.send("/account/password", password=new, repeated=new))
        assert (await other.get("/keys")).status_code == 303
        assert (await owner.get("/keys")).status_code == 200


async def test_pages_are_small_and_have_no_inline_handlers_or_styles(owner: Owner) -> None:
    monitor = await new_monitor(owner)
    for path in ("", "/keys", "/usage", "/playground", "/monitors/new", f"/monitors/{monitor}", "/events"):
        page = await owner.get(path)
        assert len(page.content) < 150_000, path
        assert "onclick" not in page.text
        assert 'style="' not in page.text
    assert (await owner.get("/")).status_code == 200
    assert len(forms_of(owner)) > 20


async def test_deleted_account_signs_out_its_users(tmp_path: Path) -> None:
    async with open_owned_node(tmp_path) as owner:
        deleted = await owner.node.operate("account.delete", account=owner.node.account)
        assert deleted["state"] == "deleted"
        assert (await owner.get("/keys")).headers["location"].startswith("/dashboard/sign-in")
        assert (await owner.sign_in()).status_code == 400
        for table in ("users", "user_invites", "user_sessions", "user_codes"):
            rows = await owner.node.node.stores.store.read(lambda tx, name=table: tx.all(f"SELECT * FROM {name}"))
            assert rows == [], table


async def test_owner_of_suspended_account_sees_a_notice(owner: Owner) -> None:
    await owner.node.operate("account.suspend", account=owner.node.account)
    await owner.get("")
    assert "This account is suspended" in owner.words
    await owner.get("/playground?id=credits/balance&method=GET")
    await owner.send_fields("/playground", {"id": "credits/balance", "method": "GET", "key": owner.node.key_id})
    assert "Response: 401" in owner.words


async def test_hypercorn_serves_pages_and_accepts_forms(tmp_path: Path) -> None:
    async with open_owned_node(tmp_path, server={"engine": "hypercorn"}) as owner:
        await owner.get("/keys?new=1")
        answer = await owner.send("/keys", name="by the other engine", nonce="c" * 32)
        assert answer.status_code == 200
        assert "Your new key" in owner.words
        assert owner.client.cookies["sluice-session"]


async def test_head_request_returns_only_the_head(owner: Owner) -> None:
    answer = await owner.client.head(f"{owner.node.url}/dashboard/keys")
    assert (answer.status_code, answer.content) == (200, b"")
    for method in ("PUT", "DELETE", "PATCH"):
        assert (await owner.client.request(method, f"{owner.node.url}/dashboard/keys")).status_code == 405


async def test_secret_rotation_and_deletion_require_the_password(tmp_path: Path) -> None:
    async with open_owned_node(tmp_path, webhooks={"allow_insecure_targets": True}) as owner:
        await owner.get("/monitors/new?recipe=github/profile")
        made = await owner.send_fields(
            "/monitors", {**TRACKED, "webhook_url": "http://127.0.0.1:9/hook", "deed": "make"}
        )
        (monitor,) = set(re.findall(r"mon_\w+", made.text))
        assert "whsec_" in made.text
        await stale(owner)
        for deed in ("rotate", "delete"):
            await owner.get(f"/monitors/{monitor}")
            answer = await owner.send(f"/monitors/{monitor}/{deed}", sure="yes")
            assert answer.headers["location"] == f"/dashboard/confirm?next=%2Fdashboard%2Fmonitors%2F{monitor}"
        await owner.follow(answer)
        await owner.send("/confirm", password=PASSWORD, next=f"/dashboard/monitors/{monitor}")
        await owner.get(f"/monitors/{monitor}")
        assert "whsec_" not in owner.words
        rotated = await owner.send(f"/monitors/{monitor}/rotate")
        assert "whsec_" in rotated.text


async def test_job_is_visible_and_controlled_by_its_owner_only(owner: Owner) -> None:
    await owner.get("/jobs")
    assert "No jobs yet" in owner.words
    await owner.get("/playground?id=web/batch-scrape&method=POST")
    urls = orjson.dumps([f"https://example.org/{number}" for number in range(20)]).decode()
    call = {"id": "web/batch-scrape", "method": "POST", "key": owner.node.key_id, "b.urls": urls, "deed": "call"}
    page = await owner.send_fields("/playground", call)
    (job,) = set(re.findall(r"job_[0-9a-f]{32}", page.text))
    await owner.get("/jobs")
    assert "of 20 steps" in owner.words
    for status in ("paused", "running", "paused"):
        changed = await owner.send(f"/jobs/{job}/status", status=status)
        if changed.status_code == 400:  # the job had already ended
            break
        await owner.follow(changed)
    async with open_owner(owner.node, await owner.node.new_account()) as eve:
        await eve.get("/jobs")
        for deed in ("status", "cancel"):
            assert (await eve.send(f"/jobs/{job}/{deed}", sure="yes")).status_code == 404
    await owner.get("/jobs")
    assert "steps" in owner.words
    ended = await owner.send(f"/jobs/{job}/cancel", sure="yes")
    assert ended.status_code in (303, 400)
    await owner.get("/jobs?before=nothing")
    assert (await owner.get("/jobs")).status_code == 200
