"""Runs: slots, leases, verdicts, and what each leaves behind."""
