"""Wakes readers that wait for events."""
