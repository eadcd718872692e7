"""docs/webhooks.md: its walkthrough with the demo works as described.

Method: run the documented Monitor on a sandbox whose counters grow. The minute between slots passes instantly.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import trio

from tests.docs.blocks import commands, shell_blocks
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place
from tests.processes.process import Process
from tests.spec.monitor_life import SLOTS, open_life
from upstreams.sandbox.app import DRIFT_STEP_S

PAGE = PROJECT / "docs" / "webhooks.md"


def read_line(process: Process) -> str:
    assert process.popen.stdout is not None
    return process.popen.stdout.readline().decode()


async def test_walkthrough_shows_changes_alert_and_delivery(tmp_path: Path) -> None:
    blocks = list(shell_blocks(PAGE))
    posted = [one for block in blocks for one in commands(block.text) if "-d" in one.words]
    (made,) = (one for one in posted if any(word.endswith("/v1/monitors") for word in one.words))
    (listening,) = (
        one for block in blocks for one in commands(block.text) if "8090" in one.words and "$" not in str(one)
    )
    body = orjson.loads(made.words[made.words.index("-d") + 1])
    assert body["webhook_secret"] in listening.words
    own = (*(word for word in listening.words[1:] if word != "8090"), "0")
    with trio.fail_after(60), open_commands() as runner, Place(tmp_path, runner).start(*own) as process:
        url = process.first_line.decode().removeprefix("listening on ").strip()
        async with open_life(tmp_path, {**body, "webhook_url": url, "run_now": False}) as life:
            life.node.upstream.behaviour.drifts = True
            await life.run(SLOTS[0])
            life.node.upstream.pass_time(3 * DRIFT_STEP_S)
            await life.run(SLOTS[1])
            lines = [await trio.to_thread.run_sync(read_line, process) for _ in range(2)]
            first, second = (await life.data("/runs?include=numbers"))["items"][::-1]
        assert all(line.startswith("verified  whd_") for line in lines)
        assert [line.partition("000Z")[2] for line in lines] == [
            "  alerts_fired=0\n",
            f"  changes={len(second['deltas']['rows'])}  alerts_fired={len(second['alerts_fired'])}\n",
        ]
        assert (first["deltas"], first["alerts_fired"]) == (None, [])
        changes = [change["abs"] for row in second["deltas"]["rows"].values() for change in row.values()]
        assert changes
        assert min(changes) > 0
        assert len(second["alerts_fired"]) == len(changes)
