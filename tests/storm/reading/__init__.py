"""Many long web pages requested concurrently, and the waiting time of other requests."""
