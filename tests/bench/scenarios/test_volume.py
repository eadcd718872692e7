"""The generated rows are such as the product enters, so that the ledger proves itself over them."""

from functools import partial
from pathlib import Path

from bench.scenarios.volume import Volume, filled, measure
from billing.ledger.verification import PIECE, verify
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store


async def test_generated_rows_prove_themselves_beside_traffic_and_are_measured(tmp_path: Path) -> None:
    found = await measure(Volume(str(tmp_path), rows=2_000, accounts=4))
    assert found.rows == 2_000
    assert found.beside > 0
    assert min(found.filled_per_s, found.verified_per_s, found.file_bytes) > 0
    for figures in (found.small, found.full):
        assert min(figures.charge_and_close_us, figures.balance_us, figures.page_us, figures.old_page_us) > 0


async def test_a_proof_tells_after_each_piece_how_many_rows_it_has_added_up(tmp_path: Path) -> None:
    said: list[int] = []
    await filled(tmp_path / "rows.db", PIECE // 2 + 1, 4)
    async with open_store(f"sqlite:///{tmp_path}/rows.db", MIGRATIONS) as store:
        assert await store.read(partial(verify, progress=said.append)) == []
    assert said == [0, PIECE, 2 * PIECE]
