"""Billed misses with and without background jobs, in turn."""
