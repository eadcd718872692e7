"""Deliveries: the queue, the attempts, and their log."""
