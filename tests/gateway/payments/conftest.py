"""Nodes that sell packs through a fake Stripe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.payments.test_checkout import Shop, open_shop


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A new shop, whose ledger must be sound at the end."""
    async with open_shop(tmp_path) as shop:
        yield shop


@pytest.fixture
async def shop_on_each_engine(tmp_path: Path, store_url: str) -> AsyncIterator[Shop]:
    """A new shop, on each engine in turn."""
    async with open_shop(tmp_path, store_url=store_url) as shop:
        yield shop
