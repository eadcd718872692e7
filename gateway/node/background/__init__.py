"""The background work of a node: monitors, webhook deliveries, jobs, sessions and payments."""
