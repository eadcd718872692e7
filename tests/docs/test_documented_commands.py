"""The documented `sluice` commands work as written, in a folder with a running node.

Capital letters are placeholders for ids: an account, its key, its Monitor and its user, created for each block.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.blocks import Block, commands, shell_blocks
from tests.fakes.calling import call
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Ended, Place, Served

DOCUMENTS = [PROJECT / "README.md", *sorted(PROJECT.glob("docs/*.md")), *sorted(PROJECT.glob("bench/*.md"))]
RUN_BY = {
    "demo": "tests/gateway/cli/test_demo.py",
    "serve": "tests/docs/test_readme.py",
    "bench": "tests/bench/test_cli.py",
    "events tail": "tests/docs/test_events_page.py",
    "webhook listen": "tests/docs/test_webhooks_page.py",
    "webhook verify": "tests/gateway/cli/test_webhook.py",
    "platforms new": "tests/gateway/cli/test_authors_commands.py",
    "platforms check": "tests/gateway/cli/test_authors_commands.py",
    "platforms smoke my_forum": "tests/gateway/cli/test_platforms_commands.py",
}
"""Commands that keep running, need another setup or take long. For each, the tests that run it."""
MONITOR = (
    b'{"recipe": "github/profile", "params": {"handle": "octocat"}, "cadence": "daily", '
    b'"track": {"metrics": ["author.followers"]}}'
)


def is_run_elsewhere(words: Sequence[str]) -> bool:
    return any(" ".join(words[1:]).startswith(name) for name in RUN_BY)


def documented() -> Iterator[tuple[str, Block]]:
    """Yield each block with a command to run here, with its name. `sh test` scripts are run elsewhere as a whole."""
    for document in DOCUMENTS:
        for block in shell_blocks(document):
            words = [one.words for one in commands(block.text) if one.words[0] == "sluice"]
            if not block.is_run and not all(map(is_run_elsewhere, words)):
                yield f"{document.name}: {block.text.splitlines()[0]}", block


BLOCKS = list(documented())
RUN = [(name, block) for name, block in BLOCKS if not block.output]
(REFUSED,) = (block for _name, block in BLOCKS if block.output)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Served]]:
    """The folder in which the commands run, and its node."""
    with open_commands() as runner, open_home(Place(tmp_path_factory.mktemp("home"), runner)) as home:
        yield home


@contextmanager
def open_home(place: Place) -> Iterator[tuple[Place, Served]]:
    with place.sandbox() as egress:
        place.configure(upstreams={"egress": egress}, ledger={"archive": str(place.folder / "archive")})
        with place.serve() as node:
            yield place, node


def new_ids(place: Place, node: Served) -> Mapping[str, str]:
    account, key = place.new_key()
    made = call(f"{node.url}/v1/monitors", method="POST", body=MONITOR, headers={"x-api-key": key["key"]})
    invited = place.run("user", "invite", "--account", account, "--email", f"{account}@example.com", "--json")
    user = json.loads(invited.out)["id"]
    return {"ACCOUNT": account, "KEY": key["id"], "MONITOR_ID": made.json["monitor"]["id"], "USER": user}


def perform(words: Sequence[str], ids: Mapping[str, str], place: Place) -> Ended:
    asked_first = ["--yes"] if words[1:3] == ("account", "delete") else []
    return place.run(*(ids.get(word, word) for word in words[1:]), *asked_first)


@pytest.mark.parametrize("block", [block for _name, block in RUN], ids=[name for name, _block in RUN])
def test_documented_command_prints_documented_output(block: Block, home: tuple[Place, Served]) -> None:
    place, node = home
    ids = new_ids(place, node)
    for words in (one.words for one in commands(block.text)):
        if words[0] == "sluice" and not is_run_elsewhere(words):
            ended = perform(words, ids, place)
            assert (ended.exit_code, ended.err) == (0, ""), (words, ended)


def test_documented_error_matches_command_output(tmp_path: Path) -> None:
    (command,) = commands(REFUSED.text)
    with open_commands() as runner:
        place = Place(tmp_path, runner)
        place.config.write_text("[server]\nprot = 80\n")
        assert place.run(*command.words[1:]) == Ended(2, "", REFUSED.output)


def test_tests_of_commands_run_elsewhere_exist() -> None:
    assert [file for file in RUN_BY.values() if not (PROJECT / file).is_file()] == []
