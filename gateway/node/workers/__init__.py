"""Several worker processes that serve one address, and the supervisor that keeps them running."""
