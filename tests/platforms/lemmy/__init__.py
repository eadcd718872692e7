"""Lemmy."""
