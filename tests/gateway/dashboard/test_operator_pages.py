"""The operator's pages: protected by the token, only on known hosts, built on the operations of the commands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.secrets import load_secret
from tests.fakes.node import SECRET, SUPPLIERS, OpenNode, open_test_node
from tests.fakes.scripted_upstream import ScriptedAnswer
from tests.gateway.dashboard.test_pages import RAW, XSS

PAGES = "/admin/pages"


@asynccontextmanager
async def open_operator(node: OpenNode) -> AsyncIterator[httpx.AsyncClient]:
    """A signed-in browser at a node's admin address."""
    async with httpx.AsyncClient(base_url=node.admin_url, verify=False) as client:
        token = load_secret(SECRET, Path()).admin_token
        answer = await client.post("/admin", data={"token": token})
        assert answer.status_code == 303
        yield client


@pytest.fixture
async def client(node: OpenNode) -> AsyncIterator[httpx.AsyncClient]:
    """A signed-in browser at the shared node."""
    async with open_operator(node) as client:
        yield client


async def submit(client: httpx.AsyncClient, operation: str, **fields: Any) -> httpx.Response:
    once = await hidden_fields(client)
    return await client.post(f"{PAGES}/do", data={**once, "operation": operation, **fields})


async def hidden_fields(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the token and the nonce of a form, which make it valid once."""
    page = await client.get("/admin")
    return dict(re.findall(r'name="(form_token|nonce)" value="(\w+)"', page.text))


async def test_operator_pages_require_the_token(node: OpenNode, client: httpx.AsyncClient) -> None:
    (cookie,) = (await client.post("/admin", data={})).request.headers["cookie"].split("; ")
    assert cookie.startswith("sluice-operator=")
    async with httpx.AsyncClient(base_url=node.admin_url, verify=False) as stranger:
        for path in ("/admin", f"{PAGES}/platforms", f"{PAGES}/account?id={node.account}"):
            page = await stranger.get(path)
            assert "Admin token" in page.text
            assert node.account not in page.text
        for token in ("wrong", "", "x" * 43):
            answer = await stranger.post("/admin", data={"token": token})
            assert "set-cookie" not in answer.headers
        await stranger.post(f"{PAGES}/do", data={"operation": "credits.grant", "account": node.account, "amount": 5})
    assert (await node.money())[0] == 100_000


async def test_operator_form_requires_token_and_same_site(node: OpenNode, client: httpx.AsyncClient) -> None:
    fields = {"operation": "credits.grant", "account": node.account, "amount": "5"}
    assert (await client.post(f"{PAGES}/do", data=fields)).status_code == 403
    foreign = await client.get("/admin", headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert (await client.get("/admin", headers={"host": "evil.example"})).status_code == 421
    page = await client.get("/admin")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    own = {"origin": node.admin_url}
    assert (await client.get("/admin", headers=own)).status_code == 200
    assert (await node.money())[0] == 100_000


async def test_operator_creates_grants_invites_and_suspends(node: OpenNode, client: httpx.AsyncClient) -> None:
    made = await submit(client, "account.create", name="a team", credits="7")
    path = made.headers["location"]
    account = path.partition("id=")[2]
    back = await submit(client, "credits.grant", account=account, amount="1000", back=path)
    assert back.headers["location"] == path
    assert "1,007" in (await client.get(path)).text
    await submit(client, "account.plan", account=account, plan="pro", back=path)
    invited = await submit(client, "user.invite", account=account, email="ada@example.com")
    assert f"{node.url}/dashboard/welcome?token=" in invited.text
    await submit(client, "account.suspend", account=account, back=path)
    shown = await node.operate("account.show", account=account)
    assert (shown["plan"], shown["state"]) == ("pro", "suspended")
    refused = await submit(client, "credits.grant", account=account, amount="-1")
    assert refused.status_code == 400
    assert "amount must be a whole number" in refused.text
    assert (await submit(client, "ledger.export", account=account)).status_code == 400


async def test_repeated_form_grants_once(node: OpenNode, client: httpx.AsyncClient) -> None:
    fields = {**await hidden_fields(client), "operation": "credits.grant", "account": node.account, "amount": "5"}
    for _ in range(3):
        await client.post(f"{PAGES}/do", data=fields)
    assert (await node.money())[0] == 100_005


async def test_operator_isolates_and_resets_platform(node: OpenNode, client: httpx.AsyncClient) -> None:
    assert "GitHub" in (await client.get(f"{PAGES}/platforms")).text
    await submit(client, "platform.isolate", platform="github", back=f"{PAGES}/platforms")
    states = {one["platform"]: one["sources"] for one in await node.operate("platform.list")}
    assert {source["state"] for source in states["github"].values()} == {"open"}
    await submit(client, "platform.reset", platform="github", back=f"{PAGES}/platforms")
    assert '<span class="dot">closed' in (await client.get(f"{PAGES}/platforms")).text


async def test_slowest_upstreams_come_first_with_known_quotas(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node, open_operator(node) as client:
        before = (await client.get(f"{PAGES}/platforms")).text
        assert "No upstream calls yet." in before
        quota = {"x-ratelimit-remaining": "4711", "x-ratelimit-reset": "3000"}
        body = b'{"id":1,"login":"octocat"}'
        slow = ScriptedAnswer(200, body, headers=quota, delay_s=0.3)
        node.upstream.script = lambda asked: slow if "api.github" in asked else None
        assert (await node.get("/v1/github/profile?handle=octocat")).status == 200
        for number in range(3):
            await node.get(f"/v1/steam/search?query=u{number}")
        shown = {one["platform"]: one for one in await node.operate("platform.list")}
        github, steam = shown["github"], shown["steam"]
        main, *_ = github["sources"].values()
        assert main["quota_left"] == 4711
        assert 2_990 < main["quota_reset_s"] <= 3_000
        assert (main["pace_left"], main["pace_calls"], main["held_s"]) == (None, None, 0.0)
        assert github["waits"] == {"requests": 1, "p95_s": 0.5}
        main, *_ = steam["sources"].values()
        assert (main["pace_calls"], main["pace_per_s"]) == (150, 300)
        assert main["pace_left"] in range(147, 150)
        page = (await client.get(f"{PAGES}/platforms")).text
        slowest, _, sources = page.partition("<h2>Sources</h2>")
        assert slowest.index("GitHub") < slowest.index("Steam")
        assert "0.5 s</td>" in slowest
        assert re.search(r">4,711, resets in \d,?\d+ s<", sources)
        assert re.search(r"14\d of 150 in 300 s", sources)
        assert "No calls of suppliers yet." in sources


async def test_suppliers_are_shown_with_costs_and_alerts(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node, open_operator(node) as client:
        (name,) = SUPPLIERS
        assert (await node.get("/v1/tiktok/profile?handle=ada")).status == 200
        node.upstream.always(ScriptedAnswer(402))
        assert (await node.get("/v1/tiktok/profile?handle=bob")).status == 503
        await node.node.suppliers.store_all()
        page = (await client.get(f"{PAGES}/platforms")).text.partition("<h2>Suppliers</h2>")[2]
        assert f"<td>{name}</td><td>unpaid</td>" in page
        costs = '<td class="n">2</td><td class="n">1</td><td class="n">1</td><td class="n">-</td><td class="n">1</td>'
        assert f"<td>tiktok/profile</td><td>{name}</td>{costs}" in page
        assert f"<td>{name}</td><td>unpaid</td></tr>" in page.partition("<h2>Alerts</h2>")[2]
        await submit(client, "supplier.reset", supplier=name, back=f"{PAGES}/platforms")
        page = (await client.get(f"{PAGES}/platforms")).text.partition("<h2>Suppliers</h2>")[2]
        assert f"<td>{name}</td><td>closed</td>" in page


async def test_names_are_escaped_on_operator_pages(node: OpenNode, client: httpx.AsyncClient) -> None:
    for text in XSS:
        made = await node.operate("account.create", name=text)
        await node.new_key(made["id"], name=text)
        for path in ("/admin", f"{PAGES}/account?id={made['id']}", f"{PAGES}/{text}", f"{PAGES}/account?id={text}"):
            assert RAW.search((await client.get(path)).text) is None
    assert (await submit(client, "sign-out")).status_code == 303
    assert "Admin token" in (await client.get("/admin")).text


async def test_refund_mark_is_shown_and_removed(node: OpenNode, client: httpx.AsyncClient) -> None:
    path = f"{PAGES}/account?id={node.account}"
    assert "Remove this mark" not in (await client.get(path)).text
    mark = "UPDATE accounts SET mark = 'refund' WHERE id = ?"
    await node.node.stores.store.write(lambda tx: tx.run(mark, (node.account,)))
    assert "reversed by a refund" in (await client.get(path)).text
    assert (await submit(client, "account.unmark", account=node.account, back=path)).status_code == 303
    assert "Remove this mark" not in (await client.get(path)).text
    assert (await node.operate("account.show", account=node.account))["mark"] is None
