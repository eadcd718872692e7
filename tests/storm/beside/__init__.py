"""Billed misses with and without background jobs, alternating."""
