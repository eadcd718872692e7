"""Sections 2.6 and 8, decisions 12: creating a monitor, its view, and errors for every invalid field."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from events.instants import unix
from tests.fakes.calling import Answered
from tests.fakes.feeding import post
from tests.fakes.monitoring import FOLLOWERS, HOOKED, MONITORS, POSTS, TRACKED, listed, made, make, patch
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_free, assert_refused

FIELDS = {
    *("id", "name", "recipe", "params", "cadence", "status", "track", "alert_rules", "webhook_format", "webhook"),
    *("suppress_webhook_unless_alert", "rows_asked", "estimated_cost_per_run", "estimated_monthly_cost", "next_run_at"),
    *("max_cost_per_run", "max_monthly_cost"),
    "warnings",
    *("runs_total", "credits_spent", "created_at", "updated_at"),
}
RULE = {"metric": FOLLOWERS, "op": "gt", "value": 1000}
GONE = object()

# For each case: fields that replace the fields of a valid monitor, the field in the error, and the suggestion.
Wrong = tuple[Mapping[str, Any], str, str | None]
WRONG: Mapping[str, Wrong] = {
    "no recipe": ({"recipe": GONE}, "recipe", None),
    "null for a recipe": ({"recipe": None}, "recipe", None),
    "null for a cadence": ({"cadence": None}, "cadence", None),
    "a recipe that is not text": ({"recipe": 5}, "recipe", None),
    "an empty recipe": ({"recipe": ""}, "recipe", None),
    "a misspelled recipe": ({"recipe": "github/profil"}, "recipe", "github/profile"),
    "a recipe with its prefix": ({"recipe": "/v1/github/profile"}, "recipe", "github/profile"),
    "a recipe that is not a data endpoint": ({"recipe": "credits/balance"}, "recipe", None),
    "a recipe without its credential": ({"recipe": "bluesky/search", "params": {"query": "a"}}, "recipe", None),
    "params that are a list": ({"params": ["octocat"]}, "params", None),
    "a required parameter that is missing": ({"params": {}}, "params.handle", None),
    "a misspelled parameter": ({"params": {"handel": "octocat"}}, "params.handel", "handle"),
    "a parameter of another type": ({"params": {"handle": {"a": 1}}}, "params.handle", None),
    "a cursor": ({**POSTS, "params": {"query": "a", "cursor": "cur_x"}}, "params.cursor", None),
    "no cadence": ({"cadence": GONE}, "cadence", None),
    "a misspelled cadence": ({"cadence": "hourli"}, "cadence", "hourly"),
    "a cadence that is not text": ({"cadence": 5}, "cadence", None),
    "a cron of six fields": ({"cadence": {"cron": "0 0 * * * *"}}, "cadence.cron", None),
    "a cron that is too fast": ({"cadence": {"cron": "*/2 * * * *"}}, "cadence.cron", None),
    "a cron that never fires": ({"cadence": {"cron": "0 0 30 2 *"}}, "cadence.cron", None),
    "a misspelled timezone": (
        {"cadence": {"cron": "0 0 * * *", "timezone": "Europe/Berlinn"}},
        "cadence.timezone",
        "Europe/Berlin",
    ),
    "neither a webhook nor numbers": ({"track": GONE}, "webhook_url", None),
    "a webhook without TLS": ({"webhook_url": "http://example.com/hook"}, "webhook_url", None),
    "a webhook to a private address": ({"webhook_url": "https://10.0.0.1/hook"}, "webhook_url", None),
    "a webhook to this machine": ({"webhook_url": "https://localhost/hook"}, "webhook_url", None),
    "a webhook to this machine in hex": ({"webhook_url": "https://0x7f.1/hook"}, "webhook_url", None),
    "a webhook with a password": ({"webhook_url": "https://a:b@example.com/"}, "webhook_url", None),
    "a webhook on a low port": ({"webhook_url": "https://example.com:22/"}, "webhook_url", None),
    "a webhook that is too long": ({"webhook_url": f"https://example.com/{'a' * 2_048}"}, "webhook_url", None),
    "a webhook that is not text": ({"webhook_url": 5}, "webhook_url", None),
    "a secret that is too short": ({**HOOKED, "webhook_secret": "seven77"}, "webhook_secret", None),
    "a secret that is too long": ({**HOOKED, "webhook_secret": "a" * 201}, "webhook_secret", None),
    "a secret without a webhook": ({"webhook_secret": "long enough"}, "webhook_secret", None),
    "rows without numbers": ({**HOOKED, "track": GONE, "webhook_format": "rows"}, "webhook_format", "full"),
    "a misspelled format": ({"webhook_format": "row"}, "webhook_format", "rows"),
    "a flag that is not a boolean": ({"suppress_webhook_unless_alert": 1}, "suppress_webhook_unless_alert", None),
    "another flag that is not a boolean": ({"run_now": "yes"}, "run_now", None),
    "a name that is empty": ({"name": ""}, "name", None),
    "a name that is too long": ({"name": "a" * 201}, "name", None),
    "a name of two lines": ({"name": "a\nb"}, "name", None),
    "no metrics": ({"track": {"metrics": []}}, "track.metrics", None),
    "too many metrics": ({"track": {"metrics": [f"a{n}" for n in range(21)]}}, "track.metrics", None),
    "a metric at the wrong level": ({"track": {"metrics": ["followers"]}}, "track.metrics[0]", FOLLOWERS),
    "a misspelled metric": ({"track": {"metrics": ["author.folowers"]}}, "track.metrics[0]", FOLLOWERS),
    "a metric that is text": ({"track": {"metrics": ["author.username"]}}, "track.metrics[0]", None),
    "a metric that is a boolean": ({"track": {"metrics": ["author.verified"]}}, "track.metrics[0]", None),
    "too many rows": ({**POSTS, "track": {**POSTS["track"], "max_rows": 201}}, "track.max_rows", None),
    "a misspelled field of track": ({"track": {"metric": [FOLLOWERS]}}, "track.metric", "metrics"),
    "a rule on an untracked metric": (
        {"alert_rules": [{**RULE, "metric": "author.folowers"}]},
        "alert_rules[0].metric",
        FOLLOWERS,
    ),
    "a rule with a misspelled op": ({"alert_rules": [{**RULE, "op": "gtt"}]}, "alert_rules[0].op", "gt"),
    "a rule without a value": ({"alert_rules": [{"metric": FOLLOWERS, "op": "gt"}]}, "alert_rules[0].value", None),
    "rules that are not an array": ({"alert_rules": RULE}, "alert_rules", None),
}


def sent(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**TRACKED, **fields}.items() if value is not GONE}


def assert_names(answer: Answered, param: str, meant: str | None, case: str) -> None:
    details = assert_refused(answer, "INVALID_REQUEST", 400)
    assert not answer.json["error"]["message"].endswith(("..", "?.")), case
    assert details["next_step"], case
    assert details["param"] == param, (case, details)
    if meant is None:
        assert "did_you_mean" in details or details["reason"] == "invalid_param", (case, details)
    else:
        assert details["did_you_mean"] == meant, (case, details)


async def test_invalid_fields_are_named_with_suggestion_and_nothing_is_created(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for case, (fields, param, meant) in WRONG.items():
            for query in ("", "?dry_run=1"):
                answer = await post(node, MONITORS + query, sent(fields))
                assert_names(answer, param, meant, case)
        await assert_free(node, answer)
        assert await listed(node) == []


async def test_recipe_parameter_is_rejected_with_the_reason_of_its_endpoint(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await post(node, MONITORS, {**HOOKED, "params": {"handle": "a%20b"}})
        details = assert_refused(answer, "INVALID_REQUEST", 400)
        assert (details["reason"], details["param"]) == ("double_encoded", "params.handle")


async def test_oversized_number_parameter_must_be_sent_as_text(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        body = json.dumps({**HOOKED, "params": {"handle": 2**63}}).encode()
        for target in (MONITORS, f"{MONITORS}?dry_run=1"):
            answer = await post(node, target, body)
            assert assert_refused(answer, "INVALID_REQUEST", 400)["param"] == "params.handle"
            assert "send it as text" in answer.json["error"]["message"]
        kept = (await make(node, HOOKED, params={"handle": 2**63 - 1}))["monitor"]
        assert kept["params"] == {"handle": 2**63 - 1}


async def test_unknown_field_is_rejected_with_suggestion(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        details = assert_refused(await post(node, MONITORS, sent({"webhok_url": "x"})), "INVALID_REQUEST", 400)
        assert (details["did_you_mean"], details["param"]) == ("webhook_url", "webhok_url")
        assert details["remove_params"] == ["webhok_url"]
        for body in (b"", b"[]", b"{", b"\xff"):
            assert_refused(await post(node, MONITORS, body), "INVALID_REQUEST", 400)


async def test_ordinary_monitor_is_returned_as_specified(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await post(node, MONITORS, HOOKED)
        body = answer.json
        assert answer.status == 201
        assert body.keys() >= {
            "success",
            "request_id",
            "credits_used",
            "credits_remaining",
            "monitor",
            "webhook_secret",
        }
        assert (body["success"], body["platform"], body["credits_used"]) == (True, "account", 0)
        monitor, secret = body["monitor"], body["webhook_secret"]
        assert monitor.keys() == FIELDS
        assert answer.headers["location"] == f"{MONITORS}/{monitor['id']}"
        assert monitor["id"].startswith("mon_")
        assert monitor["name"] == "github/profile monitor"
        assert (monitor["recipe"], monitor["params"]) == ("github/profile", {"handle": "octocat"})
        assert (monitor["cadence"], monitor["status"]) == ("daily", "active")
        assert (monitor["alert_rules"], monitor["track"], monitor["warnings"]) == ([], None, [])
        assert (monitor["estimated_cost_per_run"], monitor["estimated_monthly_cost"]) == (2, 60)
        assert unix(monitor["next_run_at"]) == int(unix(monitor["created_at"])) + 86_400
        assert secret.startswith("whsec_")
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
        assert monitor["webhook"] == {
            "url": "https://example.com/hook",
            "status": "active",
            "failure_count": 0,
            "last_delivery_at": None,
            "signing_secret_hint": f"...{secret[-4:]}",
        }
        await node.assert_sound()


async def test_secret_is_shown_only_at_creation_and_own_secret_is_kept(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        own = "my own secret, long enough"
        body = await make(node, HOOKED, webhook_secret=own)
        assert body["webhook_secret"] == own
        read = await node.get(f"{MONITORS}/{body['monitor']['id']}")
        assert read.json["data"]["monitor"] == body["monitor"]
        assert own.encode() not in read.body
        rows = await node.node.stores.store.read(lambda tx: tx.all("SELECT secret FROM webhooks"))
        assert own not in rows[0][0]


async def test_secret_hint_shows_at_most_a_quarter_of_the_secret(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        monitor = (await make(node, HOOKED, webhook_secret="abcdefgh"))["monitor"]
        assert monitor["webhook"]["signing_secret_hint"] == "...gh"


async def test_numbers_only_monitor_without_webhook_has_no_secret(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        body = await make(node, TRACKED, alert_rules=[RULE])
        assert body["webhook_secret"] is None
        monitor = body["monitor"]
        assert monitor["webhook"] is None
        assert monitor["track"] == {**TRACKED["track"], "row_key": None, "max_rows": 100}
        assert monitor["alert_rules"] == [RULE]
        rows = await make(node, POSTS, webhook_url="https://example.com/rows", webhook_format="rows", name="Posts")
        assert rows["monitor"]["track"]["row_key"] == "post.id"
        assert (rows["monitor"]["webhook_format"], rows["monitor"]["name"]) == ("rows", "Posts")


async def test_estimates_are_recipe_price_plus_one_credit(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for cadence, per_month in (("hourly", 730), ({"cron": "0 6 * * *", "timezone": "Europe/Berlin"}, 30)):
            monitor = (await make(node, TRACKED, cadence=cadence))["monitor"]
            assert monitor["cadence"] == cadence
            assert (monitor["estimated_cost_per_run"], monitor["estimated_monthly_cost"]) == (2, 2 * per_month)


async def test_unchecked_or_useless_settings_give_warnings(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        open_path = {"metrics": ["author.ext.public_gists"]}
        id_ = await made(node, track=open_path)
        (warning,) = (await node.get(f"{MONITORS}/{id_}")).json["data"]["monitor"]["warnings"]
        assert "author.ext.public_gists could not be checked" in warning
        quiet = await make(node, HOOKED, suppress_webhook_unless_alert=True)
        (warning,) = quiet["monitor"]["warnings"]
        assert "nothing is delivered" in warning


async def test_unsatisfiable_rule_is_accepted_with_a_warning(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for metric, warned in ((FOLLOWERS, []), ("items[].followers", ["alert_rules[0] cannot be evaluated"])):
            made_ = (await make(node, HOOKED, alert_rules=[{**RULE, "metric": metric}]))["monitor"]
            assert made_["alert_rules"][0]["metric"] == metric
            assert [warning.split(":")[0] for warning in made_["warnings"]] == warned
            kept = (await node.get(f"{MONITORS}/{made_['id']}")).json["data"]["monitor"]
            assert kept["warnings"] == made_["warnings"]


async def test_unreadable_cadence_gives_warning_and_hides_no_other_monitor(tmp_path: Path) -> None:
    """Simulates an update of the timezone database that removed a zone."""
    async with open_test_node(tmp_path) as node:
        zone = {"cron": "0 0 * * *", "timezone": "Mars/Olympus"}
        id_, other = await made(node, TRACKED), await made(node, TRACKED)
        gone = "UPDATE monitors SET cadence = ? WHERE id = ?"
        await node.node.stores.store.write(lambda tx: tx.run(gone, (json.dumps(zone), id_)))
        monitor = (await node.get(f"{MONITORS}/{id_}")).json["data"]["monitor"]
        assert (monitor["cadence"], monitor["estimated_monthly_cost"]) == (zone, None)
        assert "this monitor no longer runs: cadence.timezone must be a timezone" in monitor["warnings"][0]
        assert sorted(await listed(node)) == sorted([id_, other])
        assert (await patch(node, id_, cadence="daily")).json["data"]["monitor"]["warnings"] == []


async def test_paused_webhook_is_reported_and_resumed_by_saving_its_url(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        id_ = await made(node, HOOKED)
        await node.node.stores.store.write(lambda tx: tx.run("UPDATE webhooks SET status = 'paused', failures = 10"))
        monitor = (await node.get(f"{MONITORS}/{id_}")).json["data"]["monitor"]
        assert (monitor["status"], monitor["webhook"]["status"], monitor["webhook"]["failure_count"]) == (
            "active",
            "paused",
            10,
        )
        assert "the webhook was paused after 10 failed deliveries in a row" in monitor["warnings"][0]
        saved = (await patch(node, id_, webhook_url=HOOKED["webhook_url"])).json["data"]
        assert "webhook_secret" not in saved
        assert (saved["monitor"]["webhook"]["status"], saved["monitor"]["webhook"]["failure_count"]) == ("active", 0)
        assert saved["monitor"]["warnings"] == []


async def test_dry_run_validates_prices_and_creates_nothing(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answer = await post(node, f"{MONITORS}?dry_run=1", {**HOOKED, "cadence": "weekly"})
        assert answer.status == 200
        data = answer.json["data"]
        assert data["valid"] is True
        assert (data["monitor"]["id"], data["monitor"]["estimated_monthly_cost"]) == (None, 8)
        assert "webhook_secret" not in answer.json
        assert await listed(node) == []
        await assert_free(node, answer)


PLANS = {"free": 3, "starter": 10, "growth": 25, "pro": 100, "enterprise": 500}


async def account_of(node: OpenNode, plan: str) -> str:
    """Return a key of a new account with this plan."""
    account = (await node.operate("account.create", name="test", plan=plan))["id"]
    return (await node.new_key(account))[0]


async def test_plan_limit_is_exact_under_concurrent_creates(tmp_path: Path) -> None:
    """Goal: never more monitors than the plan allows. Method: fifty concurrent creates where three may succeed."""
    async with open_test_node(tmp_path) as node:
        key = await account_of(node, "free")
        answers: list[Answered] = []

        async def create() -> None:
            answers.append(await post(node, MONITORS, TRACKED, key=key))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(create)
        assert sorted(answer.status for answer in answers) == [201] * 3 + [400] * 47
        for answer in answers:
            if answer.status == 400:
                details = assert_refused(answer, "INVALID_REQUEST", 400)
                assert (details["reason"], details["limit"]) == ("monitor_limit_reached", 3)
        assert len(await listed(node, key=key)) == 3


async def test_each_plan_has_its_limit(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for plan in ("starter", "growth"):
            key = await account_of(node, plan)
            for _ in range(PLANS[plan]):
                await make(node, key=key)
            details = assert_refused(await post(node, MONITORS, TRACKED, key=key), "INVALID_REQUEST", 400)
            assert (details["reason"], details["limit"]) == ("monitor_limit_reached", PLANS[plan])


async def test_paused_monitors_do_not_count_until_resumed(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        first, *_ = [await made(node) for _ in range(3)]
        assert (await patch(node, first, status="paused")).json["data"]["monitor"]["next_run_at"] is None
        fourth = await made(node)
        refused = await patch(node, first, status="active")
        assert assert_refused(refused, "INVALID_REQUEST", 400)["reason"] == "monitor_limit_reached"
        assert (await node.get(f"{MONITORS}/{fourth}", method="DELETE")).status == 204
        again = (await patch(node, first, status="active")).json["data"]["monitor"]
        assert again["status"] == "active"
        assert again["next_run_at"] is not None
        assert (await patch(node, first, status="active")).status == 200, "an active monitor is counted once"


async def test_resume_limit_is_as_exact_as_create_limit(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        paused = []
        for _ in range(8):
            paused.append(await made(node))
            await patch(node, paused[-1], status="paused")
        statuses: list[int] = []

        async def go_on(id_: str) -> None:
            statuses.append((await patch(node, id_, status="active")).status)

        async with trio.open_nursery() as nursery:
            for id_ in paused:
                nursery.start_soon(go_on, id_)
        assert sorted(statuses) == [200] * 3 + [400] * 5
        assert len(await listed(node, "status=active")) == 3
