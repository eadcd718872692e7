"""Runs by itself: monitors on their cadence, their runs and their webhooks (floor 4)."""
