"""Alert rules on a monitor's page: added, changed and removed, with errors shown at the invalid row."""

from __future__ import annotations

import re
from typing import Any

import orjson

from tests.gateway.dashboard.owner import Owner, open_owner
from tests.gateway.dashboard.test_pages import new_monitor

RULE = {"rule_metric_0": "author.followers", "rule_op_0": "gt", "rule_value_0": "1000"}


async def rules_of(owner: Owner, monitor: str) -> list[dict[str, Any]]:
    answer = await owner.node.get(f"/v1/monitors/{monitor}")
    rules: list[dict[str, Any]] = orjson.loads(answer.body)["data"]["monitor"]["alert_rules"]
    return rules


async def test_rules_are_added_changed_and_removed_on_a_monitor_page(owner: Owner) -> None:
    monitor = await new_monitor(owner)
    path = f"/monitors/{monitor}"
    await owner.get(path)
    assert "No alert rules yet" in owner.words
    more = {
        "rule_metric_1": "author.followers",
        "rule_op_1": "no_data",
        "rule_value_1": "",
        "rule_consecutive_1": "3",
    }
    await owner.follow(await owner.send_fields(f"{path}/alerts", {**RULE, **more, "rule_cooldown_s_0": "3600"}))
    assert "The alerts were saved" in owner.words
    first = {"metric": "author.followers", "op": "gt", "value": 1000, "cooldown_s": 3600}
    missing = {"metric": "author.followers", "op": "no_data", "consecutive": 3}
    assert await rules_of(owner, monitor) == [first, missing]
    fields = dict(re.findall(r'name="(rule_\w+)"[^>]*value="([^"]*)"', owner.page.text))
    assert (fields["rule_value_0"], fields["rule_cooldown_s_0"], fields["rule_consecutive_1"]) == (
        "1000",
        "3600",
        "3",
    )
    assert fields["rule_metric_2"] == "", "an empty row for the next rule"
    for change, left in (
        ({**RULE, **more, "rule_value_0": "2,000.5"}, [{**first, "value": 2000.5, "cooldown_s": None}, missing]),
        ({**RULE, **more, "rule_drop_0": "1"}, [missing]),
        ({"rule_metric_0": "", "rule_op_0": "gt", "rule_value_0": "5"}, []),
    ):
        await owner.get(path)
        await owner.follow(await owner.send_fields(f"{path}/alerts", change))
        kept = [{name: value for name, value in one.items() if value is not None} for one in left]
        assert await rules_of(owner, monitor) == kept


async def test_invalid_rule_error_is_shown_at_its_row(owner: Owner) -> None:
    monitor = await new_monitor(owner)
    path = f"/monitors/{monitor}"
    for wrong, words in (
        ({"rule_metric_1": "author.folowers"}, "metric must be one of track.metrics"),
        ({"rule_value_1": "many"}, "value must be a finite number"),
        ({"rule_value_1": ""}, "value must be a finite number"),
        ({"rule_value_1": "nan"}, "value must be a finite number"),
        ({"rule_op_1": "over"}, "op must be one of"),
        ({"rule_op_1": "no_data"}, "value is not allowed with no_data"),
        ({"rule_consecutive_1": "0"}, "must be a whole number from 1"),
        ({"rule_cooldown_s_1": "soon"}, "must be a whole number from 0"),
        ({"rule_op_1": "gt", "rule_value_1": "1000"}, "is a duplicate"),
    ):
        second = {"rule_metric_1": "author.followers", "rule_op_1": "lt", "rule_value_1": "5"}
        await owner.get(path)
        answer = await owner.send_fields(f"{path}/alerts", {**RULE, **second, **wrong})
        assert answer.status_code == 400, wrong
        row = answer.text.partition('id="h-rule-1"')[2].partition("</p>")[0]
        assert words in row, (wrong, owner.words)
        assert 'name="rule_metric_0"' in answer.text
        assert "<details open>" in answer.text
    assert await rules_of(owner, monitor) == []


async def test_rules_are_private_and_limited_in_number(owner: Owner) -> None:
    monitor = await new_monitor(owner)
    path = f"/monitors/{monitor}"
    many = {}
    for row in range(20):
        many |= {f"rule_metric_{row}": "author.followers", f"rule_op_{row}": "gt", f"rule_value_{row}": str(row)}
    async with open_owner(owner.node, await owner.node.new_account()) as eve:
        await eve.get("/monitors")
        assert (await eve.send_fields(f"{path}/alerts", many)).status_code == 404
    assert await rules_of(owner, monitor) == []
    await owner.get(path)
    await owner.follow(await owner.send_fields(f"{path}/alerts", many))
    assert len(await rules_of(owner, monitor)) == 20
    assert 'name="rule_metric_20"' not in owner.page.text
    assert len(owner.page.content) < 150_000


async def test_rule_error_is_shown_at_its_row_after_empty_rows(owner: Owner) -> None:
    await owner.get("/monitors/new?recipe=github/profile")
    form = {"recipe": "github/profile", "p.handle": "octocat", "cadence": "daily", "metrics": "author.followers"}
    rule = {"rule_metric_2": "author.followers", "rule_op_2": "gt", "rule_value_2": "many"}
    answer = await owner.send_fields("/monitors", {**form, **rule, "deed": "make"})
    assert answer.status_code == 400
    assert "finite number" in answer.text.partition('id="h-rule-2"')[2].partition("</p>")[0]
