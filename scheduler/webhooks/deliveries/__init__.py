"""Deliveries: the queue, the attempts, and the log of both."""
