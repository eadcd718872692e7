"""The targets of webhooks: their URLs, how they are registered, and how their hosts are resolved."""
