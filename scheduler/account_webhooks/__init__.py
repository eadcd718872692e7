"""Account webhooks: batches of feed events, sent by the same service as Monitors' deliveries (decisions 22)."""
