"""Caches of responses, and sharing of calls that are in progress."""
