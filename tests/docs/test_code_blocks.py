"""Tests the code in the documents that no other test runs: programs parse their settings, and JSON is parsed."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gateway.cli.run import known_platforms
from gateway.config import load_config
from gateway.config.errors import ConfigError
from tests.docs.blocks import FENCE
from tests.gateway.server.nginx_proxy import nginx_program
from tests.processes.commands import PROJECT
from tests.servers.redis import open_redis

DOCUMENTS = [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted(PROJECT.glob("docs/*.md"))]
DOCUMENTS += sorted(PROJECT.glob("bench/*.md"))
NAMES = [str(file.relative_to(PROJECT)) for file in DOCUMENTS]
RUN_BY = {
    "sh": "tests/test_docs.py",
    "console": "tests/test_docs.py",
    "toml": "tests/docs/test_code_blocks.py",
    "json": "tests/docs/test_code_blocks.py",
    "way": "tests/docs/test_architecture_page.py",
    "nginx": "tests/docs/test_code_blocks.py tests/gateway/feed/test_behind_nginx.py",
    "redis": "tests/docs/test_code_blocks.py",
    "typescript": "tests/clients/test_generated.py",
    "python": "tests/clients/test_generated.py tests/docs/test_events_page.py tests/docs/test_first_pages.py "
    "tests/docs/test_platforms_page.py "
    "tests/scheduler/webhooks/test_documented_verifiers.py",
    "bash": "tests/docs/test_events_page.py tests/scheduler/webhooks/test_documented_verifiers.py",
    "javascript": "tests/docs/test_events_page.py",
    "js": "tests/docs/test_first_pages.py tests/scheduler/webhooks/test_documented_verifiers.py",
}
"""The tests of each kind of code."""
of_each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)


def blocks_of(document: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block."""
    for found in FENCE.finditer(document.read_text()):
        language = (found["info"].split() or ["none"])[0]
        yield language, re.sub(f"^{found['indent']}", "", found["body"], flags=re.M)


@of_each_document
def test_every_code_block_has_a_tested_kind(document: Path) -> None:
    assert {language for language, _ in blocks_of(document)} <= RUN_BY.keys()


def test_tests_that_run_code_blocks_exist() -> None:
    assert [file for files in RUN_BY.values() for file in files.split() if not (PROJECT / file).is_file()] == []


def settings_problem(text: str, folder: Path) -> str | None:
    """Return why a node would reject these settings, with the defaults for all others; None if it accepts them."""
    file = folder / "config.toml"
    file.write_text(text)
    named = dict.fromkeys(re.findall(r'_env = "(\w+)"', text), "secret")
    try:
        load_config(file, named, known_platforms())
    except ConfigError as exc:
        return str(exc)
    return None


@of_each_document
def test_documented_settings_are_accepted(document: Path, tmp_path: Path) -> None:
    settings = [text for language, text in blocks_of(document) if language == "toml"]
    assert [wrong for text in settings if (wrong := settings_problem(text, tmp_path))] == []


def test_invalid_documented_setting_is_detected(tmp_path: Path) -> None:
    wrong = settings_problem("[server]\nworker = 4\n", tmp_path)
    assert wrong is not None
    assert "server.workers" in wrong


def blocks_in(name: str, language: str) -> list[str]:
    return [text for of, text in blocks_of(PROJECT / "docs" / name) if of == language]


def test_documented_redis_settings_are_accepted(tmp_path: Path) -> None:
    (text,) = blocks_in("many-nodes.md", "redis")
    settings = dict(shlex.split(line) for line in text.splitlines())
    options = tuple(word for name, value in settings.items() for word in (f"--{name}", value))
    with open_redis(tmp_path, options=options) as server:
        assert server.ask("CONFIG", "GET", "maxmemory-policy") == [b"maxmemory-policy", b"allkeys-lru"]
        assert server.ask("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"%d" % (1 << 30)]
    assert settings["save"] == ""


def test_documented_nginx_settings_are_accepted(tmp_path: Path) -> None:
    """Method: nginx parses the settings, without `ssl`, because the reader supplies the certificate."""
    (text,) = blocks_in("many-nodes.md", "nginx")
    file, paths = tmp_path / "nginx.conf", ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in paths)
    plain = text.replace("443 ssl", f"unix:{tmp_path}/socket")
    file.write_text(f"pid {tmp_path}/pid; events {{}} http {{ {own} access_log off;\n{plain} }}")
    read = [nginx_program(), "-t", "-q", "-e", "stderr", "-c", str(file)]
    done = subprocess.run(read, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def json_in(document: Path) -> Iterator[str]:
    """Yield JSON blocks, request bodies, and JSON within sentences."""
    text = document.read_text()
    yield from (block for language, block in blocks_of(document) if language == "json")
    yield from re.findall(r"(?:-d|--json) '(\{.*?\})'", text, re.S)
    yield from (span for span in re.findall(r'`(\{"[^`]*\})`', text) if not re.search(r"\{\w|: \w+:", span))


def whole(text: str) -> str:
    """Replace each ellipsis in the text with a value."""
    return re.sub(r"(?<=[:\[,{ ])\.\.\.(?=[\s,\]}])", "null", text)


@of_each_document
def test_documented_json_is_valid(document: Path) -> None:
    for text in json_in(document):
        orjson.loads(whole(text))


def test_documented_json_blocks_are_found() -> None:
    found = [text for document in DOCUMENTS for text in json_in(document)]
    assert len(found) > 12
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(whole('{"cron": 30 6}'))
