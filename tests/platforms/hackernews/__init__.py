"""Hacker News."""
