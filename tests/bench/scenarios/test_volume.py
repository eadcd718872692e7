"""The generated rows are such as the product enters, so that the ledger proves itself over them."""

from pathlib import Path

from bench.scenarios.volume import Volume, measure


async def test_generated_rows_prove_themselves_beside_traffic_and_are_measured(tmp_path: Path) -> None:
    found = await measure(Volume(str(tmp_path), rows=2_000, accounts=4))
    assert found.rows == 2_000
    assert found.beside > 0
    assert min(found.filled_per_s, found.verified_per_s, found.file_bytes) > 0
    for figures in (found.small, found.full):
        assert min(figures.charge_and_close_us, figures.balance_us, figures.page_us, figures.old_page_us) > 0
