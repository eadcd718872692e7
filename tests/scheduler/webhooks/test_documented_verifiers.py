"""The verifiers in docs/webhooks.md, run unchanged against genuine and forged deliveries."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scheduler.webhooks.signature import new_secret, sign
from tests.processes.commands import PROJECT

DOCUMENT = PROJECT / "docs" / "webhooks.md"
DRIVER = """
import { readFileSync } from "node:fs";
import { isGenuine } from "./verifier.mjs";
const [, , header, secret] = process.argv;
process.exit(isGenuine(header, readFileSync(0), secret) ? 0 : 1);
"""
RUN_S = 90.0
SECRET = new_secret(bytes)
BODY = '{"run_id":"run_1","text":"ünï %s \\\\n"}\n\n'.encode() + b"\xff\r\n"

Verifier = Callable[[str, bytes, str], bool]


def documented(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    return str(code)


def exits_well(command: Sequence[str], body: bytes, **environ: str) -> bool:
    environ["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(command, input=body, env=environ, capture_output=True, timeout=RUN_S, check=False)
    return done.returncode == 0


def in_python(folder: Path) -> Verifier:
    names: dict[str, Any] = {}
    exec(compile(documented("python"), str(DOCUMENT), "exec"), names)
    verifier: Verifier = names["is_genuine"]
    return verifier


def in_javascript(folder: Path) -> Verifier:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    (folder / "verifier.mjs").write_text(documented("js"))
    (folder / "driver.mjs").write_text(DRIVER)
    return lambda header, body, secret: exits_well([node, str(folder / "driver.mjs"), header, secret], body)


def in_shell(folder: Path) -> Verifier:
    file = folder / "verify.sh"
    file.write_text(documented("bash"))
    return lambda header, body, secret: exits_well(["sh", str(file), header], body, WEBHOOK_SECRET=secret)


@pytest.fixture(params=[in_python, in_javascript, in_shell])
def is_genuine(request: pytest.FixtureRequest, tmp_path: Path) -> Verifier:
    verifier: Verifier = request.param(tmp_path)
    return verifier


@pytest.mark.parametrize("secret", [SECRET, "a caller's own: ünd long"])
def test_genuine_delivery_is_accepted(is_genuine: Verifier, secret: str) -> None:
    assert is_genuine(sign(BODY, keys=[secret], at=time.time()), BODY, secret)


def test_delivery_is_accepted_with_either_secret_during_a_rotation(is_genuine: Verifier) -> None:
    header = sign(BODY, keys=["the new one", "the old one"], at=time.time())
    assert is_genuine(header, BODY, "the new one")
    assert is_genuine(header, BODY, "the old one")


def test_spaces_and_later_versions_are_ignored(is_genuine: Verifier) -> None:
    stamp, _, digest = sign(BODY, keys=[SECRET], at=time.time()).partition(",")
    assert is_genuine(f"{stamp}, v0=x, {digest}, v2=later", BODY, SECRET)


def test_forged_delivery_is_rejected(is_genuine: Verifier) -> None:
    now = time.time()
    header = sign(BODY, keys=[SECRET], at=now)
    stamp, _, digest = header.partition(",")
    assert not is_genuine(header, BODY, "another secret")
    assert not is_genuine(header, BODY + b"\n", SECRET)
    assert not is_genuine(header, BODY[:-1], SECRET)
    for at in (now - 400, now + 400):
        assert not is_genuine(sign(BODY, keys=[SECRET], at=at), BODY, SECRET)
    for bad in (
        "",
        stamp,
        digest,
        f"{stamp},v1=",
        f"{stamp},v1",
        f"{stamp},{stamp},{digest}",
        header[:-1],
        f"t=x,{digest}",
    ):
        assert not is_genuine(bad, BODY, SECRET), bad
