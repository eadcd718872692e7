"""Payments by card: Stripe's Checkout, and what its webhooks tell."""
