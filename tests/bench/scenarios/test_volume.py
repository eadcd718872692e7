"""The generated rows are such as the product enters, so that the ledger proves itself over them."""

from pathlib import Path

from bench.scenarios.volume import Volume, measure


async def test_generated_rows_prove_themselves_and_are_measured(tmp_path: Path) -> None:
    found = await measure(Volume(str(tmp_path), rows=2_000, accounts=4))
    assert found.rows == 2_000
    for figures in (found.small, found.full):
        assert all(figure > 0 for figure in (figures.charge_and_close_us, figures.page_us, figures.verified_per_s))
