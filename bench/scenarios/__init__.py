"""Scenarios that measure once: the feed, monitors, deliveries and overload."""
