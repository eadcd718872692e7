"""Durable work in the background: planned steps, a lease, a budget, progress, cancellation (decisions 17)."""
