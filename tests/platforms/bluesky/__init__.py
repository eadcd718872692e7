"""Bluesky over its recorded answers, over bodies made by hand, and over its stand-in."""
