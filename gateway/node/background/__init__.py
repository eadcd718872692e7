"""The work of a node that runs by itself: monitors, deliveries of webhooks, jobs."""
