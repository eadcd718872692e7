"""Monitors: when they run, which numbers they keep, and which changes they tell of (spec 2.6, 2.7, 4.5)."""
