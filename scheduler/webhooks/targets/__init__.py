"""The targets of webhooks: their URLs, and how they are registered."""
