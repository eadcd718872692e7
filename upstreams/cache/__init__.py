"""Caches of answers, and calls that are shared while they run."""
