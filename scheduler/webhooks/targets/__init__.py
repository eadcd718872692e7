"""The targets of webhooks: their URLs and their registration."""
