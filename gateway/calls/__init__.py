"""Billed calls: plan, reserve, call, shape and settle, for requests and for monitor runs."""
