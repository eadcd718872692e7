"""The documents are correct: their commands exist, their curl calls are answered as shown, and their scripts run.

`tests/docs/blocks.py` describes how to write a document so that it is checked. In addition:

- A curl call must succeed, or return the status that is named by a comment after it (`# 402`) or by its shown output
  (`"status":402`). The response must have every name that the shown output has.
- In scripts that are run, 8080 and 8081 are replaced by free ports, and config.toml exists.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.config.secrets import load_secret
from tests.docs.blocks import Block, Command, commands, shell_blocks
from tests.docs.curl import Node, NotUnderstood, perform, read_call
from tests.docs.shell import flaw
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place
from tests.processes.programs import happen
from tests.servers.ports import free_ports

DOCUMENTS = sorted(
    file for pattern in ("*.md", "docs/**/*.md", "bench/*.md") for file in PROJECT.glob(pattern) if file.is_file()
)
NAMES = [str(file.relative_to(PROJECT)) for file in DOCUMENTS]
SCRIPT_S = 120.0
of_each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The node that answers the documents' curl calls."""
    with open_commands() as runner:
        place = Place(tmp_path_factory.mktemp("docs"), runner)
        place.configure(webhooks={"allow_insecure_targets": True})  # like a demo
        account, key = place.new_key(balance=100_000)
        happen(place, account, "laptop", "phone")  # writes events to read
        with place.serve("--sandbox") as served:
            token = load_secret({}, place.database.parent).admin_token
            yield Node(served.url, served.admin_url, key["key"], token)


def commands_of(document: Path) -> Iterator[Command]:
    for block in shell_blocks(document):
        yield from commands(block.text)


def unanswered(block: Block, node: Node) -> Iterator[str]:
    """Yield the curl calls of a block that are not answered as the document says."""
    for command in commands(block.text):
        if command.words[0] == "curl" and (wrong := flaw_of_call(command, block.output, node)):
            yield f"{' '.join(command.words)}: {wrong}"


def flaw_of_call(command: Command, output: str, node: Node) -> str | None:
    """Return the error of a curl call, or None if there is none."""
    try:
        answered = perform(read_call(command.words), node)
    except NotUnderstood as exc:
        return f"this test does not understand {exc}"
    body = answered.body.decode(errors="replace")
    wanted = re.search(r"\b[1-5]\d\d\b", command.comment) or re.search(r'(?<="status":)\d+', output)
    right = answered.status == int(wanted[0]) if wanted else answered.status < 300
    absent = {name for name in re.findall(r'"\w+":', output) if name not in body}
    return None if right and not absent else f"{answered.status} {body[:300]} without {absent or 'a flaw'}"


@of_each_document
def test_documented_commands_exist_with_their_options(document: Path) -> None:
    wrong = {" ".join(command.words): flaw(command.words) for command in commands_of(document)}
    assert {line: why for line, why in wrong.items() if why} == {}


@of_each_document
def test_documented_curl_calls_return_the_documented_status_and_fields(document: Path, node: Node) -> None:
    assert [wrong for block in shell_blocks(document) for wrong in unanswered(block, node)] == []


@of_each_document
def test_documented_blocks_are_shell(document: Path) -> None:
    for block in shell_blocks(document):
        done = subprocess.run(["sh", "-n"], input=block.text.encode(), capture_output=True, timeout=90, check=False)
        assert (done.returncode, done.stderr) == (0, b""), block.text


@of_each_document
def test_documented_scripts_run(document: Path, tmp_path: Path) -> None:
    script = "".join(block.text for block in shell_blocks(document) if block.is_run)
    if script:
        run_script(script, tmp_path)


@of_each_document
def test_links_to_files_have_a_target(document: Path) -> None:
    targets = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@of_each_document
def test_links_to_headings_have_a_target(document: Path) -> None:
    targets = re.findall(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)", document.read_text())
    assert [(file, anchor) for file, anchor in targets if anchor not in anchors(document.parent / file, document)] == []


@of_each_document
def test_headings_are_unique_and_in_order(document: Path) -> None:
    levels = [len(marks) for marks, _ in headings(document)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert len({text for _, text in headings(document)}) == len(levels)


def headings(document: Path) -> list[tuple[str, str]]:
    """Return the level marks and the text of each heading. Lines in code blocks that look like headings are skipped."""
    return re.findall(r"^(#+) (.+)$", re.sub(r"^ *```.*?^ *```", "", document.read_text(), flags=re.M | re.S), re.M)


def anchors(file: Path, document: Path) -> set[str]:
    """Return the anchors of a file, or of the document itself if the link names no file."""
    of = document if file == document.parent else file
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for _, text in headings(of)}


