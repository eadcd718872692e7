"""The plans of accounts."""

from typing import Literal, TypeAlias

Plan: TypeAlias = Literal["free", "starter", "growth", "pro", "enterprise"]
"""The plans, from the smallest to the largest."""
