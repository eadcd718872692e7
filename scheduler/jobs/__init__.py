"""Durable background jobs: planned steps, a lease, a budget, progress and cancellation (decisions 17)."""
