"""Webhooks and their deliveries, for their readers."""
