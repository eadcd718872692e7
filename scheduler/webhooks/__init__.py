"""Webhook deliveries: payloads, signatures, retries, and single attempts over the network."""
