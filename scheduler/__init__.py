"""Scheduled and background work: monitors on their cadence, jobs, sessions, and webhooks (floor 4)."""
