"""Crawls and batches of pages: which links they follow, and how a page is a step of a job (decisions 21)."""
