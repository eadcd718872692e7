"""README.md: its transcript shows real responses of a node."""

import re
from pathlib import Path

import orjson

from tests.docs.blocks import commands, shell_blocks
from tests.docs.curl import Node, perform, read_call
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place

README = PROJECT / "README.md"
CREDITS = 1_000
"""The setting that the demo uses."""


def test_readme_transcript_matches_node(tmp_path: Path) -> None:
    calls = [block for block in shell_blocks(README) if block.text.startswith("curl")]
    assert len(calls) == 2
    with open_commands() as runner:
        place = Place(tmp_path, runner)
        place.configure()
        _, key = place.new_key(balance=CREDITS)
        with place.serve("--sandbox") as served:
            (line,) = re.findall(r'`(\{"event":"listening"[^`]*)`', README.read_text())
            assert list(orjson.loads(line)) == list(orjson.loads(served.first_line))
            node = Node(served.url, served.admin_url, key["key"], "")
            for block in calls:
                (command,) = commands(block.text)
                body = perform(read_call(command.words), node).body.decode()
                assert shown(block.output).fullmatch(body), body


def shown(output: str) -> re.Pattern[str]:
    """Return a pattern for documented output: `...` matches anything, and ids differ at each call."""
    pieces = re.split(r",? *\.\.\. *", re.sub(r"\n *", "", output))
    return re.compile(re.sub(r"req_[0-9a-f]{32}", "req_[0-9a-f]{32}", ".*".join(map(re.escape, pieces))))
