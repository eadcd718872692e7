"""Scheduled discover runs: slots as for Monitors, and rows compared with all earlier occurrences (decisions 19)."""
