"""Upstream platforms: declarations, transport, cache and fetching (floor 2)."""
