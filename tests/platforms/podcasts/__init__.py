"""Podcasts."""
