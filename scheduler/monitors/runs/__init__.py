"""Runs: slots, leases, verdicts, and stored results."""
