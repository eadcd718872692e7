"""Caches of responses, and sharing of calls in progress."""
