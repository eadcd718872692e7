"""The pages of `/docs`, and the guides of endpoints."""
