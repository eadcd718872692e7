"""Bluesky over its recorded answers, over handmade bodies, and over its stand-in."""
