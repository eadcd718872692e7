"""The generated rows equal those that the product writes, so that the ledger can be verified with them."""

from functools import partial
from pathlib import Path
from tempfile import gettempdir

import pytest

from bench.peers.shared_servers import missing_servers
from bench.scenarios.filling import HOUR_MS, POSTGRESQL, SQLITE, Misses, make_store
from bench.scenarios.volume import BEGAN_MS, Volume, measure
from billing.ledger.verification import PIECE, verify
from gateway.node.stores import MIGRATIONS
from storage.opening import open_store


@pytest.mark.parametrize("engine", [SQLITE, POSTGRESQL])
async def test_generated_rows_are_verified_and_measured_during_traffic(tmp_path: Path, engine: str) -> None:
    if engine == POSTGRESQL and "postgresql" in missing_servers():
        pytest.skip("PostgreSQL is not installed")
    folder = str(tmp_path) if engine == SQLITE else gettempdir()  # an unprivileged server must be able to enter it
    found = await measure(Volume(folder, rows=800, accounts=4, engine=engine, turns=1, batches=3))
    assert found.rows == 800
    assert found.beside > 0
    assert min(found.filled_per_s, found.verified_per_s, found.bytes_each) > 0
    for figures in (found.small, found.full):
        assert min(figures.charge_and_close_us, figures.balance_us, figures.page_us, figures.old_page_us) > 0


async def test_proof_reports_the_rows_after_each_piece(tmp_path: Path) -> None:
    said: list[int] = []
    await make_store(f"sqlite:///{tmp_path}/rows.db", Misses(PIECE // 2 + 1, 2, BEGAN_MS, HOUR_MS))
    async with open_store(f"sqlite:///{tmp_path}/rows.db", MIGRATIONS) as store:
        assert await store.read(partial(verify, progress=said.append)) == []
    assert said == [0, PIECE]
