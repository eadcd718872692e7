"""Discover over HTTP: runs and schedules (decisions 19)."""
