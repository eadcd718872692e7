"""Mastodon."""
