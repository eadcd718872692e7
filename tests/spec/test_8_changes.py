"""Section 8 and decisions 7 and 17: a free change with an `Idempotency-Key` is also applied once.

`tests/gateway/api/routes/test_deliveries.py` tests deliveries and rotations with a key.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.fakes.calling import Answered
from tests.fakes.feeding import FEED, append_some, page, post
from tests.fakes.node import OpenNode, open_test_node
from tests.spec.refusals import assert_refused

MONITORS = "/v1/monitors"
TRACKED = {
    "recipe": "github/profile",
    "params": {"handle": "octocat"},
    "cadence": "daily",
    "track": {"metrics": ["author.followers"]},
}


async def change(node: OpenNode, target: str, body: Any = b"", key: str = "one") -> Answered:
    return await post(node, target, body, headers={"idempotency-key": key})


async def monitors_of(node: OpenNode) -> list[str]:
    return [one["id"] for one in (await node.get(f"{MONITORS}?status=all")).json["data"]["items"]]


def assert_replays(replay: Answered, first: Answered) -> None:
    assert (replay.status, replay.json["request_id"]) == (first.status, first.json["request_id"])
    assert (replay.json["idempotent_replay"], replay.json["replayed"], replay.json["credits_used"]) == (True, True, 0)
    assert replay.headers["x-idempotent-replay"] == "true"
    assert "x-idempotent-replay" not in first.headers


async def test_monitor_is_created_once_and_replay_shows_current_state(tmp_path: Path) -> None:
    async with open_test_node(tmp_path, webhooks={"allow_insecure_targets": True}) as node:
        first = await change(node, MONITORS, TRACKED)
        id_ = first.json["monitor"]["id"]
        await node.client.patch(
            f"{node.url}{MONITORS}/{id_}", json={"name": "Renamed"}, headers={"x-api-key": node.key}
        )
        replay = await change(node, MONITORS, TRACKED)
        assert_replays(replay, first)
        assert (replay.json["monitor"]["id"], replay.json["monitor"]["name"]) == (id_, "Renamed")
        assert replay.json["webhook_secret"] is None
        assert replay.headers["location"] == f"{MONITORS}/{id_}"
        assert await monitors_of(node) == [id_]
        for target, body in ((MONITORS, {**TRACKED, "name": "Another"}), (f"{MONITORS}/{id_}/run", b"")):
            assert_refused(await change(node, target, body), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)
        assert_refused(await change(node, MONITORS, TRACKED, "a b"), "INVALID_REQUEST", 400)
        assert await monitors_of(node) == [id_]
        await node.client.delete(f"{node.url}{MONITORS}/{id_}", headers={"x-api-key": node.key})
        gone = assert_refused(await change(node, MONITORS, TRACKED), "RESOURCE_NOT_FOUND", 404)
        assert gone["reason"] == "unknown_monitor"


async def test_concurrent_creates_with_one_idempotency_key_make_one_monitor(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        answers: list[Answered] = []

        async def make() -> None:
            answers.append(await change(node, MONITORS, TRACKED))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(make)
        assert len({answer.json["monitor"]["id"] for answer in answers}) == len(await monitors_of(node)) == 1
        assert sum("replayed" in answer.json for answer in answers) == 9


async def test_rejected_change_frees_its_idempotency_key(tmp_path: Path) -> None:
    async with open_test_node(tmp_path) as node:
        for number in range(3):
            await change(node, MONITORS, TRACKED, f"made {number}".replace(" ", "-"))
        assert assert_refused(await change(node, MONITORS, TRACKED, "late"), "INVALID_REQUEST", 400)["limit"] == 3
        id_ = (await monitors_of(node))[0]
        await node.client.delete(f"{node.url}{MONITORS}/{id_}", headers={"x-api-key": node.key})
        made = await change(node, MONITORS, TRACKED, "late")
        assert (made.status, "replayed" in made.json) == (201, False)


async def test_run_is_opened_once_and_read_by_id(tmp_path: Path) -> None:
    """Without an idempotency key, the second request is rejected, because runs must be a minute apart."""
    async with open_test_node(tmp_path) as node:
        id_ = (await change(node, MONITORS, TRACKED, "make")).json["monitor"]["id"]
        first = await change(node, f"{MONITORS}/{id_}/run")
        run_id = first.json["data"]["run"]["run_id"]
        replay = await change(node, f"{MONITORS}/{id_}/run")
        assert_replays(replay, first)
        assert replay.json["data"]["run"]["run_id"] == run_id
        assert_refused(await post(node, f"{MONITORS}/{id_}/run", b""), "RATE_LIMITED", 429)
        one = f"{MONITORS}/{id_}/runs/{run_id}"
        with trio.fail_after(30):
            while (run := (await node.get(f"{one}?include=numbers")).json["data"]["run"])["status"] != "ok":  # noqa: ASYNC110 - no event is set
                await trio.sleep(0.02)
        assert (run["run_id"], list(run["numbers"])) == (run_id, ["_"])
        (event,) = (await node.get(f"{FEED}?types=monitor.run_completed")).json["data"]["items"]
        assert event["links"]["run"] == f"{node.url}{one}"
        for target in (f"{MONITORS}/{id_}/runs/run_none", f"{MONITORS}/mon_none/runs/{run_id}"):
            assert_refused(await node.get(target), "RESOURCE_NOT_FOUND", 404)
        refused = assert_refused(await post(node, f"{MONITORS}/{id_}/run", {"when": "now"}), "INVALID_REQUEST", 400)
        assert (refused["reason"], refused["param"], refused["remove_params"]) == ("invalid_param", "when", ["when"])


async def test_repeated_consumer_change_moves_it_only_once(tmp_path: Path) -> None:
    """Method: undo the effect of a reset with a key, then repeat the request."""
    async with open_test_node(tmp_path) as node:
        await append_some(node, 3)
        cursor = (await page(node, "consumer=mine"))["pagination"]["next_cursor"]
        place, reset = f"{FEED}/consumers/mine", partial(change, node, f"{FEED}/consumers/mine/reset")
        acked = await change(node, f"{place}/ack", {"cursor": cursor}, "ack")
        assert_replays(await change(node, f"{place}/ack", {"cursor": cursor}, "ack"), acked)
        first = await reset({"cursor": "oldest"})
        assert first.json["data"]["consumer"]["unread"] == 3
        await reset({"cursor": "now"}, "two")
        assert_replays(await reset({"cursor": "oldest"}), first)
        assert (await node.get(place)).json["data"]["consumer"]["unread"] == 0
        assert_refused(await reset({"cursor": "now"}), "IDEMPOTENCY_KEY_PAYLOAD_MISMATCH", 422)


async def test_patch_accepts_secret_parameters_and_track(tmp_path: Path) -> None:
    """Only the end of the secret is shown. The old secret signs for another day, as after a rotation."""
    async with open_test_node(tmp_path, webhooks={"allow_insecure_targets": True}) as node:
        hook = {"webhook_url": "http://127.0.0.1:9/in", "webhook_secret": "the first secret, long enough"}
        id_ = (await post(node, MONITORS, {**TRACKED, **hook})).json["monitor"]["id"]

        async def patch(body: dict[str, Any]) -> Answered:
            answer = await node.client.patch(f"{node.url}{MONITORS}/{id_}", json=body, headers={"x-api-key": node.key})
            return Answered(answer.status_code, dict(answer.headers), answer.content)

        monitor = (await patch({"webhook_secret": "another secret, as long as that"})).json["data"]["monitor"]
        assert monitor["webhook"]["signing_secret_hint"] == "...that"
        webhook = await node.node.monitors.webhooks.webhook(node.account, id_)
        assert webhook.webhook.previous_secret is not None
        moved = {"params": {"handle": "hubot"}, "track": {"metrics": ["author.following"]}, "webhook_format": "rows"}
        monitor = (await patch(moved)).json["data"]["monitor"]
        assert (monitor["params"], monitor["track"]["metrics"]) == ({"handle": "hubot"}, ["author.following"])
        assert monitor["webhook_format"] == "rows"
        for body, param in (
            ({"params": {"hndle": "a"}}, "params.hndle"),
            ({"track": {"metrics": ["author.folowers"]}}, "track.metrics[0]"),
            ({"webhook_secret": "short"}, "webhook_secret"),
            ({"recipe": "github/repo"}, "recipe"),
        ):
            assert assert_refused(await patch(body), "INVALID_REQUEST", 400)["param"] == param
        assert (await patch({"webhook_url": None, "webhook_format": "full"})).status == 200
        refused = assert_refused(await patch({"webhook_secret": "a secret without a webhook"}), "INVALID_REQUEST", 400)
        assert refused["param"] == "webhook_secret"
