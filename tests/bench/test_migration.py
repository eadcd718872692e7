"""An old ledger is made and started on, and what came of it is proved."""

import pytest

from bench.migration import main


def test_start_on_an_old_ledger_reports_its_time_and_mark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--entries", "300"]) == 0
    assert "of CPU), at most 60: met" in capsys.readouterr().out
