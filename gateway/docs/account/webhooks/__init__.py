"""Reference texts for webhooks and their deliveries."""
