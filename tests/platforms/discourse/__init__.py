"""Discourse."""
