"""Monitors: when they run, which numbers they store, and which changes they report (spec 2.6, 2.7, 4.5)."""
