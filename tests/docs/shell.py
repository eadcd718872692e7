"""Check documented commands: `sluice` commands against click, other programs by name."""

import importlib.util
import re
from collections.abc import Sequence

import click

from gateway.cli import cli
from tests.processes.commands import PROJECT

KNOWN = """
    . cat cd chmod chromium cp createdb createuser curl docker echo export flake8 git grep head jq kill lint-imports ls
    mkdir mv mypy nice npm npx openapi-python-client openssl pip printf pytest python python3 rm ruff set sh
    sleep source sqlite-utils sqlite3 sudo systemctl tail tar tee test trap wait
"""
_INSTALL = re.compile(r"pip install (-U |-c constraints\.txt )?(-e )?'?(\.(\[[a-z,]+\])?|pip|-r [\w.-]+)'?")


def flaw(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command, or None if it is correct."""
    name, arguments = words[0], list(words[1:])
    if name == "sluice":
        return _sluice_problem(cli, arguments)
    if name.startswith((".", "bench/", "tests/")) and name != ".":
        return None if (PROJECT / name).exists() or name.startswith(".venv/") else f"there is no {name}"
    if name not in KNOWN.split():
        return f"{name} is a program that the documents' test does not know"
    if name in ("python", "python3"):
        return _python_problem(arguments)
    if name == "pip" and not _INSTALL.fullmatch(" ".join(words)):
        return "not a known way to install"
    return None


def _python_problem(arguments: list[str]) -> str | None:
    if arguments[:1] != ["-m"]:
        return None
    if arguments[1:2] == ["pip"]:
        return flaw(arguments[1:])
    try:
        found = importlib.util.find_spec(arguments[1])
    except ModuleNotFoundError:
        found = None
    return None if found else f"there is no module {arguments[1]}"


def _sluice_problem(command: click.Command, arguments: list[str]) -> str | None:
    """Parse like click, but accept any text as a value, because documents use placeholders for numbers."""
    if arguments in (["--help"], ["--version"]):
        return None
    context = click.Context(command, info_name=command.name)
    try:
        given, rest, _ = command.make_parser(context).parse_args(arguments)
    except click.UsageError as exc:
        return exc.format_message()
    if isinstance(command, click.Group):
        if not rest:
            return f"{command.name} needs a command"
        inner = command.get_command(context, rest[0])
        return _sluice_problem(inner, rest[1:]) if inner else f"there is no command {rest[0]}"
    if rest:
        return f"{rest[0]} is one argument too many"
    missing = [
        param.name for param in command.params if param.required and not isinstance(given.get(param.name or ""), str)
    ]
    return f"{', '.join(map(str, missing))} is missing" if missing else None
