"""Bluesky, tested with its recorded answers, with handmade bodies and with its stand-in."""
