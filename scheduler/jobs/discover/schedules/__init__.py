"""Discover runs on a cadence: occurrences as Monitors' slots, and rows new against all earlier ones (decisions 19)."""
