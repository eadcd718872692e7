"""Scenarios without rates: the feed, monitors, deliveries and overload."""
