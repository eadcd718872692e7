"""Shared state on Redis: alone, in a cluster, or behind Sentinel."""
