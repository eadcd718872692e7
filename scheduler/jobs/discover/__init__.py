"""Discover runs: many keywords, searched page by page on every platform's search, and their results (decisions 19)."""
