"""Billed misses with jobs beside them and without, by turns."""
