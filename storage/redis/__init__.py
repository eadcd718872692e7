"""Shared state on Redis: a single server, a cluster, or behind Sentinel."""
