"""A run of the suite tries the same examples as the previous one, so that a merge does not depend on luck."""

import importlib.util
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

ODD = 987_654_321_012_345


def drawn() -> list[int]:
    """Return the examples that Hypothesis generates for a test of integers."""
    seen: list[int] = []

    @settings(max_examples=300, derandomize=True)
    @given(st.integers(0, 10**18))
    def note(number: int) -> None:
        seen.append(number)

    note()
    return seen


def test_examples_do_not_depend_on_the_loaded_modules(tmp_path: Path) -> None:
    first = drawn()
    (tmp_path / "odd_constants.py").write_text(f"ODD = ({ODD}, {ODD + 1}, {ODD + 2})\n")
    spec = importlib.util.spec_from_file_location("odd_constants", tmp_path / "odd_constants.py")
    assert spec is not None
    sys.modules["odd_constants"] = importlib.util.module_from_spec(spec)
    try:
        assert drawn() == first
    finally:
        del sys.modules["odd_constants"]
    assert not {ODD, ODD + 1, ODD + 2} & set(first)
