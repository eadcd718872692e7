"""Webhooks over HTTP: those of the account, and the deliveries of all."""
