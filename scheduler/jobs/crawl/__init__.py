"""Crawls and batches of pages: which links they follow, and how a page becomes a job step (decisions 21)."""
