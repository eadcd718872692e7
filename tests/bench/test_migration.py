"""An old ledger is created and started on, and the result is verified."""

import pytest

from bench.migration import main


def test_start_on_an_old_ledger_reports_its_time_and_mark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--entries", "300"]) == 0
    assert "of CPU), at most 60: met" in capsys.readouterr().out
