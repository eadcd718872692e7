"""Clients that are generated as docs/api.md describes: they compile, and their first call works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.blocks import FENCE, commands, shell_blocks
from tests.processes.commands import PROJECT, open_commands
from tests.processes.place import Place

PAGE = PROJECT / "docs" / "api.md"
PACKAGES = Path(__file__).parent / "node_modules"
COMPILER = ("--strict", "--target", "es2022", "--module", "nodenext", "first.ts", "lacking.ts")
WITHOUT_TYPES = "declare const process: { argv: string[] };\n"
"""The only name of Node.js that is used. Loading Node's types would take longer than everything else."""
Environ = Mapping[str, str]


def block(language: str) -> str:
    """Return the only example in a language."""
    (found,) = (one["body"] for one in FENCE.finditer(PAGE.read_text()) if one["info"].split()[:1] == [language])
    return str(found)


def generating(program: str, environ: Environ) -> list[str]:
    """Return the documented command that generates a client with this program."""
    documented = [one.words for each in shell_blocks(PAGE) for one in commands(each.text)]
    (found,) = (words for words in documented if program in words and "install" not in words)
    return [word.replace("$URL", environ["URL"]) for word in found]


def run(*command: str, folder: Path, environ: Environ) -> str:
    """Run a program, which must succeed, and return its output."""
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environ]:
    """The environment of a client of a node with the sandbox: its URL, and a key."""
    with open_commands() as runner:
        place = Place(tmp_path_factory.mktemp("clients"), runner)
        place.configure()
        _, key = place.new_key()
        with place.serve("--sandbox") as node:
            programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            yield {**os.environ, "PATH": programs, "URL": node.url, "KEY": key["key"]}


@pytest.fixture(scope="module")
def types(environ: Environ, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the TypeScript types of a client."""
    if not PACKAGES.is_dir():
        assert not os.environ.get("SLUICE_REQUIRE_SERVERS"), "npm ci --prefix tests/clients"
        pytest.skip("needs npm ci --prefix tests/clients")
    folder = tmp_path_factory.mktemp("types")
    (folder / "node_modules").symlink_to(PACKAGES)
    (folder / "package.json").write_text('{"type": "module"}')
    _, program, *arguments = generating("openapi-typescript", environ)
    run(f"node_modules/.bin/{program}", *arguments, folder=folder, environ=environ)
    return folder


def assert_stories(printed: str) -> None:
    """Check that three stories were printed, each with its number and its URL."""
    lines = [line.split(" ") for line in printed.splitlines()]
    assert [number.isdecimal() and url.startswith("https://") for number, url in lines] == [True] * 3


def test_generated_python_client_compiles_and_makes_a_call(environ: Environ, tmp_path: Path) -> None:
    run(*generating("openapi-python-client", environ), folder=tmp_path, environ=environ)
    run(sys.executable, "-W", "error", "-m", "compileall", "-q", "sluice_client", folder=tmp_path, environ=environ)
    (tmp_path / "first.py").write_text(block("python"))
    assert_stories(run(sys.executable, "first.py", folder=tmp_path, environ=environ))


def test_generated_typescript_client_compiles_and_makes_a_call(environ: Environ, types: Path) -> None:
    """Goal: the compiler accepts the documented call, and rejects one without a required parameter."""
    first = WITHOUT_TYPES + block("typescript")
    (types / "first.ts").write_text(first)
    (types / "lacking.ts").write_text(first.replace('query: "trio", ', ""))
    with pytest.raises(AssertionError) as refused:
        run("node_modules/.bin/tsc", *COMPILER, folder=types, environ=environ)
    faults = re.findall(r"^(\w+)\.ts\(.*error TS\d+", str(refused.value), re.M)
    assert (faults, "'query' is missing" in str(refused.value)) == (["lacking"], True), refused.value
    assert_stories(run("node", "first.js", environ["URL"], environ["KEY"], folder=types, environ=environ))
