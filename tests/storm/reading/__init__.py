"""Many long web pages at once, and the waiting time of other requests."""
