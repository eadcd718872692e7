"""Webhooks over HTTP: the account's webhooks, and the deliveries of all kinds."""
