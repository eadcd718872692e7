"""docs/quickstart.md and docs/credits.md: they show what a new account sees, and their code runs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.docs.blocks import Block, commands, shell_blocks
from tests.docs.curl import Node, perform, read_call
from tests.docs.test_readme import CREDITS, shown
from tests.fakes.scripted_feed import Step, open_scripted_feed, refusal
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place

QUICKSTART, MONEY = PROJECT / "docs" / "quickstart.md", PROJECT / "docs" / "credits.md"
PROGRAMS = {"python": (sys.executable, "-c"), "js": ("node", "--input-type=module", "-e")}
CALL, LIST, CLIENT = range(3)
"""The positions of each language's code blocks on the page."""
of_each_language = pytest.mark.parametrize("language", PROGRAMS)


@contextmanager
def new_node(folder: Path) -> Iterator[Node]:
    """A node with one account like the demo's, which has made no calls yet."""
    with open_commands() as runner:
        place = Place(folder, runner)
        place.configure()
        _, key = place.new_key(balance=CREDITS)
        with place.serve("--sandbox") as served:
            yield Node(served.url, served.admin_url, key["key"], "")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, str]]:
    """A node, and its uncached response to the quickstart's first call."""
    with new_node(tmp_path_factory.mktemp("quickstart")) as node:
        call = next(block for block in shell_blocks(QUICKSTART) if "octocat" in block.text)
        yield node, printed(call, node)


@pytest.fixture(scope="module")
def node(first: tuple[Node, str]) -> Node:
    return first[0]


def run(language: str, place: int, url: str, key: str) -> subprocess.CompletedProcess[str]:
    """Return the last output lines of one of the quickstart's programs."""
    if shutil.which(PROGRAMS[language][0]) is None:
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), f"{PROGRAMS[language][0]} is not installed"
        pytest.skip(f"{PROGRAMS[language][0]} is not installed")
    code = re.findall(rf"^```{language}\n(.*?)^```$", QUICKSTART.read_text(), re.M | re.S)[place]
    environ = {**os.environ, "URL": url, "KEY": key}
    return subprocess.run(
        [*PROGRAMS[language], code], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def printed(block: Block, node: Node) -> str:
    (command,) = commands(block.text)
    return perform(read_call(command.words), node).body.decode()


def test_credits_example_matches_new_account(tmp_path: Path) -> None:
    """Goal: each number of the page is correct. Method: make its calls in order, with a new account."""
    blocks = [block for block in shell_blocks(MONEY) if block.output]
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", MONEY.read_text(), re.M)
    with new_node(tmp_path) as node:
        for block in blocks:
            body = printed(block, node)
            assert shown(block.output).fullmatch(body), body
        ledger = orjson.loads(printed(blocks[-1], node))["data"]["items"][-2::-1]
    balance, moved = CREDITS, []
    for reserved, given_back, paid, after in (map(int, row[1:]) for row in rows):
        balance -= reserved - given_back
        assert (reserved - given_back, balance) == (paid, after)
        moved += [amount for amount in (-reserved, given_back) if amount]
    assert [entry["amount"] for entry in ledger] == moved


def test_quickstart_response_matches_its_call(first: tuple[Node, str]) -> None:
    (text,) = re.findall(r"^```json\n(.*?)^```$", QUICKSTART.read_text(), re.M | re.S)
    assert {**orjson.loads(first[1]), "request_id": "req_..."} == orjson.loads(text)


@of_each_language
def test_quickstart_first_call_prints_its_cost(language: str, node: Node) -> None:
    done = run(language, CALL, node.url, node.key)
    assert re.fullmatch(r"17297 followers, [01] credit used\n", done.stdout), done.stderr


@of_each_language
def test_quickstart_loop_reads_list_to_the_end(language: str, node: Node) -> None:
    done = run(language, LIST, node.url, node.key)
    names = done.stdout.splitlines()
    assert len(names) == len(set(names)) > 40, done.stderr
    assert all(name.startswith("octocat/") for name in names)


FOUND = Step(body={"success": True, "data": {"author": {"followers": 7}}})
RETRIED = {429: "RATE_LIMITED", 409: "IDEMPOTENCY_IN_PROGRESS", 503: "SERVICE_UNAVAILABLE", 502: "UPSTREAM_ERROR"}
FINAL = {400: "INVALID_REQUEST", 409: "IDEMPOTENCY_KEY_CONFLICT", 503: "SERVICE_UNAVAILABLE"}
"""Without a `Retry-After`, the last two errors are final."""


@of_each_language
def test_quickstart_client_retries_under_one_key(language: str) -> None:
    steps = [refusal(status, code, headers={"retry-after": "0"}) for status, code in RETRIED.items()]
    with open_scripted_feed(*steps, FOUND) as feed:
        done = run(language, CLIENT, feed.url, "sl_scripted")
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
    assert len(feed.seen) == len(steps) + 1
    assert len({one.headers["idempotency-key"] for one in feed.seen}) == 1


@pytest.mark.parametrize("status", FINAL)
@of_each_language
def test_quickstart_client_does_not_retry_final_errors(status: int, language: str) -> None:
    refused = refusal(status, FINAL[status])
    with open_scripted_feed(Step(status, {**refused.body, "request_id": "req_1"}), FOUND) as feed:
        done = run(language, CLIENT, feed.url, "sl_scripted")
    assert done.returncode != 0
    assert f"{FINAL[status]}: It is refused. (req_1)" in done.stderr
    assert len(feed.seen) == 1
