"""The payload of a run's delivery."""

from dataclasses import replace

import orjson
import pytest

from scheduler.monitors.model.records import Monitor, Run
from scheduler.monitors.runs.payload import make_payload
from scheduler.monitors.runs.verdict import judge_run
from tests.fakes.scripted_recipes import gathered
from tests.scheduler.desk import EPOCH

MONITOR = Monitor(
    "mon_1", "acc_1", None, "test", "github/search", "{}", '"hourly"', None,
    '[{"metric": "total", "op": "gt", "value": 1}]', "full", False, "active",
    None, "{}", None, 0, 0, EPOCH, EPOCH, 0,
)  # fmt: skip
TRACK = '{"metrics": ["items[].app.price", "total"], "row_key": "app.id", "max_rows": 100}'
PAGE = {"items": [{"app": {"id": "a", "price": 3}}], "total": 4}
FACTS = {"monitor_id": "mon_1", "run_id": "run_1", "recipe": "github/search", "status": "ok"}


@pytest.mark.parametrize("before", [None, b'{"_": {"total": 2}, "a": {"items[].app.price": 2}}'])
@pytest.mark.parametrize("shape", ["plain", "full", "rows"])
def test_payload_has_the_monitors_format(shape: str, before: bytes | None) -> None:
    monitor = MONITOR if shape == "plain" else replace(MONITOR, track=TRACK, webhook_format=shape)  # type: ignore[arg-type]
    verdict = judge_run(monitor, gathered(PAGE), before, at=EPOCH)
    told = orjson.loads(make_payload(monitor, Run("run_1", "mon_1", "acc_1", EPOCH, "ok", EPOCH), verdict))
    (alert,) = told.pop("alerts_fired")
    assert (alert["metric"], alert["to"]) == ("total", 4)
    assert told.pop("scheduled_for") == "2027-01-15T08:00:00.000Z"
    assert {name: told.pop(name) for name in FACTS} == FACTS
    if shape == "rows":
        assert [(row["row_id"], row["value"], row["prev"]) for row in told["rows"]] == [
            ("_", 4, None if before is None else 2),
            ("a", 3, None if before is None else 2),
        ]
        return
    assert told["result"] == PAGE
    if shape == "plain":
        assert told["deltas"] == ({} if before is None else {"total": 2})
    else:
        assert told["numbers"] == {"_": {"total": 4}, "a": {"items[].app.price": 3}}
        assert (told["deltas"] is None) == (before is None)
