"""YouTube: what is odd about it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platforms.case import check
from tests.platforms.youtube.cases import CASES
from upstreams.platforms.youtube import PLATFORM


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_answer_becomes_the_records_of_the_table(case: Any) -> None:
    check(PLATFORM, case)
