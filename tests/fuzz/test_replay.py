"""A failing case is saved and can be replayed from its file."""

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.fuzz.__main__ import run_round
from tests.fuzz.edge import Attack
from tests.fuzz.targets import Target, as_text, from_text
from tests.fuzz.upstream import Turn


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("edge", Attack(b"\0\xff\r\n", (1, 2), 4.0, ends=True, reads=False)),
        ("websocket", Attack(b"\x81\x80", (), 0.0, ends=False, reads=True)),
        ("upstream", (Turn("HEAD", b"\xff", (), 0.0, ends=False), Turn("GET", b"", (7,), 3.0, ends=True))),
    ],
)
def test_saved_case_equals_the_original(name: str, case: Attack | tuple[Turn, ...], tmp_path: Path):
    file = tmp_path / "case.json"
    file.write_text(as_text(name, case))
    assert from_text(file.read_text()) == (name, case)


def test_round_returns_the_smallest_failing_case(capsys: pytest.CaptureFixture[str]):
    def check(case: bytes) -> None:
        assert b"\n" not in case

    assert run_round(Target(st.binary(max_size=30), check), 1) == b"\n"
    assert "AssertionError" in capsys.readouterr().err
