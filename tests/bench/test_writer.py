"""The store's thread is measured with its own batches, whose misses are all settled."""

from pathlib import Path

import pytest

from bench.writer import KINDS, BatchKind, open_load


@pytest.mark.parametrize("batches", KINDS.values(), ids=KINDS)
def test_each_batch_settles_the_previous_one(tmp_path: Path, batches: BatchKind) -> None:
    with open_load(tmp_path, batches) as load:
        load.prepare(3)
        for _ in range(3):
            load.step()
