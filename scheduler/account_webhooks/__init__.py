"""Account webhooks: batches of feed events, sent by the same deliveries as Monitor webhooks (decisions 22)."""