def run_script(script: str, folder: Path) -> str:
    """Run a script in a folder with config.toml, and return its output. Processes that it leaves running are killed."""
    program = folder / "bin" / "sluice"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from gateway.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    ports = dict(zip(("8080", "8081"), map(str, free_ports(2)), strict=True))
    config = (PROJECT / "config.toml").read_text()
    for documented, free in ports.items():
        script, config = (re.sub(rf"\b{documented}\b", free, text) for text in (script, config))
    (folder / "config.toml").write_text(config)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(PROJECT), "TMPDIR": str(folder)}
    # The output goes to a file: a node that the script leaves running would keep a pipe open.
    log = folder / "script.log"
    with log.open("wb") as out:
        popen = subprocess.Popen(
            ["sh", "-eu", "-c", script],
            cwd=folder,
            env={**environ, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        exit_code = popen.wait(SCRIPT_S)
    finally:
        with suppress(ProcessLookupError):  # no process of the script's session is left
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
    assert exit_code == 0, log.read_text()
    return log.read_text()


DOCUMENT = """
1. In a list:

   ```sh test
   sluice account create --name "Ada & co" \\
     --json > account.json   # made
   ID=$(sluice account list --json | cut -c 1-9)
   cat >> notes <<EOF
   rm -rf everything
   EOF
   echo "$ID at 8080"
   ```

```console
$ sluice check
the config is valid
```

```python
not shell
```
"""


def test_blocks_are_found_and_split_into_commands(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(DOCUMENT)
    script, console = shell_blocks(file)
    assert (script.is_run, console.is_run) == (True, False)
    assert (console.text, console.output) == ("sluice check\n", "the config is valid\n")
    assert list(commands(script.text)) == [
        Command(("sluice", "account", "create", "--name", "Ada & co", "--json"), "made"),
        Command(("sluice", "account", "list", "--json")),
        Command(("cut", "-c", "1-9")),
        Command(("cat",)),
        Command(("echo", "$ID at 8080")),
    ]
    printed = run_script(script.text, tmp_path)
    assert printed.startswith('[{"id":"a at ')
    assert "8080" not in printed


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("sluice serve --config config.toml --sandbox", None),
        ("sluice credits grant --config config.toml ACCOUNT AMOUNT", None),
        ("sluice key update KEY_ID --credit-limit none --reset-usage", None),
        ("sluice --help", None),
        ("sluice serve --port 80", "No such option '--port'"),
        ("sluice credit grant A 5", "there is no command credit"),
        ("sluice credits grant A", "amount is missing"),
        ("sluice check now", "now is one argument too many"),
        ("sluice key create", "account_id is missing"),
        ("pip install -c constraints.txt -e .", None),
        ("pip install sluice", "not a known way to install"),
        ("python -m bench.rows", None),
        ("python -m bench.lost", "there is no module bench.lost"),
        ("frobnicate", "frobnicate is a program that the documents' test does not know"),
        (".ci/absent", "there is no .ci/absent"),
    ],
)
def test_wrong_documented_command_is_found(line: str, wrong: str | None) -> None:
    (command,) = commands(line)
    assert (flaw(command.words) or "").startswith(wrong or "")
    assert (flaw(command.words) is None) is (wrong is None)


@pytest.mark.parametrize(
    ("line", "output", "wrong"),
    [
        ("curl -s -H \"x-api-key: $KEY\" 'http://127.0.0.1:8080/v1/utility/endpoints?search=x' | jq .data", "", None),
        ("curl -s $URL/v1/status", '{"success":true, ...}', None),
        ("curl http://127.0.0.1:8081/readyz", "", None),
        ("curl -X POST -H 'authorization: Bearer $T' -d '{}' http://127.0.0.1:8081/admin/ledger.verify", "", None),
        ("curl -s $URL/v1/credits/balance  # 401", "", None),
        ("curl -s $URL/v1/credits/balance", '{"error":{"status":401}}', None),
        ("curl -s $URL/v1/credits/balance", "", "401 "),
        ("curl -s $URL/v1/status # 404", "", "200 "),
        ("curl -s $URL/v1/status", '{"success":true,"state":"fine"}', "200 "),
        ("curl --teleport $URL/v1/status", "", "this test does not understand --teleport"),
    ],
)
def test_documented_call_with_another_response_is_found(line: str, output: str, wrong: str | None, node: Node) -> None:
    found = list(unanswered(Block(("console",), line, output), node))
    assert len(found) == (wrong is not None)
    assert all(f": {wrong}" in each for each in found)


def test_failing_documented_script_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No such command 'acount'"):
        run_script("sluice acount list | cat\nsluice acount list\n", tmp_path)
