"""Waking those who wait for events."""
