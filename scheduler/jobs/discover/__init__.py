"""Discover runs: many keywords on every search, page after page, and what they found (decisions 19)."""
