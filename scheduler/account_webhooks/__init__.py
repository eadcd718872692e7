"""Webhooks of the account: batches of its feed's events, by the deliveries that Monitors have too (decisions 22)."""
