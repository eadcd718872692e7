"""Card payments: Stripe Checkout and its webhooks."""
